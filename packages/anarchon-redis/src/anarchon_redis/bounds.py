"""
Deadlines that can be brought forward: what is under way ends when its owner is closed.
"""

from __future__ import annotations

import asyncio
from types import TracebackType

__all__ = ["Bounds"]


class _Bound:
    """
    One deadline around what a task does inside.
    """

    __slots__ = ("_before", "_bounds", "_expired", "_task", "due_s")

    def __init__(self, bounds: Bounds, due_s: float) -> None:
        self._bounds = bounds
        self.due_s = due_s
        self._expired = False
        self._before = 0
        self._task: asyncio.Task[object] | None = None

    def __enter__(self) -> None:
        self._task = asyncio.current_task()
        assert self._task is not None
        self._before = self._task.cancelling()
        self._bounds.begin(self)

    def expire(self) -> None:
        """
        End it now.
        """
        if not self._expired:
            self._expired = True
            assert self._task is not None
            self._task.cancel()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bounds.end(self)
        if not self._expired:
            return
        assert self._task is not None
        # Somebody else may have cancelled the task as well; then that is what it hears.
        if self._task.uncancel() <= self._before and isinstance(error, asyncio.CancelledError):
            raise TimeoutError from error


class Bounds:
    """
    The deadlines of the calls that are under way on one event loop.

    All share one timer, which is left alone when a call has ended before its time: to
    set one and to take it back would cost each call a tenth of its round trip.
    """

    __slots__ = ("_idle", "_timer", "_under_way", "closed")

    def __init__(self) -> None:
        self._under_way: set[_Bound] = set()
        self._idle = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self.closed = False

    def within(self, timeout_s: float) -> _Bound:
        """
        Bound what is done inside, in seconds: a context manager.

        Leaving it raises TimeoutError when the time was over, or everything was closed.
        """
        return _Bound(self, asyncio.get_running_loop().time() + timeout_s)

    def begin(self, bound: _Bound) -> None:
        """
        Count a deadline in.
        """
        self._under_way.add(bound)
        if self._timer is None or bound.due_s < self._timer.when():
            self._watch(bound.due_s)

    def end(self, bound: _Bound) -> None:
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
        for bound in self._under_way:
            bound.expire()
        while self._under_way:
            self._idle.clear()
            await self._idle.wait()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _watch(self, due_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(due_s, self._look)

    def _look(self) -> None:
        """
        End the calls whose time is over, and wait for the next one's.
        """
        now_s = asyncio.get_running_loop().time()
        self._timer = None
        for bound in self._under_way:
            if bound.due_s <= now_s:
                bound.expire()
        later = [bound.due_s for bound in self._under_way if bound.due_s > now_s]
        if later:
            self._watch(min(later))
