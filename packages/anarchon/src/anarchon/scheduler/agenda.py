"""
Things to do later, by the loop's own clock: one timer for all of them.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable

__all__ = ["Agenda"]


class Agenda:
    """
    Call functions after a pause. Entries are not removed: a function that is no longer wanted does nothing.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._count = itertools.count()
        self._handle: asyncio.TimerHandle | None = None
        self._stopped = False

    def after(self, pause_ms: int, call: Callable[[], None]) -> None:
        """
        Call *call* in *pause_ms* milliseconds.
        """
        if self._stopped:
            return
        loop = asyncio.get_running_loop()
        due_s = loop.time() + pause_ms / 1_000
        heapq.heappush(self._heap, (due_s, next(self._count), call))
        if self._handle is None or due_s < self._handle.when():
            self._arm(loop)

    def stop(self) -> None:
        """
        Do nothing any more.
        """
        self._stopped = True
        self._heap.clear()
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def _arm(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._handle = loop.call_at(self._heap[0][0], self._wake) if self._heap else None

    def _wake(self) -> None:
        loop = asyncio.get_running_loop()
        self._handle = None
        try:
            while self._heap and self._heap[0][0] <= loop.time():
                heapq.heappop(self._heap)[2]()
        finally:
            if not self._stopped:
                self._arm(loop)
