"""
Claim-only backends that are wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from anarchon.backend import ClaimAnswer, ClaimRequest, CloseAnswer, FinishRequest, Verdict
from anarchon.capabilities import Capabilities
from anarchon.errors import BackendError, RequestError
from anarchon.protocol import Now
from anarchon.records import Status
from kit_mutants.base import SoundClaimOnly, SoundForgetful, trips


@trips("CLO-1", "TBL-2")
class AnswersRunning(SoundClaimOnly):
    """
    Whoever loses hears of a lease that nobody keeps.
    """

    def _claim(self, request: ClaimRequest, now: Now) -> ClaimAnswer:
        answer = super()._claim(request, now)
        if answer.verdict is Verdict.TAKEN:
            return replace(answer, verdict=Verdict.RUNNING)
        return answer


@trips("CLO-2", "TBL-2")
class RefusesInterrupted(SoundClaimOnly):
    """
    A run that was in progress at stop is recorded as running for ever.
    """

    def _finish(self, request: FinishRequest, now: Now) -> CloseAnswer:
        if request.status is Status.INTERRUPTED:
            raise RequestError("a finish takes success or failed")
        return super()._finish(request, now)


@trips("CLO-3", "CLM-7")
class ForgetsAndGrants(SoundClaimOnly):
    """
    A slot that the store no longer remembers is granted.
    """

    def _forget(self, job: str, claims: dict[int, str]) -> None:
        super()._forget(job, claims)
        self._store.forgotten.clear()


@trips("CLO-4")
class GrantsSecondAttempts(SoundClaimOnly):
    """
    An attempt is part of the key, so that a second one is free.
    """

    def _claim(self, request: ClaimRequest, now: Now) -> ClaimAnswer:
        if request.attempt > 1:
            claims = self._store.claims.setdefault(request.job, {})
            claims.pop(request.slot, None)
            request = replace(request, attempt=1)
        return super()._claim(request, now)


@trips("CLM-4")
class OwnClaimIsTaken(SoundClaimOnly):
    """
    A repeated claim is taken for a stranger's.
    """

    def _claim(self, request: ClaimRequest, now: Now) -> ClaimAnswer:
        held = self._store.claims.get(request.job, {}).get(request.slot)
        if held == request.token:
            request = replace(request, token=f"{held}-")
        return super()._claim(request, now)


@trips("TBL-2", "FIN-4")
class FinishesForAnyone(SoundClaimOnly):
    """
    A finish's token is not looked at.
    """

    def _finish(self, request: FinishRequest, now: Now) -> CloseAnswer:
        view = self._store.view(request.job, request.slot, request.attempt)
        if view is not None:
            request = replace(request, token=view.token)
        return super()._finish(request, now)


@trips("LAT-5")
class BelievesFastClocks(SoundClaimOnly):
    """
    A slot of the future is granted.
    """

    def _claim(self, request: ClaimRequest, now: Now) -> ClaimAnswer:
        ahead = replace(now, wall_ms=max(now.wall_ms, request.slot))
        return super()._claim(request, ahead)


@trips("CLM-6")
class FinishFreesTheSlot(SoundClaimOnly):
    """
    With the end of a run its slot is to be had again.
    """

    async def finish(
        self, requests: Sequence[FinishRequest], *, timeout_ms: int
    ) -> Sequence[CloseAnswer | BackendError]:
        answers = await super().finish(requests, timeout_ms=timeout_ms)
        for request in requests:
            self._store.claims.get(request.job, {}).pop(request.slot, None)
        return answers


@trips("CLO-5")
class RemembersLessThanDeclared(SoundForgetful):
    """
    A slot that the declared memory covers is refused.
    """

    def floor(self, job: str, now: Now) -> int:
        return super().floor(job, replace(now, wall_ms=now.wall_ms + self.memory_ms // 2))


@trips("CLO-5")
class GrantsBeyondItsMemory(SoundForgetful):
    """
    A slot that is older than the declared memory is granted.
    """

    def floor(self, job: str, now: Now) -> int:
        return super().floor(job, replace(now, wall_ms=0))


@trips("CLO-6", "TBL-2")
class RisesByChance(SoundForgetful):
    """
    It declares that slots only rise, and grants an older one after a newer one.
    """

    def floor(self, job: str, now: Now) -> int:
        return now.wall_ms - self.memory_ms


@trips("CLO-6", "TBL-2")
class RefusesOlderSlots(SoundForgetful):
    """
    It grants rising slots alone, and does not declare it.
    """

    @property
    def capabilities(self) -> Capabilities:
        return replace(super().capabilities, rising_slots=False)
