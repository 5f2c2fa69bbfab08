"""
The thread of a connection: what aiosqlite keeps to itself, deadlines, and ends.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue

import aiosqlite
import pytest

from anarchon.errors import BackendStateError, StoreUnavailableError
from anarchon_sqlite.hop import Hop
from anarchon_sqlite.transaction import Ticket, write_transaction

TIMEOUT_MS = 10_000

# It counts for hours; only who stops it ends it.
ENDLESS = "WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n"


def hop_to(path: Path, connect: Callable[[], sqlite3.Connection] | None = None) -> Hop:
    """
    Make a hop to a file that needs no preparation.
    """
    return Hop(
        str(path),
        connect=connect or (lambda: sqlite3.connect(path, isolation_level=None)),
        prepare=lambda _raw, _ticket: None,
    )


def endless(raw: sqlite3.Connection, _ticket: Ticket) -> object:
    """
    Keep the thread inside of SQLite.
    """
    return raw.execute(ENDLESS).fetchall()


def one(raw: sqlite3.Connection, _ticket: Ticket) -> int:
    """
    Answer at once.
    """
    (row,) = raw.execute("SELECT 1").fetchall()
    number: int = row[0]
    return number


def test_aiosqlite_has_what_is_used_of_it() -> None:
    """
    A thread that can be made a daemon before it starts, and a queue of (None, function).
    """
    done = threading.Event()
    connection = aiosqlite.Connection(lambda: sqlite3.connect(":memory:"), 64)
    thread, queue = connection._thread, connection._tx
    thread.daemon = True

    assert not thread.is_alive()
    assert isinstance(queue, SimpleQueue)

    thread.start()
    queue.put_nowait((None, done.set))
    assert done.wait(10), "the thread no longer runs a function that comes without a future"
    # Without a loop, stop() sends no future either; hop.py ends the thread that way.
    queue.put_nowait((None, connection.stop))
    thread.join(10)
    assert not thread.is_alive()


def test_work_is_done_on_one_daemon_thread(path: Path) -> None:
    """
    Everything runs on the same thread, which keeps no process alive and ends with close().
    """

    async def scenario() -> None:
        hop = hop_to(path)
        await hop.start(timeout_ms=TIMEOUT_MS)
        first = await hop.run(
            lambda _raw, _ticket: threading.current_thread(), timeout_ms=TIMEOUT_MS
        )
        second = await hop.run(
            lambda _raw, _ticket: threading.current_thread(), timeout_ms=TIMEOUT_MS
        )
        await hop.close()
        await asyncio.to_thread(first.join, 10)

        assert first is second
        assert first.daemon
        assert not first.is_alive()
        with pytest.raises(BackendStateError):
            await hop.run(one, timeout_ms=TIMEOUT_MS)

    asyncio.run(scenario())


def test_a_call_ends_at_its_deadline(path: Path) -> None:
    """
    A statement that takes too long is stopped, and the next call is served.
    """

    async def scenario() -> None:
        hop = hop_to(path)
        await hop.start(timeout_ms=TIMEOUT_MS)
        with pytest.raises(StoreUnavailableError, match="within 50 ms; the outcome is unknown"):
            await hop.run(endless, timeout_ms=50)

        assert 1 == await hop.run(one, timeout_ms=TIMEOUT_MS)
        await hop.close()

    asyncio.run(scenario())


def test_a_call_ends_although_the_thread_is_stuck(path: Path) -> None:
    """
    A caller hears at its deadline that nothing was heard; its work is not begun later.
    """
    begun: list[str] = []

    async def scenario() -> None:
        hop = hop_to(path)
        await hop.start(timeout_ms=TIMEOUT_MS)
        free = threading.Event()
        stuck = asyncio.create_task(
            hop.run(lambda _raw, _ticket: free.wait(30), timeout_ms=TIMEOUT_MS)
        )
        await asyncio.sleep(0)
        with pytest.raises(StoreUnavailableError):
            await hop.run(lambda _raw, _ticket: begun.append("late"), timeout_ms=50)
        free.set()
        await stuck
        await hop.run(one, timeout_ms=TIMEOUT_MS)
        await hop.close()

    asyncio.run(scenario())

    assert [] == begun


def test_a_cancelled_call_is_stopped(path: Path) -> None:
    """
    A cancelled caller's statement ends at once, and its transaction is rolled back.
    """

    async def scenario() -> None:
        hop = hop_to(path)
        await hop.start(timeout_ms=TIMEOUT_MS)
        await hop.run(
            lambda raw, _: raw.execute("CREATE TABLE t (n)").fetchall(), timeout_ms=TIMEOUT_MS
        )
        inside = threading.Event()

        def work(raw: sqlite3.Connection, ticket: Ticket) -> None:
            def body() -> None:
                raw.execute("INSERT INTO t VALUES (1)")
                inside.set()
                endless(raw, ticket)

            write_transaction(raw, ticket, body)

        calling = asyncio.create_task(hop.run(work, timeout_ms=TIMEOUT_MS))
        await asyncio.to_thread(inside.wait, 10)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling
        rows = await hop.run(
            lambda raw, _: raw.execute("SELECT n FROM t").fetchall(), timeout_ms=TIMEOUT_MS
        )
        await hop.close()

        assert [] == rows

    asyncio.run(scenario())


def test_nothing_is_committed_after_the_deadline(path: Path) -> None:
    """
    A transaction whose caller has given up is rolled back at its end.
    """

    async def scenario() -> None:
        hop = hop_to(path)
        await hop.start(timeout_ms=TIMEOUT_MS)
        await hop.run(
            lambda raw, _: raw.execute("CREATE TABLE t (n)").fetchall(), timeout_ms=TIMEOUT_MS
        )
        thaw = threading.Event()

        def work(raw: sqlite3.Connection, ticket: Ticket) -> None:
            def body() -> None:
                raw.execute("INSERT INTO t VALUES (1)")
                thaw.wait(30)

            write_transaction(raw, ticket, body)

        with pytest.raises(StoreUnavailableError):
            await hop.run(work, timeout_ms=50)
        thaw.set()
        rows = await hop.run(
            lambda raw, _: raw.execute("SELECT n FROM t").fetchall(), timeout_ms=TIMEOUT_MS
        )
        await hop.close()

        assert [] == rows

    asyncio.run(scenario())


def test_close_ends_what_is_under_way(path: Path) -> None:
    """
    A call in flight raises when the connection is closed, and close() returns.
    """

    async def scenario() -> None:
        hop = hop_to(path)
        await hop.start(timeout_ms=TIMEOUT_MS)
        calling = asyncio.create_task(hop.run(endless, timeout_ms=TIMEOUT_MS))
        waiting = asyncio.create_task(hop.run(one, timeout_ms=TIMEOUT_MS))
        await asyncio.sleep(0)
        await hop.close()
        await hop.close()
        for task in (calling, waiting):
            with pytest.raises(StoreUnavailableError, match="closed during the call"):
                await task

    asyncio.run(scenario())


def test_the_thread_outlives_a_loop_that_was_closed(path: Path) -> None:
    """
    A result whose loop has been closed is dropped; the thread serves the next loop.
    """
    hop = hop_to(path)
    free = threading.Event()

    async def leave() -> None:
        await hop.start(timeout_ms=TIMEOUT_MS)
        inside = threading.Event()

        def work(_raw: sqlite3.Connection, _ticket: Ticket) -> None:
            inside.set()
            free.wait(30)

        left = asyncio.ensure_future(hop.run(work, timeout_ms=TIMEOUT_MS))
        await asyncio.to_thread(inside.wait, 10)
        assert not left.done()

    async def come_back() -> int:
        number = await hop.run(one, timeout_ms=TIMEOUT_MS)
        await hop.close()
        return number

    asyncio.run(leave())
    free.set()

    assert 1 == asyncio.run(come_back())


def test_a_connection_that_cannot_be_opened_says_why(path: Path) -> None:
    """
    What the opening raises comes out of start(), and no thread is left.
    """

    def connect() -> sqlite3.Connection:
        threads.append(threading.current_thread())
        return sqlite3.connect(path.parent / "missing" / "jobs.db")

    threads: list[threading.Thread] = []

    async def scenario() -> None:
        hop = hop_to(path, connect)
        with pytest.raises(sqlite3.OperationalError, match="unable to open database file"):
            await hop.start(timeout_ms=TIMEOUT_MS)
        await hop.close()

    asyncio.run(scenario())

    assert [False] == [thread.is_alive() for thread in threads]


def test_a_connection_that_opens_too_late_is_closed(path: Path) -> None:
    """
    start() gives up at its deadline, and what opens later is closed and its thread ended.
    """
    free = threading.Event()
    late: list[sqlite3.Connection] = []
    threads: list[threading.Thread] = []

    def connect() -> sqlite3.Connection:
        threads.append(threading.current_thread())
        free.wait(30)
        late.append(sqlite3.connect(path, check_same_thread=False))
        return late[0]

    async def scenario() -> None:
        hop = hop_to(path, connect)
        with pytest.raises(StoreUnavailableError, match="could not open the file within 50 ms"):
            await hop.start(timeout_ms=50)
        free.set()
        await asyncio.to_thread(threads[0].join, 10)

    asyncio.run(scenario())

    assert not threads[0].is_alive()
    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        late[0].execute("SELECT 1")


def test_a_connection_that_fails_too_late_leaves_no_thread(path: Path) -> None:
    """
    What fails after start() has given up is nobody's any more; its thread ends.
    """
    free = threading.Event()
    threads: list[threading.Thread] = []

    def connect() -> sqlite3.Connection:
        threads.append(threading.current_thread())
        free.wait(30)
        return sqlite3.connect(path.parent / "missing" / "jobs.db")

    async def scenario() -> None:
        hop = hop_to(path, connect)
        with pytest.raises(StoreUnavailableError):
            await hop.start(timeout_ms=50)
        free.set()
        await asyncio.to_thread(threads[0].join, 10)

    asyncio.run(scenario())

    assert not threads[0].is_alive()


def test_a_broken_connection_is_opened_anew(path: Path) -> None:
    """
    After a failure of the file, the next call has a new connection; after a busy lock, the old one.
    """
    connections: list[sqlite3.Connection] = []

    def connect() -> sqlite3.Connection:
        connections.append(sqlite3.connect(path, isolation_level=None))
        return connections[-1]

    def fail(code: int) -> Callable[[sqlite3.Connection, Ticket], None]:
        def work(_raw: sqlite3.Connection, _ticket: Ticket) -> None:
            error = sqlite3.OperationalError("told by a test")
            error.sqlite_errorcode = code
            raise error

        return work

    async def scenario() -> list[int]:
        hop = hop_to(path, connect)
        await hop.start(timeout_ms=TIMEOUT_MS)
        counts = [len(connections)]
        for code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_IOERR_READ):
            with pytest.raises(sqlite3.OperationalError):
                await hop.run(fail(code), timeout_ms=TIMEOUT_MS)
            await hop.run(one, timeout_ms=TIMEOUT_MS)
            counts.append(len(connections))
        await hop.close()
        return counts

    assert [1, 1, 2] == asyncio.run(scenario())
