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
import sqlite3
import threading
from collections.abc import Callable
from functools import partial
from time import sleep
from typing import Any, Generic, TypeVar

import aiosqlite
from anarchon.errors import BackendStateError, StoreUnavailableError

from anarchon_sqlite.clock import monotonic_s
from anarchon_sqlite.trouble import is_busy

__all__ = ["BUSY_TIMEOUT_MS", "Hop", "Ticket", "insist", "write_transaction"]

T = TypeVar("T")

BUSY_TIMEOUT_MS = 20
"""
How long SQLite itself waits for a lock before it lets us look at the deadline.

Its waits grow to 100 ms each and heed no interrupt; in slices of 20 ms they stay
short, which is also fairer among processes.
"""

_PAUSE_S = 0.002
_CLOSE_TIMEOUT_S = 1.0
_MARGIN_S = 0.025


class Ticket:
    """
    A call's right to go on: until its deadline, and while somebody waits for it.
    """

    __slots__ = ("_give_up_s", "abandoned", "timeout_ms")

    def __init__(self, timeout_ms: int) -> None:
        timeout_s = max(0, timeout_ms) / 1_000
        self.timeout_ms = timeout_ms
        self.abandoned = False
        # A little early, so that the caller hears from here what was in the way.
        self._give_up_s = monotonic_s() + timeout_s - min(_MARGIN_S, timeout_s / 5)

    def check(self, cause: BaseException | None = None) -> None:
        """
        End the call's work if its time is over.

        Raises:
            StoreUnavailableError: It is; the transaction is rolled back.
        """
        if self.abandoned or monotonic_s() >= self._give_up_s:
            why = (
                "the call's time was over"
                if cause is None
                else f"another connection kept the file locked: {cause}"
            )
            msg = f"SQLite did not do it within {self.timeout_ms} ms: {why}"
            raise StoreUnavailableError(msg) from cause


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
        connect: Opens the connection; it runs on the thread.
    """

    def __init__(self, connect: Callable[[], sqlite3.Connection]) -> None:
        self._connect = connect
        self._raw: sqlite3.Connection | None = None
        self._proxy: aiosqlite.Connection | None = None
        self._waiting: set[_Waiting[Any]] = set()
        self._current: Ticket | None = None
        # Held for an assignment or an interrupt: an interrupt must not hit the next call.
        self._lock = threading.Lock()
        self._closed = False

    async def start(self, *, timeout_ms: int) -> None:
        """
        Start the thread and open the connection on it.

        What *connect* raises comes out here, the thread having ended.

        Raises:
            StoreUnavailableError: It was not open in time; it is closed once it is.
        """
        proxy = self._proxy = aiosqlite.Connection(self._open, 64)
        proxy._thread.daemon = True  # noqa: SLF001 - see the module's docstring
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

    def _too_late_to_begin(
        self, proxy: aiosqlite.Connection, begun: asyncio.Future[aiosqlite.Connection]
    ) -> None:
        """
        Close a connection that nobody waited for.
        """
        if not begun.cancelled() and begun.exception() is None:
            proxy._tx.put_nowait((None, lambda: self._end(proxy, None)))  # noqa: SLF001 - see the module's docstring

    def _open(self) -> sqlite3.Connection:
        self._raw = self._connect()
        return self._raw

    async def run(self, work: Callable[[sqlite3.Connection, Ticket], T], *, timeout_ms: int) -> T:
        """
        Run *work* on the connection's thread, after what was asked before.

        The caller hears something by *timeout_ms*, also if the thread is stuck. Work
        whose caller has gone is not begun, and a statement that runs is interrupted.

        Raises:
            StoreUnavailableError: The time was over, or the connection was closed
                meanwhile; the outcome is unknown.

            BackendStateError: The connection is closed.
        """
        proxy, raw = self._proxy, self._raw
        if self._closed or proxy is None or raw is None:
            msg = "this connection is closed"
            raise BackendStateError(msg)
        waiting: _Waiting[T] = _Waiting(Ticket(timeout_ms))
        timer = waiting.loop.call_later(max(0, timeout_ms) / 1_000, self._too_late, waiting)
        self._waiting.add(waiting)
        proxy._tx.put_nowait((None, lambda: self._work(raw, waiting, work)))  # noqa: SLF001 - see the module's docstring
        try:
            return await waiting.future
        except asyncio.CancelledError:
            self._abandon(waiting.ticket)
            raise
        finally:
            timer.cancel()
            self._waiting.discard(waiting)

    def _work(
        self,
        raw: sqlite3.Connection,
        waiting: _Waiting[T],
        work: Callable[[sqlite3.Connection, Ticket], T],
    ) -> None:
        """
        Do a caller's work, on the thread.
        """
        ticket = waiting.ticket
        with self._lock:
            if ticket.abandoned:
                return
            self._current = ticket
        result, error = None, None
        try:
            ticket.check()
            result = work(raw, ticket)
        except BaseException as caught:  # noqa: BLE001 - whatever it is belongs to the caller, not to this thread
            error = caught
        finally:
            with self._lock:
                self._current = None
        waiting.tell(result, error)

    def _too_late(self, waiting: _Waiting[Any]) -> None:
        self._abandon(waiting.ticket)
        msg = f"SQLite did not answer within {waiting.ticket.timeout_ms} ms; the outcome is unknown"
        waiting.fail(StoreUnavailableError(msg))

    def _abandon(self, ticket: Ticket) -> None:
        """
        Tell the thread that nobody waits for this work any more.
        """
        with self._lock:
            ticket.abandoned = True
            if self._current is ticket and self._raw is not None:
                self._raw.interrupt()

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
            self._abandon(waiting.ticket)
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
        # What SQLite says to a close concerns nobody any more: each transaction has ended before.
        with contextlib.suppress(sqlite3.Error):
            if self._raw is not None:
                self._raw.close()
        # On a thread without a loop aiosqlite makes no future, and so needs no loop later.
        proxy.stop()
        if last is not None:
            last.tell(None, None)


def insist(ticket: Ticket, attempt: Callable[[], T]) -> T:
    """
    Repeat *attempt* while somebody else holds the lock, until the ticket ends.

    Raises:
        StoreUnavailableError: The lock was held all the time.
    """
    while True:
        try:
            return attempt()
        except sqlite3.OperationalError as error:
            if not is_busy(error):
                raise
            ticket.check(error)
            # SQLite has waited by itself most often, but not where it sees a deadlock.
            sleep(_PAUSE_S)


def write_transaction(raw: sqlite3.Connection, ticket: Ticket, body: Callable[[], T]) -> T:
    """
    Run *body* as one transaction that has the write lock from its beginning.

    A deferred transaction that reads first and writes then fails at once when
    somebody else wrote in between, whatever the busy timeout.
    """
    insist(ticket, lambda: raw.execute("BEGIN IMMEDIATE"))
    try:
        result = body()
        # A process that froze in here thaws with the lock still its own, but with a caller who has given up.
        ticket.check()
        raw.execute("COMMIT")
    except BaseException:
        if raw.in_transaction:
            raw.execute("ROLLBACK")
        raise
    return result
