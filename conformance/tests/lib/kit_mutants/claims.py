"""
Backends that are wrong about claims: who wins, when, and how often.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import replace

from anarchon.backend import (
    AnswerReason,
    ClaimAnswer,
    ClaimRequest,
    CloseAnswer,
    FinishRequest,
    Verdict,
)
from anarchon.errors import BackendError
from anarchon.protocol import Change, JobState, Now, RecordView, decide_claim
from kit_mutants.base import Sound, State, trips


@trips("CLM-1")
class SplitsCheckAndWrite(Sound):
    """
    Looks, lets others go on, and writes what it decided before.
    """

    async def claim(
        self, requests: Sequence[ClaimRequest], *, timeout_ms: int
    ) -> Sequence[ClaimAnswer | BackendError]:
        self._check()
        answers: list[ClaimAnswer | BackendError] = []
        for request in requests:
            state = self._store.states.get(request.job)
            await asyncio.sleep(0)
            change = decide_claim(state, request, self._store.now())
            answers.append(self._apply(request.job, change))
        return answers


@trips("CLM-2")
class KeepsStateByThread(Sound):
    """
    What one thread has granted the others do not see.
    """

    @staticmethod
    def store_key(namespace: str) -> object:
        return namespace, threading.get_ident()


@trips("CLM-4", "CAN-5")
class ForgetsWhoAsked(Sound):
    """
    A repeated claim is taken for a stranger's.
    """

    def on_claim(self, state: State, request: ClaimRequest, now: Now) -> Change[ClaimAnswer]:
        live = None if state is None else state.live
        if live is not None and live.token == request.token:
            request = replace(request, token=f"{request.token}-")
        return super().on_claim(state, request, now)


@trips("CLM-5")
class LoserTakesTheToken(Sound):
    """
    A claim that loses leaves its token where the winner's was.
    """

    def on_claim(self, state: State, request: ClaimRequest, now: Now) -> Change[ClaimAnswer]:
        change = super().on_claim(state, request, now)
        live = None if state is None else state.live
        if change.answer.verdict is Verdict.RUNNING and state is not None and live is not None:
            return replace(change, state=replace(state, live=replace(live, token=request.token)))
        return change


@trips("CLM-6")
class ForgetsWhatEnded(Sound):
    """
    With the end of a run all that was known of its job is gone.
    """

    def on_finish(
        self, state: State, record: RecordView | None, request: FinishRequest, now: Now
    ) -> Change[CloseAnswer]:
        change = super().on_finish(state, record, request, now)
        return change if change.state is None else replace(change, state=JobState())


@trips("CLM-7")
class LosesHighOnPrune(Sound):
    """
    A slot is protected by its record alone; when that is pruned, the slot is to be had.
    """

    def on_claim(self, state: State, request: ClaimRequest, now: Now) -> Change[ClaimAnswer]:
        kept = {slot for _, slot, _ in self._store.records.get(request.job, {})}
        if state is not None and state.live is None and request.slot not in kept:
            state = replace(state, high=None)
        return super().on_claim(state, request, now)


@trips("CLM-8")
class ForgetsThePreviousHigh(Sound):
    """
    The winner is not told what was missed.
    """

    def on_claim(self, state: State, request: ClaimRequest, now: Now) -> Change[ClaimAnswer]:
        change = super().on_claim(state, request, now)
        return replace(change, answer=replace(change.answer, previous_high=None))


@trips("LAT-1")
class RunsOldSlots(Sound):
    """
    There is no high: what was never claimed may always be claimed.
    """

    def on_claim(self, state: State, request: ClaimRequest, now: Now) -> Change[ClaimAnswer]:
        known = self._store.view(request.job, request.slot, 1)
        if state is not None and state.live is None and known is None:
            state = replace(state, high=None)
        return super().on_claim(state, request, now)


@trips("LAT-2")
class IgnoresLateness(Sound):
    """
    A slot is never too old.
    """

    def on_claim(self, state: State, request: ClaimRequest, now: Now) -> Change[ClaimAnswer]:
        return super().on_claim(state, replace(request, max_lateness_ms=None), now)


@trips("LAT-3")
class GrantsAfterNotAfter(Sound):
    """
    A claim is granted whenever it arrives.
    """

    def on_claim(self, state: State, request: ClaimRequest, now: Now) -> Change[ClaimAnswer]:
        return super().on_claim(state, replace(request, not_after_ms=None), now)


@trips("LAT-8")
class ExpiresSkips(Sound):
    """
    The time is checked before the token that skipped: who asks late reports no range.
    """

    def on_claim(self, state: State, request: ClaimRequest, now: Now) -> Change[ClaimAnswer]:
        not_after_ms = request.not_after_ms
        if state is not None and not_after_ms is not None and now.wall_ms > not_after_ms:
            state = replace(state, skip=None)
        return super().on_claim(state, request, now)


@trips("LAT-4")
class ExpiresWhatItGranted(Sound):
    """
    The time is checked before the token.
    """

    def on_claim(self, state: State, request: ClaimRequest, now: Now) -> Change[ClaimAnswer]:
        if request.not_after_ms is not None and now.wall_ms > request.not_after_ms:
            late = ClaimAnswer(
                verdict=Verdict.LATE,
                reason=AnswerReason.EXPIRED,
                store_now_ms=now.wall_ms,
                high=None if state is None else state.high,
            )
            return Change(late)
        return super().on_claim(state, request, now)


@trips("LAT-5")
class BelievesFastClocks(Sound):
    """
    A slot of the future is granted, and one bad clock moves high there.
    """

    def on_claim(self, state: State, request: ClaimRequest, now: Now) -> Change[ClaimAnswer]:
        return super().on_claim(
            state, request, replace(now, wall_ms=max(now.wall_ms, request.slot))
        )


@trips("LAT-5")
class EarlyMovesHigh(Sound):
    """
    Whoever is early is told so, and shuts the job all the same.
    """

    def on_claim(self, state: State, request: ClaimRequest, now: Now) -> Change[ClaimAnswer]:
        change = super().on_claim(state, request, now)
        if change.answer.verdict is Verdict.EARLY:
            moved = replace(state or JobState(), high=request.slot)
            return replace(change, state=moved)
        return change


@trips("LAT-7")
class ToleratesNothing(Sound):
    """
    A slot that is a millisecond ahead is early.
    """

    def on_claim(self, state: State, request: ClaimRequest, now: Now) -> Change[ClaimAnswer]:
        if request.slot > now.wall_ms:
            early = ClaimAnswer(verdict=Verdict.EARLY, store_now_ms=now.wall_ms, wait_ms=1)
            return Change(early)
        return super().on_claim(state, request, now)


@trips("FNC-5")
class TrustsInstanceIds(Sound):
    """
    Whoever carries the runner's name is the runner.
    """

    def on_claim(self, state: State, request: ClaimRequest, now: Now) -> Change[ClaimAnswer]:
        live = None if state is None else state.live
        if live is not None and live.token is not None and live.instance_id == request.instance_id:
            request = replace(request, token=live.token)
        return super().on_claim(state, request, now)
