"""
Deadlines that can be brought forward: what is under way ends when its owner is closed.
"""

from __future__ import annotations

import asyncio
from types import TracebackType

__all__ = ["Bounds"]


class _Bound:
    """
    One deadline: a class of its own, since a generator costs each call more.
    """

    __slots__ = ("_bounds", "_timeout")

    def __init__(self, bounds: Bounds, timeout: asyncio.Timeout) -> None:
        self._bounds = bounds
        self._timeout = timeout

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()
        self._bounds.begin(self._timeout)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bounds.end(self._timeout)
        await self._timeout.__aexit__(kind, error, trace)


class Bounds:
    """
    The deadlines of the calls that are under way on one event loop.
    """

    __slots__ = ("_idle", "_under_way", "closed")

    def __init__(self) -> None:
        self._under_way: set[asyncio.Timeout] = set()
        self._idle = asyncio.Event()
        self.closed = False

    def within(self, timeout_s: float) -> _Bound:
        """
        Bound what is done inside, in seconds: an async context manager.

        Leaving it raises TimeoutError when the time was over, or everything was closed.
        """
        return _Bound(self, asyncio.timeout(timeout_s))

    def begin(self, bound: asyncio.Timeout) -> None:
        """
        Count a deadline in.
        """
        self._under_way.add(bound)

    def end(self, bound: asyncio.Timeout) -> None:
        """
        Count it out.
        """
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
