"""
Handler threads: real threads, of which none runs while the kernel or another one does.

A baton is passed: the kernel wakes a thread and waits until it sleeps or ends. A
thread lets virtual time pass by ``time.sleep`` or by waiting for an event.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from typing import Any, NoReturn

from anarchon_simulation.blocking import VirtualEvent, make_thread, simulated_thread
from anarchon_simulation.kernel import Kernel
from anarchon_simulation.lanes import Lane
from anarchon_simulation.loop import SimulatedLoop

__all__ = ["HandlerThreads", "Killed", "SimulatedPool", "SimulatedThread"]


class Killed(BaseException):
    """
    Raised inside a sleeping thread when its world has ended: only then does it unwind.
    """


class SimulatedPool(Executor):
    """
    What a scheduler is given as its pool; the loop does the work of it.
    """

    def submit(
        self,
        fn: Callable[..., Any],  # noqa: ARG002 - the signature of Executor
        /,
        *args: Any,  # noqa: ARG002 - the same
        **kwargs: Any,  # noqa: ARG002 - the same
    ) -> NoReturn:
        """
        Refuse: in a simulation threads are started through a loop.

        Raises:
            RuntimeError: Always.
        """
        msg = "in a simulation, call loop.run_in_executor()"
        raise RuntimeError(msg)

    def shutdown(
        self,
        wait: bool = True,  # noqa: FBT001, FBT002 - the signature of Executor
        *,
        cancel_futures: bool = False,
    ) -> None:
        """
        Do nothing: threads that still run go on, as daemon threads do.
        """


class SimulatedThread:
    """
    One call in a thread of its own.
    """

    def __init__(
        self,
        kernel: Kernel,
        lane: Lane,
        call: Callable[[], Any],
        ended: Callable[[Any, BaseException | None], None],
    ) -> None:
        self._kernel = kernel
        self._lane = lane
        self._call = call
        self._ended = ended
        self._mine = threading.Lock()
        self._mine.acquire()
        self._kernels = threading.Lock()
        self._kernels.acquire()
        self._thread = make_thread(self._main)
        self._started = False
        self._over = False
        self._killed = False

    def begin(self) -> None:
        """
        Let it run as soon as the kernel picks it.
        """
        self._lane.push(self)

    # As work of a lane, in the kernel's thread.

    def call(self) -> None:
        """
        Run the thread until it sleeps or ends.
        """
        if self._over:
            return
        if self._started:
            self._mine.release()
        else:
            self._started = True
            self._thread.start()
        self._kernels.acquire()

    def cancelled(self) -> bool:
        """
        Say no: a thread cannot be cancelled.
        """
        return False

    def kill(self) -> None:
        """
        Unwind the thread, at the end of the world.
        """
        if self._started and not self._over:
            self._killed = True
            self._mine.release()
            self._thread.join()

    # In the thread.

    def sleep(self, duration_us: int) -> None:
        """
        Let virtual time pass.
        """
        woken = [False]

        def wake() -> None:
            if not woken[0]:
                woken[0] = True
                self._lane.push(self)

        self._kernel.after(duration_us, wake)
        self._park()

    def wait_for(self, event: VirtualEvent, timeout_us: int | None) -> bool:
        """
        Let virtual time pass until the event is set, or the time is over.
        """
        if event.is_set():
            return True
        woken = [False]

        def wake() -> None:
            if not woken[0]:
                woken[0] = True
                self._lane.push(self)

        event.wakers.append(wake)
        if timeout_us is not None:
            self._kernel.after(timeout_us, wake)
        try:
            self._park()
        finally:
            event.wakers.remove(wake)
        return event.is_set()

    def _park(self) -> None:
        if self._killed:
            raise Killed
        self._kernels.release()
        self._mine.acquire()
        if self._killed:
            raise Killed

    def _main(self) -> None:
        result: Any = None
        failure: BaseException | None = None
        with simulated_thread(self):
            try:
                result = self._call()
            except BaseException as error:  # noqa: BLE001 - it belongs to whoever waits for the call
                failure = error
        self._over = True
        if not self._killed:
            self._ended(result, failure)
        self._kernels.release()


class HandlerThreads:
    """
    The handler threads of one instance: so many at a time, the others wait.

    Args:
        kernel: Runs them.

        lane: Where they run.

        threads_max: How many may work at a time.
    """

    def __init__(self, kernel: Kernel, lane: Lane, *, threads_max: int) -> None:
        self._kernel = kernel
        self._lane = lane
        self._free = threads_max
        self._waiting: deque[tuple[int, SimulatedThread]] = deque()
        self._running: dict[int, SimulatedThread] = {}
        kernel.on_close(self._unwind)

    def call(self, loop: SimulatedLoop, call: Callable[[], Any]) -> asyncio.Future[Any]:
        """
        Run *call* in a thread; the future is the loop's.
        """
        future = loop.create_future()

        def settle(result: Any, error: BaseException | None) -> None:
            if future.done():
                return
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)

        def ended(result: Any, error: BaseException | None) -> None:
            del self._running[number]
            if not loop.is_closed():
                loop.call_soon_threadsafe(settle, result, error)
            self._free += 1
            self._next()

        number = self._kernel.number()
        self._waiting.append((number, SimulatedThread(self._kernel, self._lane, call, ended)))
        self._next()
        return future

    def _next(self) -> None:
        while self._waiting and self._free:
            number, thread = self._waiting.popleft()
            self._free -= 1
            self._running[number] = thread
            thread.begin()

    def _unwind(self) -> None:
        for thread in tuple(self._running.values()):
            thread.kill()
