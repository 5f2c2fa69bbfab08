"""
Backends that are wrong about takeover: whom they let take a run, and how often.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from anarchon.backend import (
    AnswerReason,
    ClaimAnswer,
    ClaimRequest,
    CloseAnswer,
    ReleaseRequest,
    Verdict,
)
from anarchon.memory import MemoryStore
from anarchon.protocol import Change, JobState, Live, Now, RecordOpen, RecordView
from anarchon.protocol.state import view
from kit_mutants.base import Sound, State, trips


def _over(live: Live, now: Now) -> bool:
    return live.token is None or live.lease_until_ms <= now.lease_ms


@trips("TKO-1")
class ShowsDates(Sound):
    """
    The remaining lease is a date, which the asker's clock would have to read.
    """

    def on_claim(self, state: State, request: ClaimRequest, now: Now) -> Change[ClaimAnswer]:
        change = super().on_claim(state, request, now)
        run = change.answer.run
        if run is None:
            return change
        dated = replace(run, remaining_ms=now.wall_ms + run.remaining_ms)
        return replace(change, answer=replace(change.answer, run=dated))


@trips("TKO-2")
class WinsTwiceAfterExpiry(Sound):
    """
    Every backup that saw the lease run out is told that it has won.
    """

    def on_claim(self, state: State, request: ClaimRequest, now: Now) -> Change[ClaimAnswer]:
        live = None if state is None else state.live
        if live is not None and live.attempt == request.attempt > 1 and live.slot == request.slot:
            request = replace(request, token=live.token or request.token)
        return super().on_claim(state, request, now)


@trips("TKO-3", "FNC-4", "TBL-1")
class TakesAnyAttempt(Sound):
    """
    Whoever claims a run that is over wins it, whatever attempt they had in mind.
    """

    def on_claim(self, state: State, request: ClaimRequest, now: Now) -> Change[ClaimAnswer]:
        live = None if state is None else state.live
        if live is not None and live.slot == request.slot and _over(live, now):
            request = replace(request, attempt=live.attempt + 1)
        return super().on_claim(state, request, now)


@trips("TKO-4")
class ShortensLeases(Sound):
    """
    A lease lasts a hundredth of what was asked.
    """

    lease_ms_min = 500  # Long enough that a busy machine still sees the difference.

    def on_claim(self, state: State, request: ClaimRequest, now: Now) -> Change[ClaimAnswer]:
        return super().on_claim(state, replace(request, lease_ms=request.lease_ms // 100), now)


@trips("TKO-5")
class LeavesOldRecordsRunning(Sound):
    """
    The record of the attempt that died says for ever that it runs.
    """

    def on_claim(self, state: State, request: ClaimRequest, now: Now) -> Change[ClaimAnswer]:
        change = super().on_claim(state, request, now)
        opened = tuple(record for record in change.records if isinstance(record, RecordOpen))
        return replace(change, records=opened)


@trips("TKO-6", "OVL-6")
class ReleaseKeepsTheLease(Sound):
    """
    A released run waits for the lease of the runner that has gone.
    """

    def on_release(
        self, state: State, record: RecordView | None, request: ReleaseRequest, now: Now
    ) -> Change[CloseAnswer]:
        change = super().on_release(state, record, request, now)
        if state is None or state.live is None or change.state is None:
            return change
        kept = replace(state.live, token="nobody's")
        return replace(change, state=replace(change.state, live=kept))


@trips("TKO-7")
class NeverGivesUp(Sound):
    """
    A job that kills its process walks through the whole fleet.
    """

    def on_claim(self, state: State, request: ClaimRequest, now: Now) -> Change[ClaimAnswer]:
        return super().on_claim(state, replace(request, max_crashes=1_000_000), now)


@trips("TKO-8")
class CountsHandOvers(Sound):
    """
    A few deploys give a long job up.
    """

    def on_release(
        self, state: State, record: RecordView | None, request: ReleaseRequest, now: Now
    ) -> Change[CloseAnswer]:
        change = super().on_release(state, record, request, now)
        if change.state is None or change.state.live is None:
            return change
        live = change.state.live
        counted = replace(live, crashes=live.crashes + 1)
        return replace(change, state=replace(change.state, live=counted))


class CountingStore(MemoryStore):
    """
    A store that remembers the crashes of each job.
    """

    def __init__(self) -> None:
        super().__init__()
        self.crashes: dict[str, int] = {}


@trips("TKO-9")
class CountsForEver(Sound):
    """
    What an old run's runners died of is held against the next slot.
    """

    store_type = CountingStore

    def on_claim(self, state: State, request: ClaimRequest, now: Now) -> Change[ClaimAnswer]:
        store = self._store
        assert isinstance(store, CountingStore)
        change = super().on_claim(state, request, now)
        granted = None if change.state is None else change.state.live
        if change.state is None or granted is None or change.answer.verdict is not Verdict.WON:
            return change
        crashes = max(granted.crashes, store.crashes.get(request.job, 0))
        store.crashes[request.job] = crashes
        return replace(change, state=replace(change.state, live=replace(granted, crashes=crashes)))


@trips("TKO-10")
class IgnoresTakeoverOff(Sound):
    """
    A job that must not be started twice is.
    """

    def on_claim(self, state: State, request: ClaimRequest, now: Now) -> Change[ClaimAnswer]:
        return super().on_claim(state, replace(request, takeover=True), now)


@trips("TKO-11")
class GrantsUnknownTakeovers(Sound):
    """
    A takeover of a run that nobody knows starts it.
    """

    def on_claim(self, state: State, request: ClaimRequest, now: Now) -> Change[ClaimAnswer]:
        if state is None or state.high is None or request.slot > state.high:
            request = replace(request, attempt=1)
        return super().on_claim(state, request, now)


@trips("TKO-12")
class TakeoverForgetsTheFirstHigh(Sound):
    """
    Whoever takes over cannot tell what was missed before the run.
    """

    def on_claim(self, state: State, request: ClaimRequest, now: Now) -> Change[ClaimAnswer]:
        change = super().on_claim(state, request, now)
        if request.attempt == 1 or change.answer.verdict is not Verdict.WON:
            return change
        return replace(change, answer=replace(change.answer, previous_high=request.slot))


@trips("OVL-9")
class RevivesSuperseded(Sound):
    """
    A run that a later slot has replaced can be taken over all the same.
    """

    def on_claim(self, state: State, request: ClaimRequest, now: Now) -> Change[ClaimAnswer]:
        live = None if state is None else state.live
        if request.attempt > 1 and live is not None and request.slot < live.slot:
            return super().on_claim(JobState(), replace(request, attempt=1), now)
        return super().on_claim(state, request, now)


class NamesFewerRuns(Sound):
    """
    Some answers name no run.
    """

    hides: ClassVar[frozenset[Verdict]] = frozenset()

    def on_claim(self, state: State, request: ClaimRequest, now: Now) -> Change[ClaimAnswer]:
        change = super().on_claim(state, request, now)
        if change.answer.verdict not in self.hides:
            return change
        return replace(change, answer=replace(change.answer, run=None))


@trips("TKO-14", "TBL-1")
class HidesTheRunWhenDone(NamesFewerRuns):
    """
    Who was late for a slot that is over does not hear that an older one goes on.
    """

    hides = frozenset({Verdict.DONE})


@trips("TKO-14", "TBL-1")
class HidesTheRunWhenLate(NamesFewerRuns):
    """
    Who is behind does not hear of the run that is live.
    """

    hides = frozenset({Verdict.LATE})


@trips("TKO-14")
class HidesTheRunWhenEarly(NamesFewerRuns):
    """
    Who asks too early, or for a run that nobody knows, does not hear of the one that is live.
    """

    hides = frozenset({Verdict.EARLY, Verdict.NONE})


@trips("TKO-14")
class NamesARunThatIsOver(Sound):
    """
    Whoever gives a run up is told to watch it.
    """

    def on_claim(self, state: State, request: ClaimRequest, now: Now) -> Change[ClaimAnswer]:
        change = super().on_claim(state, request, now)
        if change.answer.reason is not AnswerReason.GIVEN_UP or state is None or not state.live:
            return change
        return replace(change, answer=replace(change.answer, run=view(state.live, now)))
