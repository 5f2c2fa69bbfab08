"""
The kernel: one virtual time, many lanes, and a seeded choice of what runs next.

A step is one callback of one lane. While any lane can run the time stands; then it
jumps to the next timer. The same seed makes the same choices, in every process.
"""

from __future__ import annotations

import asyncio
import gc
import heapq
import warnings
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from anarchon_simulation.blocking import VirtualEvent, real_time_is_away
from anarchon_simulation.counted import CountedHandle
from anarchon_simulation.digest import Digest
from anarchon_simulation.inside_asyncio import enter_loop
from anarchon_simulation.lanes import Lane, Order

if TYPE_CHECKING:
    from anarchon_simulation.loop import SimulatedLoop

__all__ = ["DeadlockError", "Kernel", "SimulationError"]

_STEPS_PER_COLLECTION = 400_000


class SimulationError(Exception):
    """
    The simulation itself cannot go on.
    """


class DeadlockError(SimulationError):
    """
    Nothing can ever happen any more, or things happen without end at one instant.
    """


class _Timer:
    """
    An entry of the heap: work for a lane, or a call of the kernel's own.
    """

    __slots__ = ("call", "lane", "work")

    def __init__(
        self,
        lane: SimulatedLoop | None,
        work: CountedHandle | None,
        call: Callable[[], None] | None,
    ) -> None:
        self.lane = lane
        self.work = work
        self.call = call


