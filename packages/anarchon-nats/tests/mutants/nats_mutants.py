"""
Backends with one fault each in how they read and write the messages of runs.

A module of its own, so that the processes which the kit starts find them by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from anarchon.backend import ClaimAnswer, ClaimRequest, CloseAnswer, FinishRequest, Verdict
from anarchon.errors import BackendError
from anarchon_conformance.profile import BackendProfile
from anarchon_nats import NatsBackend
from anarchon_nats.conformance import opener_for
from anarchon_nats.history import HistoryReader
from anarchon_nats.ledger import Ledger
from anarchon_nats.messages import token_of
from anarchon_nats.wire import Wire


class Mutant(NatsBackend):
    """
    A backend whose ledger or reader is another one.
    """

    ledger: ClassVar[type[Ledger]] = Ledger
    reader_of_history: ClassVar[type[HistoryReader]] = HistoryReader

    async def _prepare(self, wire: Wire) -> Any:
        parts = await super()._prepare(wire)
        parts.ledger.__class__ = self.ledger
        parts.history.__class__ = self.reader_of_history
        return parts


class DeafLedger(Ledger):
    """
    Takes every claim that is refused for a stranger's.
    """

    async def claim(self, requests: Sequence[ClaimRequest]) -> list[ClaimAnswer | BackendError]:
        """
        Look at no message.
        """
        answers = await super().claim(requests)
        seen = self.__dict__.setdefault("seen", set())
        for place, request in enumerate(requests):
            key = (request.job, request.slot, request.token)
            if key in seen:
                answers[place] = ClaimAnswer(verdict=Verdict.TAKEN)
            seen.add(key)
        return answers


class ForgetfulLedger(Ledger):
    """
    Grants a slot however old it is.
    """

    async def forgotten_until(self) -> int:
        """
        Have no bound.
        """
        await super().forgotten_until()
        return -(2**53)


class TrustingLedger(Ledger):
    """
    Lets anyone finish a run.
    """

    async def finish(self, requests: Sequence[FinishRequest]) -> list[CloseAnswer | BackendError]:
        """
        Put the right token in the place of the one that was given.
        """
        subjects = {
            place: self._subjects.claim(each.job, each.slot) for place, each in enumerate(requests)
        }
        found = await self._read(subjects)
        trusted = []
        for place, request in enumerate(requests):
            message = found[place]
            token = request.token if message is None else token_of(message)
            trusted.append(replace(request, token=token))
        return await super().finish(trusted)


class ForgivingLedger(Ledger):
    """
    Lets the last end of a run count, not the first.
    """

    async def _publish(self, letters: Mapping[int, Any]) -> dict[int, bool]:
        ends = [each.subject for each in letters.values() if ".end." in each.subject]
        if ends:
            await self._stream.purge(ends)
        return await super()._publish(letters)


class ScatteredLedger(Ledger):
    """
    Claims on a subject of each token's own, so that everybody is first.
    """

    async def claim(self, requests: Sequence[ClaimRequest]) -> list[ClaimAnswer | BackendError]:
        """
        Claim as if the token were a part of the job's name.
        """
        return await super().claim(
            [replace(each, job=f"{each.job}{each.token}") for each in requests]
        )


class BoundlessReader(HistoryReader):
    """
    Tells of what is beyond the retention, too.
    """

    async def read(self, job: str | None, *, limit: int) -> Any:
        """
        Keep any number.
        """
        self._retention = replace(self._retention, records_per_job=10**9)
        return await super().read(job, limit=limit)


class Deaf(Mutant):
    """
    See DeafLedger.
    """

    ledger: ClassVar[type[Ledger]] = DeafLedger


class Forgetful(Mutant):
    """
    See ForgetfulLedger.
    """

    ledger: ClassVar[type[Ledger]] = ForgetfulLedger


class Trusting(Mutant):
    """
    See TrustingLedger.
    """

    ledger: ClassVar[type[Ledger]] = TrustingLedger


class Forgiving(Mutant):
    """
    See ForgivingLedger.
    """

    ledger: ClassVar[type[Ledger]] = ForgivingLedger


class Scattered(Mutant):
    """
    See ScatteredLedger.
    """

    ledger: ClassVar[type[Ledger]] = ScatteredLedger


class Boundless(Mutant):
    """
    See BoundlessReader.
    """

    reader_of_history: ClassVar[type[HistoryReader]] = BoundlessReader


def _profile(kind: type[NatsBackend]) -> BackendProfile:
    return BackendProfile(name=kind.__name__, open=opener_for(kind))


sound = _profile(Mutant)
deaf = _profile(Deaf)
forgetful = _profile(Forgetful)
trusting = _profile(Trusting)
forgiving = _profile(Forgiving)
scattered = _profile(Scattered)
boundless = _profile(Boundless)
