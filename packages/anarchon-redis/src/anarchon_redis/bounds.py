"""
Deadlines that can be brought forward: what is under way ends when its owner is closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

__all__ = ["Bounds"]


class Bounds:
    """
    The deadlines of the calls that are under way on one event loop.
    """

    __slots__ = ("_idle", "_under_way", "closed")

    def __init__(self) -> None:
        self._under_way: set[asyncio.Timeout] = set()
        self._idle = asyncio.Event()
        self.closed = False

    @asynccontextmanager
    async def within(self, timeout_s: float) -> AsyncIterator[None]:
        """
        Bound what is done inside, in seconds.

        Raises:
            TimeoutError: The time was over, or everything was closed.
        """
        async with asyncio.timeout(timeout_s) as bound:
            self._under_way.add(bound)
            try:
                yield
            finally:
                self._under_way.discard(bound)
                if not self._under_way:
                    self._idle.set()

    async def close(self) -> None:
        """
        End what is under way, and return when it has let go of its connections.
        """
        self.closed = True
        now_s = asyncio.get_running_loop().time()
        for bound in self._under_way:
            if not bound.expired():
                bound.reschedule(now_s)
        while self._under_way:
            self._idle.clear()
            await self._idle.wait()
