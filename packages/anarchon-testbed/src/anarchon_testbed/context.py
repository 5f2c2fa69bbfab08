"""
What can be entered with `with` and with `async with`, from one blocking way in and one blocking way out.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from types import TracebackType
from typing import Self, TypeVar

__all__ = ["Enterable", "in_thread"]

T = TypeVar("T")


class Enterable(ABC):
    """
    A context, sync and async. In an event loop the blocking parts run in a thread.
    """

    @abstractmethod
    def _enter(self) -> None:
        """
        Go in, or raise and leave nothing behind.
        """

    @abstractmethod
    def _leave(self, error: BaseException | None) -> None:
        """
        Go out; `error` is what ended the context, if anything did.
        """

    def __enter__(self) -> Self:
        self._enter()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._leave(error)

    async def __aenter__(self) -> Self:
        # A cancelled entry is waited for, so that what it may still bring is removed.
        task = asyncio.ensure_future(asyncio.to_thread(self._enter))
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            await asyncio.wait({task})
            if task.exception() is None:
                await asyncio.to_thread(self._leave, None)
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await in_thread(lambda: self._leave(error))


async def in_thread(call: Callable[[], T]) -> T:
    """
    Run a blocking call to its end, also when the caller is cancelled meanwhile.
    """
    task = asyncio.ensure_future(asyncio.to_thread(call))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        raise
