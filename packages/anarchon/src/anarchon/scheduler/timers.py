"""
When is a run due here? One timer for all jobs, by the wall clock.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import logging
from collections.abc import Callable, Sequence
from random import Random

from anarchon.clock import Clock
from anarchon.events import ClockEvent, ErrorEvent
from anarchon.job import Job
from anarchon.scheduler.core import SchedulerCore
from anarchon.scheduler.decide import newest_due

__all__ = ["SLEEP_MS_MAX", "JobTimers"]

logger = logging.getLogger("anarchon")

SLEEP_MS_MAX = 30_000
"""
The longest sleep: after it the clocks are looked at, so that steps, suspend and resume heal.
"""

_STEP_MS = 1_000
_TURNS_MAX = 500


class _Armed:
    """
    A job's next slot. Replaced, never changed, so that a stale heap entry is told apart.
    """

    __slots__ = ("fire_ms", "job", "slot")

    def __init__(self, job: Job, slot: int, fire_ms: int) -> None:
        self.job = job
        self.slot = slot
        self.fire_ms = fire_ms


class JobTimers:
    """
    Arms each job's next slot, and tells which are due.

    The order of a heap by wall time makes a thousand daily jobs cost one wake in
    30 seconds. Nothing is ever matched against "now": the slot that was armed is
    the slot that is told, and a gap is jumped over in one step.

    Args:
        core: The scheduler.

        clock: The instance's clocks.

        random: Draws the jitter.

        early_ms: How long before a slot the loop is woken, and then turned until the slot
            begins. Its own timers round up, and are a millisecond or two late.

        ahead_ms: By how much the own wall clock is to be set back, to follow the store's.

        due: Told of what is due: job, slot, and by how much the timer was late (ms).

        stepped: Told by how many milliseconds the own wall clock has stepped.
    """

    def __init__(
        self,
        core: SchedulerCore,
        *,
        clock: Clock,
        random: Random,
        instance_id: str,
        early_ms: int,
        ahead_ms: Callable[[], int],
        due: Callable[[Sequence[tuple[Job, int, int]]], None],
        stepped: Callable[[int], None],
    ) -> None:
        self._core = core
        self._clock = clock
        self._random = random
        self._instance_id = instance_id
        self._early_ms = early_ms
        self._ahead_ms = ahead_ms
        self._due = due
        self._stepped = stepped
        self._armed: dict[str, _Armed] = {}
        self._heap: list[tuple[int, int, _Armed]] = []
        self._count = itertools.count()
        self._handle: asyncio.Handle | None = None
        self._turns = 0
        self._wakes_at_ms: int | None = None
        self._wall_ms = clock.wall_ms()
        self._suspend_ms = clock.suspend_ms()
        self._waking = False

    def now_ms(self) -> int:
        """
        Return the time that decides what is due: the wall clock, or the store's if that is well behind.
        """
        return self._clock.wall_ms() - self._ahead_ms()

    def arm(self, job: Job, after_ms: int) -> None:
        """
        Arm the first slot of *job* after *after_ms*.
        """
        try:
            slot = job.schedule.next_slot(after_ms)
        except Exception as error:  # noqa: BLE001 - a schedule of the user's own must not stop the other jobs
            self._schedule_failed(job, after_ms, error)
            return
        if slot is None:
            self._armed.pop(job.name, None)
            return
        self.arm_slot(job, slot)

    def arm_slot(self, job: Job, slot: int) -> None:
        """
        Arm exactly *slot*, with its jitter.
        """
        jitter_ms = int(self._random.random() * (job.jitter_ms + 1)) if job.jitter_ms else 0
        self._push(_Armed(job, slot, slot + jitter_ms))

    def stop(self) -> None:
        """
        Arm nothing any more.
        """
        self._armed.clear()
        self._heap.clear()
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _push(self, armed: _Armed) -> None:
        self._armed[armed.job.name] = armed
        heapq.heappush(self._heap, (armed.fire_ms, next(self._count), armed))
        if not self._waking and (self._wakes_at_ms is None or armed.fire_ms < self._wakes_at_ms):
            self._sleep()

    def _sleep(self) -> None:
        """
        Set the one timer: to the next slot, or as far as a sleep may go.
        """
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        self._drop_stale()
        if not self._heap:
            self._wakes_at_ms = None
            return
        wait_ms = min(max(0, self._heap[0][0] - self.now_ms()), SLEEP_MS_MAX)
        self._wakes_at_ms = self._heap[0][0]
        if wait_ms > self._early_ms:
            wait_ms -= self._early_ms
            self._turns = 0
        self._handle = asyncio.get_running_loop().call_later(wait_ms / 1_000, self._wake)

    def _drop_stale(self) -> None:
        while self._heap and self._armed.get(self._heap[0][2].job.name) is not self._heap[0][2]:
            heapq.heappop(self._heap)

    def _wake(self) -> None:
        self._handle = None
        if self._is_early():
            self._turns += 1
            self._handle = asyncio.get_running_loop().call_soon(self._wake)
            return
        self._waking = True
        try:
            self._look_at_clock()
            due = self._pop_due()
            if due:
                self._due(due)
        finally:
            self._waking = False
            self._sleep()

    def _is_early(self) -> bool:
        """
        Tell whether the loop is to be turned once more before the next slot begins.

        The bound on turns is for clocks that stand still: a timer waits for those.
        """
        self._drop_stale()
        if not self._heap or self._turns >= _TURNS_MAX:
            return False
        return 0 < self._heap[0][0] - self.now_ms() <= self._early_ms

    def _pop_due(self) -> list[tuple[Job, int, int]]:
        now_ms = self.now_ms()
        due: list[tuple[Job, int, int]] = []
        while True:
            self._drop_stale()
            if not self._heap or self._heap[0][0] > now_ms:
                return due
            _, _, armed = heapq.heappop(self._heap)
            del self._armed[armed.job.name]
            try:
                slot = newest_due(armed.job.schedule, armed.slot, now_ms)
            except Exception as error:  # noqa: BLE001 - a schedule of the user's own must not stop the other jobs
                self._schedule_failed(armed.job, armed.slot, error)
                continue
            due.append((armed.job, slot, max(0, now_ms - max(slot, armed.fire_ms))))
            self.arm(armed.job, slot)

    def _schedule_failed(self, job: Job, after_ms: int, error: Exception) -> None:
        """
        Tell that a schedule raised, and ask it again later.
        """
        message = f"job {job.name!r}: its schedule raised {type(error).__name__}: {error}"
        logger.error(message, exc_info=error, extra={"job": job.name})
        self._core.emit(
            ErrorEvent(instance=self._instance_id, message=message, job=job.name, error=error)
        )
        asyncio.get_running_loop().call_later(SLEEP_MS_MAX / 1_000, self._arm_again, job, after_ms)

    def _arm_again(self, job: Job, after_ms: int) -> None:
        if self._core.running and job.name not in self._armed:
            self.arm(job, max(after_ms, self.now_ms() - SLEEP_MS_MAX))

    def _look_at_clock(self) -> None:
        """
        Notice a step of the own wall clock, against the clock that never steps.
        """
        wall_ms, suspend_ms = self._clock.wall_ms(), self._clock.suspend_ms()
        step_ms = (wall_ms - self._wall_ms) - (suspend_ms - self._suspend_ms)
        self._wall_ms, self._suspend_ms = wall_ms, suspend_ms
        if abs(step_ms) <= _STEP_MS:
            return
        logger.warning("this instance's wall clock has stepped by %d ms", step_ms)
        self._core.emit(ClockEvent(instance=self._instance_id, which="own", step_ms=step_ms))
        self._stepped(step_ms)
