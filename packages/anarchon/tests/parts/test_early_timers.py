"""
A loop's timers round up, so the timers of jobs wake it a little early and turn it until the slot begins.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any, cast

import pytest

from anarchon import Every
from anarchon.capabilities import Capabilities, Reach
from anarchon.job import Job, build_job, make_spec
from anarchon.scheduler.core import SchedulerCore
from anarchon.scheduler.timers import JobTimers

SLOT = 1_791_633_610_000
TURNS_MAX = 500


class ReadClock:
    """
    A clock that stands two milliseconds before the slot, then one, and goes on at a given read.
    """

    def __init__(self, *, goes_on_at: int) -> None:
        self.reads = 0
        self._goes_on_at = goes_on_at

    def wall_ms(self) -> int:
        """
        The time: the first two reads are those of arming.
        """
        self.reads += 1
        if self.reads >= self._goes_on_at:
            return SLOT
        return SLOT - (2 if self.reads <= 2 else 1)

    def suspend_ms(self) -> int:
        """
        A clock that never steps.
        """
        return 0


class Told:
    """
    Timers with one job, and what they have told.
    """

    def __init__(self, clock: ReadClock, *, early_ms: int = 1) -> None:
        self.slots: asyncio.Queue[int] = asyncio.Queue()
        self.timers = JobTimers(
            cast("SchedulerCore", None),  # Only a schedule that raises is told there.
            clock=clock,
            random=random.Random(1),
            instance_id="me",
            early_ms=early_ms,
            ahead_ms=lambda: 0,
            due=self._due,
            stepped=lambda _: None,
        )
        self.timers.arm_slot(a_job(), SLOT)

    def _due(self, found: Sequence[tuple[Job, int, int]]) -> None:
        for _, slot, _ in found:
            self.slots.put_nowait(slot)


def a_job() -> Job:
    """
    A job without jitter.
    """
    return build_job(
        make_spec("job", lambda _: Every("10s"), lambda: None, {"jitter": 0}),
        Capabilities(leases=False, hints=False, store_clock=True, reach=Reach.PROCESS),
        backend="a backend",
        timezone="UTC",
        jitter=None,
        now_ms=SLOT,
    )


@pytest.fixture
def timers_set(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """
    The pauses in seconds for which timers were set on any loop.
    """
    found: list[float] = []
    call_later = asyncio.BaseEventLoop.call_later

    def noted(loop: asyncio.BaseEventLoop, delay: float, *args: Any, **kwargs: Any) -> Any:
        found.append(delay)
        return call_later(loop, delay, *args, **kwargs)

    monkeypatch.setattr(asyncio.BaseEventLoop, "call_later", noted)
    return found


def test_the_loop_is_turned_until_the_slot_begins(timers_set: list[float]) -> None:
    """
    One timer, a millisecond early; then the clock is looked at in each turn, and the slot told at once.
    """
    clock = ReadClock(goes_on_at=100)

    async def wait() -> int:
        told = Told(clock)
        slot = await told.slots.get()
        told.timers.stop()
        return slot

    assert SLOT == asyncio.run(wait())
    assert 0.001 == timers_set[0]
    # The next timer is that of the slot ten seconds later.
    assert [10.0 - 0.001] == timers_set[1:]


def test_a_clock_that_stands_still_is_waited_for_by_timers(timers_set: list[float]) -> None:
    """
    The loop is turned for a while only; who is early still tells no slot before its time.
    """
    clock = ReadClock(goes_on_at=TURNS_MAX + 20)

    async def wait() -> int:
        told = Told(clock)
        slot = await told.slots.get()
        told.timers.stop()
        return slot

    assert SLOT == asyncio.run(wait())
    assert [0.001, 0.001, 0.001] == timers_set[:3]


def test_a_loop_where_no_time_passes_is_not_turned(timers_set: list[float]) -> None:
    """
    A simulation's timers are exact, and its turns would be events of their own.
    """
    clock = ReadClock(goes_on_at=3)

    async def wait() -> int:
        told = Told(clock, early_ms=0)
        slot = await told.slots.get()
        told.timers.stop()
        return slot

    assert SLOT == asyncio.run(wait())
    assert 0.002 == timers_set[0]


def test_stop_ends_the_turning() -> None:
    """
    A scheduler that stops a millisecond before a slot does not tell it any more.
    """
    clock = ReadClock(goes_on_at=TURNS_MAX)

    async def wait() -> bool:
        told = Told(clock)
        while clock.reads < 50:  # noqa: ASYNC110 - the clock has no event, and this turns the loop as the timers do
            await asyncio.sleep(0)  # One turn of the loop.
        told.timers.stop()
        reads = clock.reads
        for _ in range(TURNS_MAX):
            await asyncio.sleep(0)  # One turn of the loop.
        return told.slots.empty() and reads == clock.reads

    assert asyncio.run(wait())
