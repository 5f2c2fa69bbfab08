"""
The one small interface between the parts of a scheduler.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, Protocol

from anarchon.events import Event
from anarchon.flag import Flag

__all__ = ["SchedulerCore"]


class SchedulerCore(Protocol):
    """
    What the parts may ask of the scheduler that owns them, and nothing more.
    """

    @property
    def running(self) -> bool:
        """
        Whether slots are claimed: after start() and before stop().
        """

    @property
    def stopping(self) -> Flag:
        """
        The stop signal, as handlers see it.
        """

    def emit(self, event: Event) -> None:
        """
        Tell an event to whoever listens. Only on the scheduler's loop.
        """

    def work(self, coroutine: Coroutine[Any, Any, None], *, name: str) -> None:
        """
        Run *coroutine* as a task that stop() waits for.
        """
