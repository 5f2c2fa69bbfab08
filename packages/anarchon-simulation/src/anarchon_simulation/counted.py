"""
Tasks, futures and handles that are the same in every replay.

A set of tasks iterates by hash, which is an address otherwise: ``TaskGroup`` and
``asyncio.wait`` would wake their tasks in another order each time. These count.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine, Generator
from typing import Any, TypeVar

__all__ = ["CountedFuture", "CountedHandle", "CountedTask"]

T = TypeVar("T")


class CountedTask(asyncio.Task[T]):
    """
    A task whose hash is its number.
    """

    number = 0

    def __init__(
        self,
        coroutine: Coroutine[Any, Any, T] | Generator[Any, None, T],
        *,
        loop: asyncio.AbstractEventLoop,
        number: int,
        name: str,
        context: contextvars.Context | None,
    ) -> None:
        # asyncio puts the task in a set while it is made: the number comes first.
        self.number = number
        super().__init__(coroutine, loop=loop, name=name, context=context)

    def __hash__(self) -> int:
        return self.number

    def __eq__(self, other: object) -> bool:
        return self is other


class CountedFuture(asyncio.Future[T]):
    """
    A future whose hash is its number.
    """

    number = 0

    def __init__(self, *, loop: asyncio.AbstractEventLoop, number: int) -> None:
        self.number = number
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self.number

    def __eq__(self, other: object) -> bool:
        return self is other


class CountedHandle(asyncio.TimerHandle):
    """
    A callback that is due now or later. It keeps its own parts: those of the base are private.
    """

    __slots__ = ("_called", "_due_s", "_given", "_home", "_off", "_where")

    def __init__(
        self,
        when_s: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: asyncio.AbstractEventLoop,
        context: contextvars.Context | None,
    ) -> None:
        # The base's own __init__ would fill parts that nobody reads here, at every step of every run.
        self._where = contextvars.copy_context() if context is None else context
        self._due_s = when_s
        self._called: Callable[..., object] | None = callback
        self._given = args
        self._home = loop
        self._off = False

    def __repr__(self) -> str:
        return f"<CountedHandle when={self._due_s} of {self._called!r}>"

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    def when(self) -> float:
        """
        Return when it is due, by the loop's clock.
        """
        return self._due_s

    def get_context(self) -> contextvars.Context:
        """
        Return the context in which the callback runs.
        """
        return self._where

    def cancel(self) -> None:
        """
        Never call it. Its entry in the kernel's heap stays until it is due.
        """
        self._off = True
        self._called = None
        self._given = ()

    def cancelled(self) -> bool:
        """
        Say whether it was cancelled.
        """
        return self._off

    def call(self) -> None:
        """
        Call back; what is raised goes to the loop's exception handler.
        """
        callback = self._called
        if callback is None:
            return
        try:
            self._where.run(callback, *self._given)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:  # noqa: BLE001 - a loop survives whatever its callbacks raise
            message = f"a callback raised: {callback!r}"
            self._home.call_exception_handler({"message": message, "exception": error})
