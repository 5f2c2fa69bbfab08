"""
An event loop whose time is a number: it jumps to the next timer when nothing is ready.
"""

from __future__ import annotations

import asyncio
import selectors
import threading
from collections.abc import Callable
from typing import Any

__all__ = ["Latch", "StuckError", "VirtualLoop"]

_REAL_WAIT_S = 20.0


class StuckError(RuntimeError):
    """
    Nothing can happen any more, or a thread keeps the time standing.
    """


class _JumpingSelector(selectors.DefaultSelector):
    """
    A selector that never waits, save for threads that work.
    """

    loop: VirtualLoop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """
        Look for what is ready; when there is nothing, let the time jump.
        """
        ready = super().select(0)
        if ready or (timeout is not None and timeout <= 0):
            return ready
        if self.loop.working_threads:
            ready = super().select(_REAL_WAIT_S)
            if not ready:
                msg = "a thread keeps the time standing: let it wait for a Latch"
                raise StuckError(msg)
            return ready
        if timeout is None:
            msg = "no timer is set and no thread works: nothing can happen any more"
            raise StuckError(msg)
        self.loop.jump(timeout)
        return []


class _Call:
    """
    A call in a thread, which keeps the time standing while it works.
    """

    def __init__(self, loop: VirtualLoop) -> None:
        self.loop = loop
        self._lock = threading.Lock()
        self._working = False
        self._over = False

    def work(self) -> None:
        """
        Keep the time standing, unless nobody waits for this call any more.
        """
        with self._lock:
            if not self._working and not self._over:
                self._working = True
                self.loop.count_threads(1)

    def pause(self) -> None:
        """
        Let the time go on.
        """
        with self._lock:
            if self._working:
                self._working = False
                self.loop.count_threads(-1)

    def end(self) -> None:
        """
        Let the time go on for good: the result has arrived, or nobody waits for it.
        """
        self.pause()
        self._over = True


_HERE = threading.local()


class VirtualLoop(asyncio.SelectorEventLoop):
    """
    Runs in no time: `time()` moves only when nothing is left to do at the present instant.

    Calls in an executor are real threads. While one of them works the time
    stands; one that waits for a Latch lets it go on.
    """

    def __init__(self) -> None:
        self._now_s = 0.0
        self._threads = 0
        self._threads_lock = threading.Lock()
        selector = _JumpingSelector()
        selector.loop = self
        super().__init__(selector)
        # After a year of seconds a float is coarser than the resolution of the real clock.
        self._clock_resolution = 1e-6

    def time(self) -> float:
        """
        Return the virtual time in seconds.
        """
        return self._now_s

    def jump(self, duration_s: float) -> None:
        """
        Let time pass at one go, in which nothing of this loop runs: a freeze, or a blocked loop.
        """
        self._now_s += duration_s

    @property
    def working_threads(self) -> int:
        """
        How many executor calls keep the time standing.
        """
        return self._threads

    def count_threads(self, count: int) -> None:
        """
        Count threads that begin to work, or with a negative number those that stop.
        """
        with self._threads_lock:
            self._threads += count

    def run_in_executor(  # type: ignore[override]  # the stub's type variables are of a newer Python
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        """
        Call in a thread, and keep the time standing until its result has arrived here.

        A call that waits for a thread of a full pool lets the time go on.
        """
        call = _Call(self)
        if not getattr(executor, "may_be_full", False):
            call.work()

        def body() -> Any:
            call.work()
            _HERE.call = call
            return func(*args)

        future = super().run_in_executor(executor, body)
        future.add_done_callback(lambda _: call.end())
        return future


class Latch:
    """
    Where a handler's thread waits for the test; the time goes on meanwhile.

    Opening it counts the waiting threads as working before they wake, so that no
    jump of time can slip in between.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[_Call] = []
        self._opened = threading.Event()

    def open(self) -> None:
        """
        Let all threads go on, those that come later too.
        """
        with self._lock:
            for call in self._waiting:
                call.work()
            self._waiting.clear()
            self._opened.set()

    def wait(self) -> None:
        """
        Wait in a handler's thread until the latch is open.
        """
        call: _Call = _HERE.call
        with self._lock:
            if self._opened.is_set():
                return
            self._waiting.append(call)
            call.pause()
        # The loop may stand in its selector, which must learn that the time may go on.
        call.loop.call_soon_threadsafe(lambda: None)
        self._opened.wait()
