"""
Backends that are wrong about their own life, their clock, their reach or their hints.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

from anarchon.backend import ClaimAnswer, ClaimRequest
from anarchon.capabilities import Capabilities, Reach
from anarchon.errors import BackendError, BackendStateError
from anarchon.life import Life
from anarchon.memory import MemoryStore
from anarchon.protocol import Change, Now
from kit_mutants.base import Sound, State, profile_of, trips, unanswered


@trips("LIF-1")
class OpensTwice(Sound):
    """
    A second open() is taken as it comes.
    """

    async def open(self, *, timeout_ms: int) -> None:
        if not self._life.is_open:
            await super().open(timeout_ms=timeout_ms)


@trips("LIF-2")
class ServesUnopened(Sound):
    """
    Nobody asks whether it was opened, or closed.
    """

    def _check(self) -> None:
        return


@trips("LIF-3")
class RefusesSecondClose(Sound):
    """
    Closing twice is an error.
    """

    async def close(self) -> None:
        if self._life.is_closed:
            raise BackendStateError("closed before")
        await super().close()


@trips("LIF-4", time_scale=0.01)
class HangsOnClose(Sound):
    """
    A call that is in flight when the backend is closed waits for ever.
    """

    async def claim(
        self, requests: Sequence[ClaimRequest], *, timeout_ms: int
    ) -> Sequence[ClaimAnswer | BackendError]:
        await asyncio.sleep(0.003)
        if self._life.is_closed:
            await asyncio.Event().wait()
        return await super().claim(requests, timeout_ms=timeout_ms)


@trips("LIF-4", time_scale=0.01)
class WatchesBeyondClose(Sound):
    """
    A watch goes on after its backend was closed.
    """

    async def close(self) -> None:
        self._watches.clear()
        await super().close()


@trips("LIF-5")
class ClonesForget(Sound):
    """
    A clone gets a store of its own.
    """

    def clone(self) -> Self:
        return type(self)(MemoryStore())


@trips("LIF-6")
class TellsSeconds(Sound):
    """
    time() counts seconds.
    """

    async def time(self, *, timeout_ms: int) -> int | None:
        return self._store.clock.wall_ms() // 1_000


@trips("LIF-6")
class AnswersByAnotherClock(Sound):
    """
    The answers carry a clock that is not the one of time().
    """

    def on_claim(self, state: State, request: ClaimRequest, now: Now) -> Change[ClaimAnswer]:
        change = super().on_claim(state, request, now)
        return replace(change, answer=replace(change.answer, store_now_ms=now.wall_ms - 60_000))


@trips("LIF-7")
class SpeaksAnotherVersion(Sound):
    """
    It speaks a version of the protocol that is not this one.
    """

    protocol_version: ClassVar[int] = 0


@trips("LIF-7")
class DeclaresHintsWithoutLeases(Sound):
    """
    What it declares makes no sense.
    """

    @property
    def capabilities(self) -> Capabilities:
        return replace(super().capabilities, leases=False)


async def _for_ever(_timeout_ms: int) -> None:
    await asyncio.Event().wait()


async def _as_long_as_it_likes(timeout_ms: int) -> None:
    await unanswered(timeout_ms * 20)


@trips("LIF-8", time_scale=0.01)
class WaitsForSilentStores(Sound):
    """
    A call to a store that says nothing has no end.
    """

    unanswered: ClassVar[Callable[[int], Awaitable[None]]] = staticmethod(_for_ever)


@trips("LIF-8", time_scale=0.01)
class HasATimeoutOfItsOwn(Sound):
    """
    A call ends when the backend sees fit, not when it was told to.
    """

    unanswered: ClassVar[Callable[[int], Awaitable[None]]] = staticmethod(_as_long_as_it_likes)


class ReachesTooFar(Sound):
    """
    Declares that processes share it, though it lives in the memory of one, with that one's clock.
    """

    @property
    def capabilities(self) -> Capabilities:
        return replace(super().capabilities, reach=Reach.HOST)


trips("CLM-3", "LAT-6", "TKO-13")(ReachesTooFar)

reaches_too_far = profile_of(ReachesTooFar, origin="kit_mutants.lives:reaches_too_far")
"""
A spawned process opens this profile by its origin, and finds a memory of its own.
"""


@trips("HNT-1", "HNT-2", "HNT-3", time_scale=0.02)
class LosesHints(Sound):
    """
    No hint ever arrives. That costs time, and is wrong only for who declares hints.
    """

    async def next_hint(self, runs: Any, *, timeout_ms: int) -> frozenset[str]:
        await super().next_hint([], timeout_ms=timeout_ms)
        return frozenset()


@trips("HNT-3", time_scale=0.02)
class MissesEarlierChanges(Sound):
    """
    What changed before somebody listened is not told.
    """

    def _already_over(self, runs: Sequence[tuple[str, int, int]]) -> set[str]:
        return set()


@trips("HNT-4", time_scale=0.01)
class WatchesForEver(Sound):
    """
    A watch has no end but a change.
    """

    async def next_hint(self, runs: Any, *, timeout_ms: int) -> frozenset[str]:
        return await super().next_hint(runs, timeout_ms=3_600_000)


@trips("HNT-4")
class TellsOfEveryJob(Sound):
    """
    A hint names jobs that nobody watches.
    """

    async def next_hint(self, runs: Any, *, timeout_ms: int) -> frozenset[str]:
        await super().next_hint(runs, timeout_ms=timeout_ms)
        return frozenset(self._store.states)


@trips("LIF-9")
class OpensBeyondClose(Sound):
    """
    An open() that is under way comes back although its backend was closed.
    """

    async def open(self, *, timeout_ms: int) -> None:
        await asyncio.sleep(0)
        if self._life.is_closed:
            self._life = Life()
        await super().open(timeout_ms=timeout_ms)


@trips("LIF-9", time_scale=0.01)
class HangsWhereItWasClosed(Sound):
    """
    An open() whose backend was closed waits for ever.
    """

    async def open(self, *, timeout_ms: int) -> None:
        await asyncio.sleep(0)
        if self._life.is_closed:
            await asyncio.Event().wait()
        await super().open(timeout_ms=timeout_ms)


@trips("LIF-10")
class IsUsedUpWhenCancelled(Sound):
    """
    Whoever gives up on open() has spoilt the backend.
    """

    async def open(self, *, timeout_ms: int) -> None:
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            self._life.close()
            raise
        await super().open(timeout_ms=timeout_ms)


@trips("LIF-11", time_scale=0.01)
class HasOneTry(Sound):
    """
    A store that was away at the first try has spoilt the backend.
    """

    async def open_in_vain(self, *, timeout_ms: int) -> None:
        try:
            await super().open_in_vain(timeout_ms=timeout_ms)
        finally:
            self._life.close()


@trips("LIF-11", time_scale=0.01)
class OpensForEver(Sound):
    """
    An open() whose store says nothing has no end.
    """

    async def open_in_vain(self, *, timeout_ms: int) -> None:
        async with self._life.opening():
            await _for_ever(timeout_ms)
