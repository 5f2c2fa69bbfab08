"""
The life of a backend, which is the same for each: unopened, opening, open, closed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from enum import StrEnum
from typing import Final

from anarchon.errors import BackendError, BackendStateError

__all__ = ["Life"]

_CLOSED_MEANWHILE: Final = "this backend was closed while it was being opened"


class _State(StrEnum):
    UNOPENED = "unopened"
    OPENING = "opening"
    OPEN = "open"
    CLOSED = "closed"


class Life:
    """
    The life of one backend, on one event loop: opened once, used, closed.

    The rules are those of specs/backend.md, LIF-1 to LIF-3 and LIF-9 to LIF-11.

    A backend keeps one of these; it opens within ``opening()``, calls ``check_open()`` before
    it serves anything, and ``close()`` first thing when it is closed.
    """

    def __init__(self) -> None:
        self._state = _State.UNOPENED

    @property
    def is_opening(self) -> bool:
        """
        Tell whether it was never open, and open() is under way.
        """
        return self._state is _State.OPENING

    @property
    def is_open(self) -> bool:
        """
        Tell whether it can be used.
        """
        return self._state is _State.OPEN

    @property
    def is_closed(self) -> bool:
        """
        Tell whether it was closed, opened or not.
        """
        return self._state is _State.CLOSED

    def check_open(self) -> None:
        """
        Insist on a backend that can be used.

        Raises:
            BackendStateError: It is not open.
        """
        if not self.is_open:
            msg = f"this backend is {self._state}; open() it first, and use it until close()"
            raise BackendStateError(msg)

    def close(self) -> None:
        """
        End the life, at whatever point it is; to end it twice is no error.
        """
        self._state = _State.CLOSED

    @asynccontextmanager
    async def opening(
        self, undo: Callable[[], Awaitable[None]] | None = None
    ) -> AsyncIterator[None]:
        """
        Span the body of open(): where it ends well, the backend is open.

        Where it fails or is cancelled the backend is unopened again, since a store that is
        away now may be there later.

        Args:
            undo: Ends what the body has begun. It is called whenever the backend does not come
                to be open, also when close() has ended some of it already.

        Raises:
            BackendStateError: It is not unopened, or it was closed meanwhile; the body's own
                BackendError is its cause then.
        """
        if self._state is not _State.UNOPENED:
            msg = f"this backend was opened before and is {self._state}; clone() gives a fresh one"
            raise BackendStateError(msg)
        self._state = _State.OPENING
        try:
            yield
        except BaseException as error:
            await self._give_up(undo)
            if self.is_closed and isinstance(error, BackendError):
                raise BackendStateError(_CLOSED_MEANWHILE) from error
            raise
        if self.is_closed:
            await self._give_up(undo)
            raise BackendStateError(_CLOSED_MEANWHILE)
        self._state = _State.OPEN

    async def _give_up(self, undo: Callable[[], Awaitable[None]] | None) -> None:
        try:
            if undo is not None:
                await undo()
        finally:
            # It may have been closed while that took its time, too.
            if not self.is_closed:
                self._state = _State.UNOPENED
