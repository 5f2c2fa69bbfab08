"""
A flag that is raised once and can be waited for from loops and from threads.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

__all__ = ["Flag"]


class Flag:
    """
    What ``ctx.stopping`` and ``ctx.lost`` are: raised once, never lowered.
    """

    __slots__ = ("_raised", "_wakers")

    def __init__(self) -> None:
        self._raised = False
        self._wakers: list[Callable[[], None]] = []

    def is_set(self) -> bool:
        """
        Say whether the flag has been raised. Safe from any thread.
        """
        return self._raised

    def set(self) -> None:
        """
        Raise the flag and wake everyone who waits. Safe from any thread.
        """
        self._raised = True
        for wake in tuple(self._wakers):
            wake()

    async def wait(self) -> None:
        """
        Wait in an event loop until the flag is raised.
        """
        if self._raised:
            return
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()

        def wake() -> None:
            loop.call_soon_threadsafe(_resolve, waiter)

        self._wakers.append(wake)
        try:
            # Raised between the first look and the append: nobody would wake us.
            if not self.is_set():
                await waiter
        finally:
            self._wakers.remove(wake)

    def wait_blocking(self, timeout: float | None = None) -> bool:
        """
        Wait in a thread until the flag is raised, for *timeout* seconds at the most.

        Returns whether it is raised. Never call it in an event loop's thread.
        """
        raised = threading.Event()
        self._wakers.append(raised.set)
        try:
            if not self.is_set():
                raised.wait(timeout)
        finally:
            self._wakers.remove(raised.set)
        return self.is_set()


def _resolve(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
