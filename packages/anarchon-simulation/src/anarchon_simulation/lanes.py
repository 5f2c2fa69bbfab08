"""
A lane: what one simulated thread has to do next.

A loop is a lane, and so are the handler threads of an instance together. Lanes
never run by themselves: the kernel picks one of those that can run, and takes one
callback from it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Literal, Protocol, TypeAlias

__all__ = ["Lane", "LaneKernel", "Order", "Work"]

Order: TypeAlias = Literal["fifo", "task"]
"""
"fifo" is what asyncio does: first come, first served within a loop. "task" shuffles
the steps of tasks within a loop, which no asyncio does yet and none promises not to.
"""


class Work(Protocol):
    """
    One thing to do.
    """

    def call(self) -> None:
        """
        Do it.
        """

    def cancelled(self) -> bool:
        """
        Say whether it is not to be done any more.
        """


class LaneKernel(Protocol):
    """
    What a lane needs of the kernel.
    """

    order: Order

    def can_run(self, lane: Lane) -> None:
        """
        Take the lane among those that can run.
        """


class Lane:
    """
    A queue of ready work.

    Args:
        kernel: Picks lanes.

        number: The lane's number, the same in every replay.

        name: For people.

        loop: The loop whose lane it is; None for handler threads.
    """

    def __init__(
        self,
        kernel: LaneKernel,
        *,
        number: int,
        name: str,
        loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self.loop = loop
        self._kernel = kernel
        self._shuffles = kernel.order == "task"
        self.number = number
        self.name = name
        self.queued = False
        self.dead = False
        self._holds = 0
        self._first: deque[Work] = deque()
        self._steps: list[Work] = []

    @property
    def ready(self) -> bool:
        """
        Whether there is work, and nothing holds it.
        """
        return bool(self._first or self._steps) and not self._holds and not self.dead

    @property
    def held(self) -> bool:
        """
        Whether something holds it.
        """
        return self._holds > 0

    def push(self, work: Work, *, is_step: bool = False) -> None:
        """
        Add work; a dead lane drops it.
        """
        if self.dead:
            return
        if is_step and self._shuffles:
            self._steps.append(work)
        else:
            self._first.append(work)
        if not self.queued and not self._holds:
            self._kernel.can_run(self)

    def take(self, draw: Callable[[], float]) -> Work:
        """
        Take the work that is to be done next.
        """
        steps = self._steps
        if not steps:
            return self._first.popleft()
        chosen = int(draw() * (len(steps) + bool(self._first)))
        if chosen == len(steps):
            return self._first.popleft()
        steps[chosen], steps[-1] = steps[-1], steps[chosen]
        return steps.pop()

    def hold(self) -> None:
        """
        Let nothing of this lane run until release(). Holds add up.
        """
        self._holds += 1

    def release(self) -> None:
        """
        End one hold.
        """
        self._holds -= 1
        if self.ready and not self.queued:
            self._kernel.can_run(self)

    def kill(self) -> None:
        """
        Let nothing of this lane ever run again.
        """
        self.dead = True
        self._first.clear()
        self._steps.clear()
