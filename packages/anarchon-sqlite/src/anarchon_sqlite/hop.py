"""
One connection and the thread that it lives on: a whole transaction is one hop.

A transaction that is spread over awaits keeps the file locked while the event loop
does something else, and every process on the file stands still. So a function runs
from BEGIN to COMMIT on the connection's thread.

aiosqlite gives the thread and its queue, but no public call to run a function there.
This module is the only one that uses what aiosqlite keeps to itself, and a test of
ours says when it changes:

- `_tx`, the queue, whose entries are (future, function). We put no future in: aiosqlite
  would set it by its loop, and its thread dies with a traceback when that loop has been
  closed meanwhile. Our own functions deliver their results themselves.
- `_thread`, to make it a daemon: a process must be able to end while a backend is open.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
from collections.abc import Callable
from functools import partial
from typing import Any, Generic, TypeVar

import aiosqlite

from anarchon.errors import BackendStateError, StoreUnavailableError
from anarchon_sqlite.clock import monotonic_s
from anarchon_sqlite.transaction import Ticket
from anarchon_sqlite.trouble import is_broken

__all__ = ["Hop"]

T = TypeVar("T")

_CLOSE_TIMEOUT_S = 1.0
_STEPS_BETWEEN_LOOKS = 10_000


class _Waiting(Generic[T]):
    """
    A caller that waits for its function, and the way to tell it.
    """

    __slots__ = ("future", "loop", "ticket")

    def __init__(self, ticket: Ticket) -> None:
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[T] = self.loop.create_future()
        self.ticket = ticket

    def tell(self, result: T | None, error: BaseException | None) -> None:
        """
        Hand over the outcome, from any thread.
        """
        # A closed loop has nobody left who waits.
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self._settle, result, error)

    def _settle(self, result: Any, error: BaseException | None) -> None:
        if self.future.done():
            return
        if error is None:
            self.future.set_result(result)
        else:
            self.future.set_exception(error)

    def fail(self, error: BaseException) -> None:
        """
        Stop waiting, on the loop; the function is told to stop as well.
        """
        self.ticket.abandoned = True
        self._settle(None, error)


class Hop:
    """
    A connection on a daemon thread of its own.

    Args:
        path: The file. Who deletes or replaces it while it is open splits the
            instances into two camps with a winner each, so each call looks whether it
            is still the one that was opened, and opens the other one if not.

        connect: Opens a connection; it runs on the thread.

        prepare: Makes a new connection usable; it runs on the thread too.
    """

    def __init__(
        self,
        path: str,
        *,
        connect: Callable[[], sqlite3.Connection],
        prepare: Callable[[sqlite3.Connection, Ticket], None],
    ) -> None:
        self._path = path
        self._connect = connect
        self._prepare = prepare
        self._raw: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._prepared = False
        self._proxy: aiosqlite.Connection | None = None
        self._waiting: set[_Waiting[Any]] = set()
        self._current: Ticket | None = None
        self._closed = False

    async def start(self, *, timeout_ms: int) -> None:
        """
        Start the thread, and make a connection ready on it.

        What *connect* or *prepare* raises comes out here, the thread having ended.

        Raises:
            StoreUnavailableError: It was not ready in time; it is closed once it is.
        """
        proxy = self._proxy = aiosqlite.Connection(self._open, 64)
        proxy._thread.daemon = True  # noqa: SLF001 - see the module's docstring
        end_s = monotonic_s() + timeout_ms / 1_000
        begun = asyncio.ensure_future(proxy)
        try:
            await asyncio.wait({begun}, timeout=max(0, timeout_ms) / 1_000)
        finally:
            if not begun.done():
                # Cancelled in the middle, aiosqlite would lose a connection that opens a moment later.
                self._closed = True
                begun.add_done_callback(partial(self._too_late_to_begin, proxy))
        if not begun.done():
            msg = f"SQLite could not open the file within {timeout_ms} ms"
            raise StoreUnavailableError(msg)
        if (error := begun.exception()) is not None:
            self._closed = True
            # aiosqlite tells its thread to stop through this loop, which may be closed at
            # once. After a failure there is nothing else to do there: it takes microseconds.
            proxy._thread.join(_CLOSE_TIMEOUT_S)  # noqa: SLF001 - the same
            raise error
        try:
            await self.run(
                lambda _raw, _ticket: None, timeout_ms=int((end_s - monotonic_s()) * 1_000)
            )
        except BaseException:
            await self.close()
            raise

    def _too_late_to_begin(
        self, proxy: aiosqlite.Connection, begun: asyncio.Future[aiosqlite.Connection]
    ) -> None:
        """
        Close a connection that nobody waited for.
        """
        if not begun.cancelled() and begun.exception() is None:
            proxy._tx.put_nowait((None, lambda: self._end(proxy, None)))  # noqa: SLF001 - see the module's docstring

    def _open(self) -> sqlite3.Connection:
        """
        Open a connection, on the thread.
        """
        raw = self._connect()
        self._file, self._prepared = _identity(self._path), False
        # Only the thread itself can stop a statement for sure: an interrupt from outside is
        # lost when it falls between two of them.
        raw.set_progress_handler(self._stops, _STEPS_BETWEEN_LOOKS)
        self._raw = raw
        return raw

    def _stops(self) -> bool:
        """
        Say whether the statement that runs is to be stopped, on the thread.
        """
        return self._current is not None and self._current.stops

    def _ready(self, ticket: Ticket) -> sqlite3.Connection:
        """
        Return a connection to the file that is there now, on the thread.
        """
        raw = self._raw
        if raw is None or self._file is None or _identity(self._path) != self._file:
            self._discard()
            raw = self._open()
        if not self._prepared:
            self._prepare(raw, ticket)
            self._prepared = True
        return raw

    def _discard(self) -> None:
        """
        Close the connection, on the thread.
        """
        raw, self._raw = self._raw, None
        # What SQLite says to a close concerns nobody: each transaction has ended before.
        with contextlib.suppress(sqlite3.Error):
            if raw is not None:
                raw.close()

    async def run(self, work: Callable[[sqlite3.Connection, Ticket], T], *, timeout_ms: int) -> T:
        """
        Run *work* on the connection's thread, after what was asked before.

        The caller hears something by *timeout_ms*, also if the thread is stuck. Work
        whose caller has gone is not begun, and a long statement of its is stopped.

        Raises:
            StoreUnavailableError: The time was over, or the connection was closed
                meanwhile; the outcome is unknown.

            BackendStateError: The connection is closed.
        """
        proxy = self._proxy
        if self._closed or proxy is None:
            msg = "this connection is closed"
            raise BackendStateError(msg)
        waiting: _Waiting[T] = _Waiting(Ticket(timeout_ms))
        timer = waiting.loop.call_later(max(0, timeout_ms) / 1_000, self._too_late, waiting)
        self._waiting.add(waiting)
        proxy._tx.put_nowait((None, lambda: self._work(waiting, work)))  # noqa: SLF001 - see the module's docstring
        try:
            return await waiting.future
        except asyncio.CancelledError:
            waiting.ticket.abandoned = True
            raise
        finally:
            timer.cancel()
            self._waiting.discard(waiting)

    def _work(self, waiting: _Waiting[T], work: Callable[[sqlite3.Connection, Ticket], T]) -> None:
        """
        Do a caller's work, on the thread.
        """
        ticket = waiting.ticket
        if ticket.abandoned:
            return
        self._current = ticket
        result, error = None, None
        try:
            ticket.check()
            result = work(self._ready(ticket), ticket)
        except BaseException as caught:  # noqa: BLE001 - whatever it is belongs to the caller, not to this thread
            error = caught
        finally:
            self._current = None
        if isinstance(error, sqlite3.Error) and is_broken(error):
            self._discard()
        waiting.tell(result, error)

    def _too_late(self, waiting: _Waiting[Any]) -> None:
        msg = f"SQLite did not answer within {waiting.ticket.timeout_ms} ms; the outcome is unknown"
        waiting.fail(StoreUnavailableError(msg))

    async def close(self) -> None:
        """
        End the calls in flight, the connection and the thread.

        A thread that is stuck in the file system is left behind; it is a daemon.
        """
        proxy = self._proxy
        if self._closed or proxy is None:
            self._closed = True
            return
        self._closed = True
        for waiting in list(self._waiting):
            waiting.fail(
                StoreUnavailableError(
                    "the backend was closed during the call; the outcome is unknown"
                )
            )
        last: _Waiting[None] = _Waiting(Ticket(0))
        proxy._tx.put_nowait((None, lambda: self._end(proxy, last)))  # noqa: SLF001 - see the module's docstring
        await asyncio.wait({last.future}, timeout=_CLOSE_TIMEOUT_S)

    def _end(self, proxy: aiosqlite.Connection, last: _Waiting[None] | None) -> None:
        """
        Close the connection and let the thread end, on the thread.
        """
        self._discard()
        # On a thread without a loop aiosqlite makes no future, and so needs no loop later.
        proxy.stop()
        if last is not None:
            last.tell(None, None)


def _identity(path: str) -> tuple[int, int] | None:
    """
    Say which file a path leads to.
    """
    try:
        found = os.stat(path)  # noqa: PTH116 - the path stays the text that the user gave
    except OSError:
        return None
    return found.st_dev, found.st_ino
