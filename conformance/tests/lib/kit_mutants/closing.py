"""
Backends that are wrong about renewals, results and hand-overs, and whom they take them from.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from anarchon.backend import (
    ClaimAnswer,
    ClaimRequest,
    CloseAnswer,
    FinishRequest,
    ReleaseRequest,
    RenewAnswer,
    RenewRequest,
    Verdict,
)
from anarchon.memory import MemoryStore
from anarchon.protocol import Change, Now, RecordClose, RecordView
from anarchon.records import Status
from kit_mutants.base import Sound, State, trips

Record = RecordView | None


def _expired(state: State, request: Any, now: Now) -> bool:
    live = None if state is None else state.live
    return live is not None and live.slot == request.slot and live.lease_until_ms <= now.lease_ms


def _with_live_token(state: State, request: Any) -> Any:
    """
    Put the live token into a request, whoever sent it.
    """
    live = None if state is None else state.live
    if (
        live is None
        or live.token is None
        or (live.slot, live.attempt) != (request.slot, request.attempt)
    ):
        return request
    return replace(request, token=live.token)


def _as_live_attempt(state: State, request: Any) -> Any:
    """
    Take a request of an older attempt for one of the live attempt.
    """
    live = None if state is None else state.live
    if (
        live is None
        or live.token is None
        or live.slot != request.slot
        or request.attempt >= live.attempt
    ):
        return request
    return replace(request, attempt=live.attempt, token=live.token)


def _refused(state: State, now: Now) -> CloseAnswer:
    high = None if state is None else state.high
    return CloseAnswer(accepted=False, store_now_ms=now.wall_ms, high=high)


@trips("RNW-1")
class RenewsNothing(Sound):
    """
    A renewal is answered kindly, and the lease runs out all the same.
    """

    def on_renew(self, state: State, request: RenewRequest, now: Now) -> Change[RenewAnswer]:
        return Change(super().on_renew(state, request, now).answer)


@trips("RNW-1")
class NeverShortens(Sound):
    """
    A lease keeps the latest end that it ever had.
    """

    def on_renew(self, state: State, request: RenewRequest, now: Now) -> Change[RenewAnswer]:
        change = super().on_renew(state, request, now)
        if state is None or state.live is None or change.state is None or change.state.live is None:
            return change
        until_ms = max(state.live.lease_until_ms, change.state.live.lease_until_ms)
        live = replace(change.state.live, lease_until_ms=until_ms)
        return replace(change, state=replace(change.state, live=live))


@trips("RNW-2")
class RefusesLateRenewals(Sound):
    """
    A runner that was only slow loses its run to nobody.
    """

    def on_renew(self, state: State, request: RenewRequest, now: Now) -> Change[RenewAnswer]:
        if _expired(state, request, now):
            return Change(RenewAnswer(held=False, store_now_ms=now.wall_ms))
        return super().on_renew(state, request, now)


@trips("RNW-3")
class RenewsForAnyone(Sound):
    """
    A renewal's token is not looked at.
    """

    def on_renew(self, state: State, request: RenewRequest, now: Now) -> Change[RenewAnswer]:
        return super().on_renew(state, _with_live_token(state, request), now)


@trips("RNW-4")
class RenewsTheEnded(Sound):
    """
    A heartbeat after the end is still welcome.
    """

    def on_renew(self, state: State, request: RenewRequest, now: Now) -> Change[RenewAnswer]:
        change = super().on_renew(state, request, now)
        record = self._store.view(request.job, request.slot, request.attempt)
        if record is not None and record.token == request.token:
            return replace(change, answer=replace(change.answer, held=True))
        return change


@trips("RNW-5")
class RepeatsWithoutRenewal(Sound):
    """
    A claimer that had to ask twice starts with what is left of its lease.
    """

    def on_claim(self, state: State, request: ClaimRequest, now: Now) -> Change[ClaimAnswer]:
        live = None if state is None else state.live
        change = super().on_claim(state, request, now)
        if (
            live is not None
            and live.token == request.token
            and change.answer.verdict is Verdict.WON
        ):
            return Change(change.answer)
        return change


@trips("RNW-6")
class RenewsOnce(Sound):
    """
    The same renewal a second time is refused.
    """

    def on_renew(self, state: State, request: RenewRequest, now: Now) -> Change[RenewAnswer]:
        live = None if state is None else state.live
        if (
            live is not None
            and live.token == request.token
            and live.lease_ms == request.lease_ms - 1
        ):
            return Change(RenewAnswer(held=False, store_now_ms=now.wall_ms))
        return super().on_renew(state, replace(request, lease_ms=request.lease_ms - 1), now)


@trips("FIN-1")
class ForgetsErrors(Sound):
    """
    A failed attempt does not say of what.
    """

    def on_finish(
        self, state: State, record: Record, request: FinishRequest, now: Now
    ) -> Change[CloseAnswer]:
        return super().on_finish(state, record, replace(request, error=None, reason=None), now)


@trips("FIN-2", "TBL-1")
class FinishesAsInterrupted(Sound):
    """
    A late "finish as interrupted" closes a run that nobody completed.
    """

    def on_finish(
        self, state: State, record: Record, request: FinishRequest, now: Now
    ) -> Change[CloseAnswer]:
        if request.status is Status.INTERRUPTED:
            request = replace(request, status=Status.FAILED)
        return super().on_finish(state, record, request, now)


@trips("FIN-3", "CAN-2")
class RefusesRepeatedFinishes(Sound):
    """
    A finish whose answer got lost is refused the second time.
    """

    def on_finish(
        self, state: State, record: Record, request: FinishRequest, now: Now
    ) -> Change[CloseAnswer]:
        return super().on_finish(state, None, request, now)


@trips("FIN-4", "FNC-5")
class FinishesForAnyone(Sound):
    """
    A finish's token is not looked at.
    """

    def on_finish(
        self, state: State, record: Record, request: FinishRequest, now: Now
    ) -> Change[CloseAnswer]:
        return super().on_finish(state, record, _with_live_token(state, request), now)


@trips("FIN-5")
class RefusesLateFinishes(Sound):
    """
    A result that was only late is thrown away.
    """

    def on_finish(
        self, state: State, record: Record, request: FinishRequest, now: Now
    ) -> Change[CloseAnswer]:
        if _expired(state, request, now):
            return Change(_refused(state, now))
        return super().on_finish(state, record, request, now)


@trips("FIN-6")
class FinishedStaysLive(Sound):
    """
    The lease of a run that has ended goes on until it runs out.
    """

    def on_finish(
        self, state: State, record: Record, request: FinishRequest, now: Now
    ) -> Change[CloseAnswer]:
        return replace(super().on_finish(state, record, request, now), state=None)


@trips("HIS-6", "FIN-3")
class OverwritesResults(Sound):
    """
    The last result that arrives is the one that stays.
    """

    def on_finish(
        self, state: State, record: Record, request: FinishRequest, now: Now
    ) -> Change[CloseAnswer]:
        change = super().on_finish(state, record, request, now)
        stored = self._store.records.get(request.job, {}).get(
            (request.job, request.slot, request.attempt)
        )
        if stored is not None and change.answer.accepted and not change.records:
            stored.record = replace(stored.record, status=request.status, error=request.error)
        return change


@trips("FNC-6", "FNC-7")
class AcceptsOldResults(Sound):
    """
    A result is accepted from whoever once had the run.
    """

    def on_finish(
        self, state: State, record: Record, request: FinishRequest, now: Now
    ) -> Change[CloseAnswer]:
        change = super().on_finish(state, record, request, now)
        if record is not None and record.token == request.token:
            return replace(change, answer=replace(change.answer, accepted=True))
        return change


@trips("FNC-1")
class OldAttemptRenews(Sound):
    """
    A renewal of the attempt before prolongs the lease of the one that took over.
    """

    def on_renew(self, state: State, request: RenewRequest, now: Now) -> Change[RenewAnswer]:
        return super().on_renew(state, _as_live_attempt(state, request), now)


@trips("FNC-2")
class OldAttemptFinishes(Sound):
    """
    A result of the attempt before closes the one that took over.
    """

    def on_finish(
        self, state: State, record: Record, request: FinishRequest, now: Now
    ) -> Change[CloseAnswer]:
        return super().on_finish(state, record, _as_live_attempt(state, request), now)


@trips("FNC-3")
class OldAttemptReleases(Sound):
    """
    A hand-over by the attempt before takes the run from the one that took over.
    """

    def on_release(
        self, state: State, record: Record, request: ReleaseRequest, now: Now
    ) -> Change[CloseAnswer]:
        return super().on_release(state, record, _as_live_attempt(state, request), now)


@trips("REL-1")
class ReleasesWithoutARecord(Sound):
    """
    The history says of a run that was handed over that it goes on.
    """

    def on_release(
        self, state: State, record: Record, request: ReleaseRequest, now: Now
    ) -> Change[CloseAnswer]:
        return replace(super().on_release(state, record, request, now), records=())


@trips("REL-2", "TBL-1")
class LeavesTheToken(Sound):
    """
    A released run can be brought back by whatever its old runner had sent.
    """

    def on_release(
        self, state: State, record: Record, request: ReleaseRequest, now: Now
    ) -> Change[CloseAnswer]:
        change = super().on_release(state, record, request, now)
        if change.state is None or change.state.live is None:
            return change
        live = replace(change.state.live, token=request.token)
        return replace(change, state=replace(change.state, live=live))


@trips("REL-3", "CAN-3", "CAN-6")
class RefusesRepeatedReleases(Sound):
    """
    A release whose answer got lost is refused the second time.
    """

    def on_release(
        self, state: State, record: Record, request: ReleaseRequest, now: Now
    ) -> Change[CloseAnswer]:
        return super().on_release(state, None, request, now)


@trips("REL-4")
class ReleaseKeepsTheRunLive(Sound):
    """
    A run that must not be started twice stays live when it is released.
    """

    def on_release(
        self, state: State, record: Record, request: ReleaseRequest, now: Now
    ) -> Change[CloseAnswer]:
        return super().on_release(state, record, replace(request, takeover=True), now)


@trips("REL-5")
class ReleasesForAnyone(Sound):
    """
    A release's token is not looked at.
    """

    def on_release(
        self, state: State, record: Record, request: ReleaseRequest, now: Now
    ) -> Change[CloseAnswer]:
        return super().on_release(state, record, _with_live_token(state, request), now)


class StartlessStore(MemoryStore):
    """
    A store that never dates a start, or always by the newest word of it.
    """

    def started(self, job: str, slot: int, attempt: int, started_ms: int | None) -> None:
        return


@trips("HIS-3")
class ForgetsStarts(Sound):
    """
    When a handler began is never recorded by a renewal, and by a finish neither.
    """

    store_type = StartlessStore

    def on_finish(
        self, state: State, record: Record, request: FinishRequest, now: Now
    ) -> Change[CloseAnswer]:
        change = super().on_finish(state, record, request, now)
        records = tuple(
            replace(each, started_ms=None) if isinstance(each, RecordClose) else each
            for each in change.records
        )
        return replace(change, records=records)
