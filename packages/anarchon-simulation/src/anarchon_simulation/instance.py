"""
An instance: one simulated process with its clocks, its loops and its handler threads.

It can be frozen and thawed, suspended with its machine, stalled in one loop, and
crash. A crash is a power cut: nothing of it ever runs again, not even a ``finally``.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import itertools
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

from anarchon.runtime import Runtime
from anarchon_simulation.clocks import START_MS, MachineClock
from anarchon_simulation.counted import CountedHandle
from anarchon_simulation.kernel import Kernel
from anarchon_simulation.lanes import Lane
from anarchon_simulation.loop import SimulatedLoop
from anarchon_simulation.threads import HandlerThreads, SimulatedPool

__all__ = ["Instance", "TroubleHandler"]

TroubleHandler = Callable[["Instance", dict[str, Any]], None]

_THREADS_MAX = 64


class Instance:
    """
    One process of the service. A restart makes another one, of the same name perhaps.

    Args:
        kernel: Runs it.

        name: The label that the history shows.

        seed: Decides its jitter and its tokens.

        start_ms: The true wall time at which the world began.

        offset_ms: How far its wall clock is ahead.

        drift_ppm: By how many millionths its clocks run fast.

        threads_max: How many plain handlers may work at a time.

        trouble: Told of what nobody caught.
    """

    def __init__(
        self,
        kernel: Kernel,
        name: str,
        *,
        seed: str,
        start_ms: int = START_MS,
        offset_ms: int = 0,
        drift_ppm: int = 0,
        threads_max: int = _THREADS_MAX,
        trouble: TroubleHandler | None = None,
    ) -> None:
        self.kernel = kernel
        self.name = name
        self.number = kernel.number()
        self.clock = MachineClock(
            lambda: kernel.now_us + kernel.ahead_us,
            start_ms=start_ms,
            offset_ms=offset_ms,
            drift_ppm=drift_ppm,
        )
        self._seed = f"{seed}:{name}:{self.number}"
        self._tokens = itertools.count(1)
        self._trouble = trouble
        self._loops: list[SimulatedLoop] = []
        self._threads_lane = Lane(kernel, number=kernel.number(), name=f"{name}/threads")
        self._threads = HandlerThreads(kernel, self._threads_lane, threads_max=threads_max)
        self._slept_through: list[tuple[SimulatedLoop, CountedHandle]] = []
        # Strong references: a task that nobody refers to would be finalized, and run its `finally`.
        self._grave: list[asyncio.Task[Any]] = []
        self.crashed = False
        self.frozen = 0
        kernel.on_close(self._close)

    # What runs in it.

    def runtime(self) -> Runtime:
        """
        Make the seams of a scheduler that lives in this instance.
        """
        return Runtime(
            clock=self.clock,
            token=self.token,
            make_random=lambda: Random(f"{self._seed}:random"),  # noqa: S311 - a seed must give the same again
            start_loop=self.start_loop,
            make_pool=SimulatedPool,
            instance_id=lambda: self.name,
            early_ms=0,
        )

    def token(self) -> str:
        """
        Make a token that no other attempt has.
        """
        return f"{self._seed}:{next(self._tokens)}"

    def start_loop(self, main: Callable[[], Coroutine[Any, Any, None]], *, name: str) -> None:
        """
        Run *main* on a loop of its own, which ends with it: what ``asyncio.run`` does in a thread.
        """
        loop = SimulatedLoop(self, name)
        self._add(loop)

        def begin() -> None:
            task = loop.create_task(main(), name=name)
            task.add_done_callback(ended)

        def ended(task: asyncio.Task[None]) -> None:
            error = None if task.cancelled() else task.exception()
            if error is not None:
                self.trouble({"message": f"the end of {name}", "exception": error})
            self._end_loop(loop)

        loop.call_soon_threadsafe(begin)

    def loop(self, name: str) -> SimulatedLoop:
        """
        Return the loop of that name; the first one is the handlers'.

        Raises:
            KeyError: There is none.
        """
        for loop in self._loops:
            if loop.lane.name == f"{self.name}/{name}":
                return loop
        raise KeyError(name)

    @property
    def loops(self) -> tuple[SimulatedLoop, ...]:
        """
        The loops that are there now, the oldest first.
        """
        return tuple(self._loops)

    def call_in_thread(self, loop: SimulatedLoop, call: Callable[[], Any]) -> asyncio.Future[Any]:
        """
        Run a call in a handler thread.
        """
        return self._threads.call(loop, call)

    # What happens to it.

    def freeze(self) -> None:
        """
        Stop all its threads where they are, as SIGSTOP does; the clocks go on. Adds up.
        """
        self.frozen += 1
        for lane in self._lanes():
            lane.hold()

    def thaw(self) -> None:
        """
        Let it go on, as SIGCONT does.
        """
        self.frozen -= 1
        for lane in self._lanes():
            lane.release()

    def suspend(self) -> None:
        """
        Suspend its machine: as freeze(), and the monotonic clock stands.
        """
        self.clock.fall_asleep()
        self.freeze()

    def resume(self) -> None:
        """
        Resume its machine.
        """
        self.clock.wake_up()
        waiting, self._slept_through = self._slept_through, []
        for loop, work in waiting:
            if not work.cancelled() and not loop.is_closed():
                loop.schedule(work)
        self.thaw()

    def crash(self) -> None:
        """
        Cut the power.
        """
        self.crashed = True
        for lane in self._lanes():
            lane.kill()
        for loop in self._loops:
            self._grave.extend(loop.open_tasks())

    def sleep_through(self, loop: SimulatedLoop, work: CountedHandle) -> None:
        """
        Keep a timer that came due while the machine was suspended.
        """
        self._slept_through.append((loop, work))

    def trouble(self, context: dict[str, Any]) -> None:
        """
        Tell what nobody caught; the dead tell nothing.
        """
        if self._trouble is not None and not self.crashed and not self.kernel.closed:
            self._trouble(self, context)

    def _lanes(self) -> list[Lane]:
        return [self._threads_lane, *(loop.lane for loop in self._loops)]

    def _add(self, loop: SimulatedLoop) -> None:
        self._loops.append(loop)
        for _ in range(self.frozen):
            loop.lane.hold()

    def _end_loop(self, loop: SimulatedLoop) -> None:
        """
        End a loop as ``asyncio.run`` does: cancel what is left, and close it when that has ended.
        """
        left = loop.open_tasks()
        if not left:
            self._loops.remove(loop)
            loop.close()
            return
        for task in left:
            task.cancel()
        left[-1].add_done_callback(lambda _: self._end_loop(loop))

    def _close(self) -> None:
        """
        Let the coroutines that are left go, in order; what their clean-up does has no effect.
        """
        left = [*self._grave, *(task for loop in self._loops for task in loop.open_tasks())]
        for lane in self._lanes():
            lane.kill()
        for task in sorted(left, key=hash):
            coroutine: Any = task.get_coro()
            if inspect.getcoroutinestate(coroutine) == inspect.CORO_CREATED:
                self.kernel.left_unstarted = True
            with contextlib.suppress(BaseException):
                # A clean-up that awaits has nothing left to wait for.
                coroutine.close()
        self._grave.clear()
        for loop in self._loops:
            if not loop.is_closed():
                loop.close()
