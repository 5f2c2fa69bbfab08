"""
Backends that are wrong about registration, schedules, and what an answer tells.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from anarchon.backend import ClaimAnswer, ClaimRequest, RegisterAnswer, RegisterRequest, Verdict
from anarchon.errors import BackendError
from anarchon.protocol import Change, Now
from kit_mutants.base import Sound, State, trips


@trips("REG-1")
class NewJobsHaveMissedEverything(Sound):
    """
    The slot of a new job's registration is thrown away.
    """

    def on_register(
        self, state: State, request: RegisterRequest, now: Now
    ) -> Change[RegisterAnswer]:
        if state is None:
            request = replace(request, slot=None)
        return super().on_register(state, request, now)


@trips("REG-2")
class RegistersTheFuture(Sound):
    """
    A slot is believed, whoever's clock it came from.
    """

    def on_register(
        self, state: State, request: RegisterRequest, now: Now
    ) -> Change[RegisterAnswer]:
        ahead = replace(now, wall_ms=max(now.wall_ms, request.slot or 0))
        return super().on_register(state, request, ahead)


@trips("REG-3")
class EmptyIsNew(Sound):
    """
    A job whose first slot is to come is new every time.
    """

    def on_register(
        self, state: State, request: RegisterRequest, now: Now
    ) -> Change[RegisterAnswer]:
        if state is not None and state.high is None and state.live is None:
            state = None
        return super().on_register(state, request, now)


@trips("REG-4")
class RegistrationMovesHigh(Sound):
    """
    Whoever starts last shuts what it has not run.
    """

    def on_register(
        self, state: State, request: RegisterRequest, now: Now
    ) -> Change[RegisterAnswer]:
        change = super().on_register(state, request, now)
        if state is None or request.slot is None or request.slot <= (state.high or 0):
            return change
        moved = replace(change.state or state, high=request.slot)
        return replace(change, state=moved, answer=replace(change.answer, high=request.slot))


@trips("REG-4")
class RegistrationHidesTheRun(Sound):
    """
    Whoever starts is not told what is going on.
    """

    def on_register(
        self, state: State, request: RegisterRequest, now: Now
    ) -> Change[RegisterAnswer]:
        change = super().on_register(state, request, now)
        return replace(change, answer=replace(change.answer, run=None))


@trips("REG-5", "TBL-1")
class TellsTheNewSchedule(Sound):
    """
    The schedule that is told is the one that was just given.
    """

    def on_register(
        self, state: State, request: RegisterRequest, now: Now
    ) -> Change[RegisterAnswer]:
        change = super().on_register(state, request, now)
        told = replace(change.answer, fingerprint=request.fingerprint)
        return replace(change, answer=told)


@trips("REG-6")
class NeverSince(Sound):
    """
    A changed schedule is as old as the job.
    """

    def on_register(
        self, state: State, request: RegisterRequest, now: Now
    ) -> Change[RegisterAnswer]:
        change = super().on_register(state, request, now)
        answer = replace(change.answer, since_ms=None)
        after = None if change.state is None else replace(change.state, since_ms=None)
        return replace(change, answer=answer, state=after)


@trips("REG-6")
class SilenceIsASchedule(Sound):
    """
    A registration without a fingerprint wipes the one that stood there.
    """

    def on_register(
        self, state: State, request: RegisterRequest, now: Now
    ) -> Change[RegisterAnswer]:
        change = super().on_register(state, request, now)
        if state is None or request.fingerprint is not None:
            return change
        return replace(change, state=replace(change.state or state, fingerprint=None))


@trips("REG-7")
class GrantsWithoutASchedule(Sound):
    """
    A claim's fingerprint is thrown away.
    """

    def on_claim(self, state: State, request: ClaimRequest, now: Now) -> Change[ClaimAnswer]:
        return super().on_claim(state, replace(request, fingerprint=None), now)


@trips("REG-8")
class DigestsAreChanges(Sound):
    """
    New rules for a zone, or a new year, count as a new schedule.
    """

    def on_register(
        self, state: State, request: RegisterRequest, now: Now
    ) -> Change[RegisterAnswer]:
        change = super().on_register(state, request, now)
        if state is None or change.state is None or state.zone_digests == request.zone_digests:
            return change
        answer = replace(change.answer, since_ms=now.wall_ms)
        return replace(change, answer=answer, state=replace(change.state, since_ms=now.wall_ms))


@trips("REG-9")
class SplitsRegistration(Sound):
    """
    Looks, lets others go on, and writes what it decided before.
    """

    async def register(
        self, requests: Sequence[RegisterRequest], *, timeout_ms: int
    ) -> Sequence[RegisterAnswer | BackendError]:
        self._check()
        answers: list[RegisterAnswer | BackendError] = []
        for request in requests:
            state = self._store.states.get(request.job)
            await asyncio.sleep(0)
            change = self.on_register(state, request, self._store.now())
            answers.append(self._apply(request.job, change))
        return answers


@trips("REG-10")
class LosersLearnNothing(Sound):
    """
    Only the winner is told high.
    """

    def on_claim(self, state: State, request: ClaimRequest, now: Now) -> Change[ClaimAnswer]:
        change = super().on_claim(state, request, now)
        if change.answer.verdict is Verdict.WON:
            return change
        return replace(change, answer=replace(change.answer, high=None))


@trips("REG-10")
class ForgetsSince(Sound):
    """
    The answers to claims do not tell since when the schedule is what it is.
    """

    def on_claim(self, state: State, request: ClaimRequest, now: Now) -> Change[ClaimAnswer]:
        change = super().on_claim(state, request, now)
        return replace(change, answer=replace(change.answer, since_ms=None))
