"""
An asyncio event loop that never runs by itself: it hands its callbacks to the kernel.
"""

from __future__ import annotations

import asyncio
import contextvars
import math
import weakref
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Protocol, TypeVar

from anarchon_simulation.clocks import MachineClock
from anarchon_simulation.counted import CountedFuture, CountedHandle, CountedTask
from anarchon_simulation.inside_asyncio import is_task_step
from anarchon_simulation.kernel import Kernel
from anarchon_simulation.lanes import Lane

__all__ = ["LoopHome", "SimulatedLoop"]

T = TypeVar("T")


class LoopHome(Protocol):
    """
    What a loop needs of the instance that it belongs to.
    """

    @property
    def name(self) -> str:
        """
        The instance's name.
        """

    @property
    def kernel(self) -> Kernel:
        """
        What runs it.
        """

    @property
    def clock(self) -> MachineClock:
        """
        The clocks of its machine.
        """

    def sleep_through(self, loop: SimulatedLoop, work: CountedHandle) -> None:
        """
        Keep a timer that came due while the machine was suspended.
        """

    def call_in_thread(self, loop: SimulatedLoop, call: Callable[[], Any]) -> asyncio.Future[Any]:
        """
        Run a call in a simulated handler thread.
        """

    def trouble(self, context: dict[str, Any]) -> None:
        """
        Hear of what nobody caught.
        """


class SimulatedLoop(asyncio.BaseEventLoop):
    """
    One simulated thread's loop.

    Args:
        home: The instance.

        name: For people.
    """

    def __init__(self, home: LoopHome, name: str) -> None:
        self._ended = True  # The base asks while it is made.
        super().__init__()
        self._ended = False
        self._home = home
        self._clock = home.clock
        self._kernel = home.kernel
        self._tasks: weakref.WeakSet[asyncio.Task[Any]] = weakref.WeakSet()
        self.lane = Lane(
            home.kernel, number=home.kernel.number(), name=f"{home.name}/{name}", loop=self
        )

    # Time.

    def time(self) -> float:
        """
        Read the instance's monotonic clock, in seconds.
        """
        return self._clock.monotonic_us() / 1e6

    def call_soon(  # type: ignore[override]  # the stub's type variables tuple is no plainer
        self,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        """
        Call on this loop; from another simulated thread it is an error, as it is a bug there.

        Raises:
            RuntimeError: It was called from another thread than this loop's.
        """
        kernel = self._kernel
        running = kernel.running_lane
        if running is self.lane and not kernel.ahead_us and not self._ended:
            # Nearly always: the thread that runs calls on its own loop.
            handle = CountedHandle(0.0, callback, args, self, context)
            self.lane.push(handle, is_step=is_task_step(callback))
            return handle
        if running is not None and running is not self.lane:
            msg = (
                f"call_soon() on {self.lane.name} from {running.name}: only call_soon_threadsafe()"
                f" crosses threads ({callback!r})"
            )
            raise RuntimeError(msg)
        return self.call_soon_threadsafe(callback, *args, context=context)

    def call_soon_threadsafe(  # type: ignore[override]  # the same
        self,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        """
        Call on this loop, from any thread of the simulation.
        """
        if self.is_closed():
            msg = "Event loop is closed"
            raise RuntimeError(msg)
        handle = CountedHandle(0.0, callback, args, self, context)
        is_step = is_task_step(callback)
        if self._kernel.ahead_us:
            # The caller has blocked its thread before it called: this happens only then.
            self._kernel.after(0, lambda: self.lane.push(handle, is_step=is_step))
        else:
            self.lane.push(handle, is_step=is_step)
        return handle

    def call_later(  # type: ignore[override]  # the same
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """
        Call after *delay* seconds of the instance's monotonic clock.
        """
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]  # the same
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        """
        Call when the instance's monotonic clock shows *when* seconds.
        """
        if self.is_closed():
            msg = "Event loop is closed"
            raise RuntimeError(msg)
        handle = CountedHandle(when, callback, args, self, context)
        self.schedule(handle)
        return handle

    def schedule(self, handle: CountedHandle) -> None:
        """
        Enter a timer into the kernel's heap, by the instance's clock.
        """
        when_us = _microseconds_of(handle.when())
        self._kernel.at_loop(self._clock.true_us_of(when_us), self, handle)

    def due(self, handle: CountedHandle) -> None:
        """
        Take a timer whose true time has come; the clock may have been suspended since it was set.
        """
        clock = self._clock
        if clock.asleep:
            self._home.sleep_through(self, handle)
        elif clock.monotonic_us() < _microseconds_of(handle.when()):
            self.schedule(handle)
        else:
            self.lane.push(handle)

    # What is made here carries numbers.

    def create_future(self) -> asyncio.Future[Any]:
        """
        Make a future.
        """
        return CountedFuture(loop=self, number=self._kernel.number())

    def create_task(  # type: ignore[override]  # the stub's keywords differ between versions
        self,
        coro: Coroutine[Any, Any, T] | Generator[Any, None, T],
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
        **_: Any,
    ) -> asyncio.Task[T]:
        """
        Make a task. It never starts eagerly.
        """
        number = self._kernel.number()
        task = CountedTask(
            coro, loop=self, number=number, name=name or f"task-{number}", context=context
        )
        self._tasks.add(task)
        return task

    def run_in_executor(  # type: ignore[override]  # the stub's type variables are of a newer Python
        self,
        executor: Any,  # noqa: ARG002 - whatever it is, the instance's threads do the work
        func: Callable[..., Any],
        *args: Any,
    ) -> asyncio.Future[Any]:
        """
        Call in a simulated thread of the instance, whatever executor is named.
        """
        context = contextvars.copy_context()
        return self._home.call_in_thread(self, lambda: context.run(func, *args))

    # The rest of a loop's duties.

    def open_tasks(self) -> list[asyncio.Task[Any]]:
        """
        Return the tasks that are not done, in the order in which they were made.
        """
        return sorted((task for task in self._tasks if not task.done()), key=hash)

    def is_running(self) -> bool:
        """
        Say yes until it is closed: the kernel may come back to it at any time.
        """
        return not self._ended

    def get_debug(self) -> bool:
        """
        Say no: asyncio's debug mode measures real time.
        """
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """
        Hand on what nobody caught.
        """
        self._home.trouble(context)

    def run_forever(self) -> None:
        """
        Refuse: the kernel runs it.

        Raises:
            RuntimeError: Always.
        """
        msg = "a simulated loop is run by its kernel"
        raise RuntimeError(msg)

    def stop(self) -> None:
        """
        Do nothing: it does not run by itself.
        """

    def close(self) -> None:
        """
        Refuse callbacks from now on.
        """
        self._ended = True
        self.lane.kill()
        super().close()


def _microseconds_of(when_s: float) -> int:
    """
    Return the first microsecond at which ``time() >= when_s`` holds, rounding of floats included.
    """
    when_us = math.ceil(when_s * 1e6)
    return when_us if when_us / 1e6 >= when_s else when_us + 1
