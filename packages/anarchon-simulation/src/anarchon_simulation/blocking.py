"""
What blocks a thread in the real world, and must not block one here.

While a kernel runs, ``time.sleep`` and ``threading.Event`` are virtual for the
threads of the simulation. Every other thread of the process keeps the real ones.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

__all__ = [
    "Sleeper",
    "VirtualEvent",
    "current_sleeper",
    "make_thread",
    "real_time_is_away",
    "simulated_thread",
]

_RealEvent = threading.Event
_HERE = threading.local()


class Sleeper(Protocol):
    """
    A simulated thread, which can let time pass.
    """

    def sleep(self, duration_us: int) -> None:
        """
        Return when that time has passed.
        """

    def wait_for(self, event: VirtualEvent, timeout_us: int | None) -> bool:
        """
        Return when the event is set or the time is over; says whether it is set.
        """


class VirtualEvent(_RealEvent):
    """
    An event whose wait() lets virtual time pass in a simulated thread.
    """

    def __init__(self) -> None:
        super().__init__()
        self.wakers: list[Callable[[], None]] = []

    def set(self) -> None:
        """
        Set the flag, and wake the simulated threads that wait for it.
        """
        super().set()
        for wake in tuple(self.wakers):
            wake()

    def wait(self, timeout: float | None = None) -> bool:
        """
        Wait for the flag, for *timeout* seconds of virtual time at the most.
        """
        sleeper = current_sleeper()
        if sleeper is None:
            return super().wait(timeout)
        return sleeper.wait_for(self, None if timeout is None else max(0, round(timeout * 1e6)))


@contextmanager
def simulated_thread(sleeper: Sleeper | None) -> Iterator[None]:
    """
    Mark this thread as one of the simulation; with None, as a real one.
    """
    before = current_sleeper()
    _HERE.sleeper = sleeper
    try:
        yield
    finally:
        _HERE.sleeper = before


def current_sleeper() -> Sleeper | None:
    """
    Return the simulated thread that this is; None elsewhere.
    """
    sleeper: Sleeper | None = getattr(_HERE, "sleeper", None)
    return sleeper


def make_thread(target: Callable[[], None]) -> threading.Thread:
    """
    Make a real thread while the virtual event is in place: a thread's own start waits for a real one.
    """
    virtual, threading.Event = threading.Event, _RealEvent  # type: ignore[misc]  # a class for a class
    try:
        return threading.Thread(target=target, daemon=True, name="anarchon-simulated-thread")
    finally:
        threading.Event = virtual  # type: ignore[misc]  # the same


@contextmanager
def real_time_is_away(kernel_thread: Sleeper) -> Iterator[None]:
    """
    Put virtual blocking in the place of the real one, and put that back afterwards.

    Args:
        kernel_thread: What sleeping means in the thread that runs the callbacks.
    """
    before: tuple[Any, Any] = (time.sleep, threading.Event)

    def sleep(seconds: float, /) -> None:
        sleeper = current_sleeper()
        if sleeper is None:
            before[0](seconds)
        else:
            sleeper.sleep(max(0, round(seconds * 1e6)))

    time.sleep = sleep  # type: ignore[assignment]  # the stub also takes what can be an index
    threading.Event = VirtualEvent  # type: ignore[misc]  # a class takes the place of a class
    try:
        with simulated_thread(kernel_thread):
            yield
    finally:
        time.sleep, threading.Event = before  # type: ignore[misc]  # the same
