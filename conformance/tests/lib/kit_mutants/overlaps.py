"""
Backends that are wrong about two slots of one job.
"""

from __future__ import annotations

from dataclasses import replace

from anarchon.backend import ClaimAnswer, ClaimRequest, RenewAnswer, RenewRequest, Verdict
from anarchon.protocol import Change, Now
from kit_mutants.base import Sound, State, trips


def _blocked(state: State, request: ClaimRequest, now: Now, *, released: bool) -> State:
    """
    Make an older run look as if it went on.
    """
    live = None if state is None else state.live
    if state is None or live is None or live.slot >= request.slot:
        return state
    if (live.token is None) is not released:
        return state
    held = replace(live, token="somebody's", lease_until_ms=now.lease_ms + 60_000)
    return replace(state, live=held)


@trips("OVL-1")
class SkipsWithoutHigh(Sound):
    """
    A skipped slot leaves high where it was, and is claimed again and again.
    """

    def on_claim(self, state: State, request: ClaimRequest, now: Now) -> Change[ClaimAnswer]:
        change = super().on_claim(state, request, now)
        if state is None or change.state is None or not change.answer.recorded:
            return change
        return replace(change, state=replace(change.state, high=state.high))


@trips("OVL-1")
class SkipsWithoutARecord(Sound):
    """
    A skipped slot is in no history.
    """

    def on_claim(self, state: State, request: ClaimRequest, now: Now) -> Change[ClaimAnswer]:
        change = super().on_claim(state, request, now)
        return replace(change, records=()) if change.answer.recorded else change


@trips("OVL-2", "TBL-1")
class ForgetsWhoSkipped(Sound):
    """
    A skip whose answer got lost is `done` the second time: nobody reports what was missed.
    """

    def on_claim(self, state: State, request: ClaimRequest, now: Now) -> Change[ClaimAnswer]:
        if state is not None:
            state = replace(state, skip=None)
        return super().on_claim(state, request, now)


@trips("OVL-3")
class WaitingIsSkipping(Sound):
    """
    A slot that should wait is skipped for good.
    """

    def on_claim(self, state: State, request: ClaimRequest, now: Now) -> Change[ClaimAnswer]:
        return super().on_claim(state, replace(request, overlap="skip"), now)


@trips("OVL-4")
class HidesTheRunInTheWay(Sound):
    """
    Whoever waits is not told for what, and waits for a dead run for ever.
    """

    def on_claim(self, state: State, request: ClaimRequest, now: Now) -> Change[ClaimAnswer]:
        change = super().on_claim(state, request, now)
        if change.answer.verdict is not Verdict.OVERLAP:
            return change
        return replace(change, answer=replace(change.answer, run=None))


@trips("OVL-5")
class DeadRunsBlock(Sound):
    """
    A run whose lease has run out still stands in the way.
    """

    def on_claim(self, state: State, request: ClaimRequest, now: Now) -> Change[ClaimAnswer]:
        return super().on_claim(_blocked(state, request, now, released=False), request, now)


@trips("OVL-6")
class ReleasedRunsBlock(Sound):
    """
    A run that was handed over still stands in the way.
    """

    def on_claim(self, state: State, request: ClaimRequest, now: Now) -> Change[ClaimAnswer]:
        return super().on_claim(_blocked(state, request, now, released=True), request, now)


@trips("OVL-5")
class LeavesSupersededRunning(Sound):
    """
    A run that was replaced is recorded as running for ever.
    """

    def on_claim(self, state: State, request: ClaimRequest, now: Now) -> Change[ClaimAnswer]:
        live = None if state is None else state.live
        change = super().on_claim(state, request, now)
        if live is None or request.slot <= live.slot or len(change.records) < 2:
            return change
        return replace(change, records=change.records[1:])


@trips("OVL-7")
class IgnoresOverlap(Sound):
    """
    Each slot is judged by itself: the store's rows are (job, slot).
    """

    def _row(self, job: str, slot: int) -> str:
        return f"{job}@{slot}"

    def on_claim(self, state: State, request: ClaimRequest, now: Now) -> Change[ClaimAnswer]:
        row = self._row(request.job, request.slot)
        change = super().on_claim(self._store.states.get(row), request, now)
        if change.state is not None:
            self._store.states[row] = change.state
        return change

    def on_renew(self, state: State, request: RenewRequest, now: Now) -> Change[RenewAnswer]:
        row = self._row(request.job, request.slot)
        return super().on_renew(self._store.states.get(row), request, now)


@trips("OVL-8")
class SkipEndsTheRun(Sound):
    """
    A later slot that is skipped takes the older run with it.
    """

    def on_claim(self, state: State, request: ClaimRequest, now: Now) -> Change[ClaimAnswer]:
        change = super().on_claim(state, request, now)
        if not change.answer.recorded or change.state is None:
            return change
        return replace(change, state=replace(change.state, live=None))