class Kernel:
    """
    Runs lanes on virtual time.

    Args:
        seed: Decides every choice.

        order: How a lane orders its own work.

        instant_steps_max: How many steps one instant may take before it counts
            as a loop without end.
    """

    def __init__(
        self, seed: int | str, *, order: Order = "fifo", instant_steps_max: int = 1_000_000
    ) -> None:
        self.order: Order = order
        self.random = Random(f"{seed}:order")  # noqa: S311 - a seed must give the same choices again
        self.now_us = 0
        # How far the callback that runs now has blocked its thread: its clocks are ahead of the kernel's.
        self.ahead_us = 0
        self.steps = 0
        self.digest = Digest()
        self.running_lane: Lane | None = None
        self._instant_steps_max = instant_steps_max
        self._numbers = 0
        self._sequence = 0
        self._heap: list[tuple[int, int, _Timer]] = []
        self._runnable: list[Lane] = []
        self._closing: list[Callable[[], None]] = []
        self.closed = False
        self.left_unstarted = False

    # What lanes and loops ask for.

    def number(self) -> int:
        """
        Count: tasks, futures and lanes carry numbers instead of addresses.
        """
        self._numbers += 1
        return self._numbers

    def can_run(self, lane: Lane) -> None:
        """
        Take a lane among those that can run.
        """
        lane.queued = True
        self._runnable.append(lane)

    def at(self, when_us: int, call: Callable[[], None]) -> None:
        """
        Call the kernel's own *call* at an instant of true time, whatever lanes are doing.
        """
        self._push(when_us, _Timer(None, None, call))

    def after(self, pause_us: int, call: Callable[[], None]) -> None:
        """
        Call in a while, counted from where the callback that runs now has got to.
        """
        self.at(self.now_us + self.ahead_us + pause_us, call)

    def at_loop(self, when_us: int, lane: SimulatedLoop, work: CountedHandle) -> None:
        """
        Give *work* to a loop at an instant of true time.
        """
        self._push(when_us, _Timer(lane, work, None))

    def on_close(self, call: Callable[[], None]) -> None:
        """
        Call at the end, when nothing counts any more.
        """
        self._closing.append(call)

    # What blocking means in a callback: it blocks its loop.

    def sleep(self, duration_us: int) -> None:
        """
        Move the clocks of this callback on; nothing else of its lane runs meanwhile.
        """
        self.ahead_us += duration_us

    def wait_for(self, event: VirtualEvent, timeout_us: int | None) -> bool:
        """
        Wait in a callback. Nobody else can act meanwhile: what is not set now never will be.
        """
        if event.is_set() or timeout_us is None:
            if not event.is_set():
                msg = (
                    "a callback waits without end for an event, and blocks its event loop for ever"
                )
                raise DeadlockError(msg)
            return True
        self.sleep(timeout_us)
        return False

    # Running.

    def run(self, until: Callable[[], bool], *, limit_us: int | None = None) -> None:
        """
        Run until a condition holds, looked at before each jump of the time.

        Raises:
            DeadlockError: Nothing is left that could make it hold, or it does not
                hold at *limit_us*.
        """
        collecting = gc.isenabled()
        gc.disable()  # Finalizers run where the replay has them run: between two steps, by their number.
        try:
            with real_time_is_away(self):
                self._run(until, limit_us)
        finally:
            enter_loop(None)
            if collecting:
                gc.enable()

    def run_until(self, when_us: int, *, unless: Callable[[], bool] = lambda: False) -> None:
        """
        Run up to an instant and stand there, or to where *unless* holds.
        """
        heap = self._heap
        self.run(lambda: not heap or heap[0][0] > when_us or unless())
        if not unless():
            self.now_us = max(self.now_us, when_us)

    def close(self) -> None:
        """
        End the world: nothing that still stirs has any effect.
        """
        if self.closed:
            return
        self.closed = True
        with real_time_is_away(self), warnings.catch_warnings():
            # Coroutines that were made and never begun are left behind, as by any power cut.
            warnings.simplefilter("ignore", RuntimeWarning)
            for call in self._closing:
                call()
            self._closing.clear()
            self._heap.clear()
            self._runnable.clear()
            if self.left_unstarted:
                gc.collect()

    def _push(self, when_us: int, timer: _Timer) -> None:
        self._sequence += 1
        heapq.heappush(self._heap, (when_us, self._sequence, timer))

    def _run(self, until: Callable[[], bool], limit_us: int | None) -> None:
        runnable, draw, step = self._runnable, self.random.random, self.digest.step
        at_this_instant = 0
        current: asyncio.AbstractEventLoop | None = None
        while True:
            if not runnable:
                if until():
                    return
                if limit_us is not None and (not self._heap or self._heap[0][0] > limit_us):
                    msg = (
                        f"what was waited for has not come by {limit_us / 1e6:g} s of virtual time"
                    )
                    raise DeadlockError(msg)
                self._jump()
                at_this_instant = 0
                continue
            index = int(draw() * len(runnable))
            lane = runnable[index]
            if not lane.ready:
                runnable[index] = runnable[-1]
                runnable.pop()
                lane.queued = False
                continue
            work = lane.take(draw)
            if work.cancelled():
                continue
            loop = lane.loop
            if loop is not current:
                enter_loop(loop)
                current = loop
            self.running_lane = lane
            try:
                work.call()
            finally:
                self.running_lane = None
            self.steps += 1
            step(lane.number, self.now_us)
            if self.ahead_us:
                self._hold_for(lane, self.ahead_us)
                self.ahead_us = 0
            if self.steps % _STEPS_PER_COLLECTION == 0:
                gc.collect()
            at_this_instant += 1
            if at_this_instant > self._instant_steps_max:
                msg = f"{at_this_instant} steps at one instant, {self.now_us / 1e6:g} s: something spins"
                raise DeadlockError(msg)

    def _hold_for(self, lane: Lane, duration_us: int) -> None:
        """
        The callback has blocked its thread: nothing else of that lane runs meanwhile.
        """
        lane.hold()
        self.at(self.now_us + duration_us, lane.release)

    def _jump(self) -> None:
        """
        Go to the next timer, and make ready what is due.
        """
        heap = self._heap
        if not heap:
            msg = "no timer is set and nothing can run: nothing can ever happen any more"
            raise DeadlockError(msg)
        self.now_us = max(self.now_us, heap[0][0])
        while heap and heap[0][0] <= self.now_us:
            _, _, timer = heapq.heappop(heap)
            if timer.lane is None:
                assert timer.call is not None
                timer.call()
            else:
                assert timer.work is not None
                if not timer.work.cancelled():
                    timer.lane.due(timer.work)
