"""
All that is needed of asyncio and has no public way: two functions, and why.

A test holds them to what is said here on every supported Python.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

__all__ = ["enter_loop", "is_task_step"]

# asyncio exports it, for event loops, under this name alone.
enter_loop: Callable[[asyncio.AbstractEventLoop | None], None] = asyncio._set_running_loop  # noqa: SLF001 - see above
"""
Make a loop the running one of this thread: the kernel goes from loop to loop, and none of them runs by itself.
"""


def is_task_step(callback: object) -> bool:
    """
    Say whether a callback is a step of a task, and not a plain function.

    A task hands its loop a bound method, written in C: its ``__self__`` is the task.
    """
    return isinstance(getattr(callback, "__self__", None), asyncio.Task)
