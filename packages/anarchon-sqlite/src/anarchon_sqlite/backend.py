"""
The backend: the protocol's calls, each one hop to the thread of a connection.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar, Self, TypeVar

from anarchon.backend import (
    PROTOCOL_VERSION,
    ClaimAnswer,
    ClaimRequest,
    CloseAnswer,
    FinishRequest,
    RegisterAnswer,
    RegisterRequest,
    ReleaseRequest,
    RenewAnswer,
    RenewRequest,
)
from anarchon.capabilities import Capabilities, Reach
from anarchon.errors import (
    BackendError,
    BackendStateError,
    StoreRefusedError,
    StoreUnavailableError,
)
from anarchon.life import Life
from anarchon.operating import Finding, KnownJob
from anarchon.records import Retention, RunRecord
from anarchon_sqlite.batch import Session, Tables, serve
from anarchon_sqlite.clock import LeaseClock, host_clock
from anarchon_sqlite.diagnosis import look_at_file, read_known_jobs
from anarchon_sqlite.hints import Watch
from anarchon_sqlite.hop import Hop
from anarchon_sqlite.operations import CLAIM, FINISH, REGISTER, RELEASE, RENEW, Operation
from anarchon_sqlite.options import (
    DEFAULT_PREFIX,
    Synchronous,
    absolute_path,
    check_prefix,
    check_retention,
    check_synchronous,
    read_url,
)
from anarchon_sqlite.pruning import Pruning
from anarchon_sqlite.rows import NAME_BYTES_MAX, AnyRequest, record_of
from anarchon_sqlite.schema import (
    check_sqlite_version,
    connect,
    connect_to_read,
    prepare,
    prepare_to_read,
)
from anarchon_sqlite.statements import statements_for
from anarchon_sqlite.transaction import Ticket, insist
from anarchon_sqlite.trouble import store_error

__all__ = ["SqliteBackend"]

T = TypeVar("T")
Request = TypeVar("Request", bound=AnyRequest)
Answer = TypeVar("Answer")

_CAPABILITIES = Capabilities(
    leases=True,
    hints=True,
    store_clock=True,
    reach=Reach.HOST,
    batch_max=256,
    name_bytes_max=NAME_BYTES_MAX,
    lease_ms_min=300,
    time_resolution_ms=1,
)

_HISTORY_MAX = 2**31


class SqliteBackend:
    """
    Keep leases in one SQLite file, for the processes of one host.

    The constructor opens nothing, so that a server may fork after it.

    Args:
        path: The file; it is made when it is missing, its directory is not.

        prefix: The front of the tables' names. Services that share a file use
            different ones: lower-case letters, digits and underscores.

        synchronous: "full" loses nothing that was answered; "normal" is faster and
            may forget the last commits when the power fails, so that a slot which
            they recorded could run again. A process that dies loses nothing either way.

        retention: How long records are kept.

    Raises:
        InvalidOptionError: An argument is none of that.

        ServerTooOldError: Python's SQLite is older than what is supported.
    """

    protocol_version: ClassVar[int] = PROTOCOL_VERSION
    keeps_leases: ClassVar[bool] = True

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        prefix: str = DEFAULT_PREFIX,
        synchronous: Synchronous = "full",
        retention: Retention | None = None,
        _clock: LeaseClock | None = None,
        _reads: bool = False,
    ) -> None:
        check_sqlite_version()
        self._path = absolute_path(path)
        self._prefix = check_prefix(prefix)
        self._synchronous = check_synchronous(synchronous)
        self._retention = check_retention(retention or Retention())
        self._clock = _clock
        self._reads = _reads
        self._statements = statements_for(prefix)
        self._life = Life()
        self._writer: Hop | None = None
        self._reader: Hop | None = None
        self._reader_lock = asyncio.Lock()  # Binds to a loop when it is first contended, not here.
        self._tables: Tables | None = None

    @classmethod
    def from_url(cls, url: str) -> Self:
        """
        Build a backend from ``sqlite:///relative.db`` or ``sqlite:////absolute.db``.

        Parameters: prefix, synchronous, retention_age_ms (or "none"), and
        retention_records_per_job.

        Raises:
            InvalidOptionError: The URL cannot be read.
        """
        path, options = read_url(url)
        return cls(path, **options)

    @property
    def capabilities(self) -> Capabilities:
        """
        Leases and hints, within one host.
        """
        return _CAPABILITIES

    @property
    def service(self) -> str:
        """
        The store in words.
        """
        return f"SQLite {sqlite3.sqlite_version}, {self._path}, prefix {self._prefix}, synchronous {self._synchronous}"

    def clone(self) -> Self:
        """
        Return an unopened backend to the same file, with connections of its own.
        """
        return self._twin(reads=self._reads)

    def reader(self) -> Self:
        """
        Return an unopened backend that only reads the file, and makes none.
        """
        return self._twin(reads=True)

    async def open(self, *, timeout_ms: int) -> None:
        """
        Open the file, and give it the tables that it lacks.

        Raises:
            StoreUnavailableError: The file stayed locked, or the file system failed.

            StoreRefusedError: The file cannot be shared, written or read as a database.

            ProtocolVersionError: A newer anarchon-sqlite has written it.

            BackendStateError: The backend was opened before.
        """
        async with self._life.opening(self._disconnect):
            self._tables = Tables(
                path=self._path,
                statements=self._statements,
                clock=self._clock or host_clock(),
                pruning=Pruning(self._retention, self._statements),
            )
            self._writer = await self._open_hop(self._ready(), timeout_ms)

    async def close(self) -> None:
        """
        End the calls in flight and the connections. Closing twice is no error.
        """
        self._life.close()
        await self._disconnect()

    async def _disconnect(self) -> None:
        for hop in (self._reader, self._writer):
            if hop is not None:
                await hop.close()

    async def time(self, *, timeout_ms: int) -> int | None:
        """
        Tell the time by SQLite's clock, having looked into the file.
        """
        writer, tables = self._opened()

        def read(raw: sqlite3.Connection, ticket: Ticket) -> int:
            insist(
                ticket,
                lambda: raw.execute(self._statements.read_meta, ("schema_version",)).fetchall(),
            )
            return tables.now(raw).wall_ms

        return await self._on(writer, read, timeout_ms)

    async def register(
        self, requests: Sequence[RegisterRequest], *, timeout_ms: int
    ) -> Sequence[RegisterAnswer | BackendError]:
        """
        Make jobs known.
        """
        return await self._serve(REGISTER, requests, timeout_ms)

    async def claim(
        self, requests: Sequence[ClaimRequest], *, timeout_ms: int
    ) -> Sequence[ClaimAnswer | BackendError]:
        """
        Answer claims by the table.
        """
        return await self._serve(CLAIM, requests, timeout_ms)

    async def renew(
        self, requests: Sequence[RenewRequest], *, timeout_ms: int
    ) -> Sequence[RenewAnswer | BackendError]:
        """
        Push leases forward.
        """
        return await self._serve(RENEW, requests, timeout_ms)

    async def finish(
        self, requests: Sequence[FinishRequest], *, timeout_ms: int
    ) -> Sequence[CloseAnswer | BackendError]:
        """
        Close runs whose handlers have ended.
        """
        return await self._serve(FINISH, requests, timeout_ms)

    async def release(
        self, requests: Sequence[ReleaseRequest], *, timeout_ms: int
    ) -> Sequence[CloseAnswer | BackendError]:
        """
        Hand runs over.
        """
        return await self._serve(RELEASE, requests, timeout_ms)

    async def history(self, job: str | None, *, limit: int, timeout_ms: int) -> Sequence[RunRecord]:
        """
        Return the newest records, newest first, read on a connection of their own.
        """
        self._opened()
        if limit <= 0:
            return []
        statements = self._statements
        bound = min(limit, _HISTORY_MAX)

        def read(raw: sqlite3.Connection, ticket: Ticket) -> list[RunRecord]:
            if job is None:
                rows = insist(ticket, lambda: raw.execute(statements.history, (bound,)).fetchall())
            else:
                rows = insist(
                    ticket, lambda: raw.execute(statements.history_of_job, (job, bound)).fetchall()
                )
            return [record_of(row) for row in rows]

        return await self._on_reader(read, timeout_ms)

    async def known_jobs(self, *, timeout_ms: int) -> Sequence[KnownJob]:
        """
        Return every job that the file knows, by name.
        """
        _, tables = self._opened()
        return await self._on_reader(partial(read_known_jobs, tables=tables), timeout_ms)

    async def diagnose(self, *, timeout_ms: int) -> Sequence[Finding]:
        """
        Look at what endangers the file.
        """
        self._opened()
        look = partial(look_at_file, path=self._path, synchronous=self._synchronous)
        return await self._on_reader(look, timeout_ms)

    async def next_hint(
        self, runs: Sequence[tuple[str, int, int]], *, timeout_ms: int
    ) -> frozenset[str]:
        """
        Wait until one of the watched runs is over, released or taken over.
        """
        self._opened()
        watch = Watch(runs, self._statements)
        loop = asyncio.get_running_loop()
        end = loop.time() + timeout_ms / 1_000
        while True:
            left_ms = int((end - loop.time()) * 1_000)
            try:
                jobs = await self._on_reader(watch.look, max(1, left_ms))
            except (StoreUnavailableError, StoreRefusedError):
                # A hint may be lost. Trouble that lasts shows in the calls that matter.
                jobs = frozenset()
            left_s = end - loop.time()
            if jobs or left_s <= 0:
                return jobs
            await asyncio.sleep(min(left_s, Watch.EVERY_S))
            self._opened()

    async def _serve(
        self, operation: Operation[Request, Answer], requests: Sequence[Request], timeout_ms: int
    ) -> list[Answer | BackendError]:
        writer, tables = self._opened()
        if self._reads:
            msg = "this backend only reads: it came from reader()"
            raise BackendStateError(msg)
        if not requests:
            return []
        # The caller's list may change while the thread reads it.
        asked = tuple(requests)
        return await self._on(
            writer,
            lambda raw, ticket: serve(Session(raw, ticket, tables), operation, asked),
            timeout_ms,
        )

    def _opened(self) -> tuple[Hop, Tables]:
        self._life.check_open()
        assert self._writer is not None
        assert self._tables is not None
        return self._writer, self._tables

    def _twin(self, *, reads: bool) -> Self:
        return type(self)(
            self._path,
            prefix=self._prefix,
            synchronous=self._synchronous,
            retention=self._retention,
            _clock=self._clock,
            _reads=reads,
        )

    def _ready(self) -> Callable[[sqlite3.Connection, Ticket], None]:
        statements, path = self._statements, self._path
        if self._reads:
            return partial(prepare_to_read, statements=statements, path=path)
        return partial(prepare, statements=statements, synchronous=self._synchronous, path=path)

    async def _open_hop(
        self, ready: Callable[[sqlite3.Connection, Ticket], None], timeout_ms: int
    ) -> Hop:
        """
        Open a connection that is *ready* for use, or none.
        """
        opener = connect_to_read if self._reads else connect
        hop = Hop(self._path, connect=partial(opener, self._path), prepare=ready)
        try:
            await hop.start(timeout_ms=timeout_ms)
        except sqlite3.Error as error:
            raise store_error(error, self._path) from error
        return hop

    async def _on(
        self, hop: Hop, work: Callable[[sqlite3.Connection, Ticket], T], timeout_ms: int
    ) -> T:
        """
        Run *work* on a connection, with the protocol's errors.
        """
        try:
            return await hop.run(work, timeout_ms=timeout_ms)
        except sqlite3.Error as error:
            raise store_error(error, self._path) from error

    async def _on_reader(
        self, work: Callable[[sqlite3.Connection, Ticket], T], timeout_ms: int
    ) -> T:
        """
        Run *work* on the connection that only reads: a long history then holds up no claim.

        It is opened when it is needed first.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + timeout_ms / 1_000
        if self._reader is None:
            try:
                async with asyncio.timeout_at(end), self._reader_lock:
                    await self._open_reader(timeout_ms)
            except TimeoutError as error:
                msg = f"SQLite file {self._path} could not be opened within {timeout_ms} ms"
                raise StoreUnavailableError(msg) from error
        assert self._reader is not None
        return await self._on(self._reader, work, int((end - loop.time()) * 1_000))

    async def _open_reader(self, timeout_ms: int) -> None:
        if self._reader is not None:
            return
        reader = await self._open_hop(_only_read, timeout_ms)
        if not self._life.is_open:
            await reader.close()
            self._life.check_open()
        self._reader = reader


def _only_read(raw: sqlite3.Connection, ticket: Ticket) -> None:
    """
    Make sure that a connection never writes.
    """
    insist(ticket, lambda: raw.execute("PRAGMA query_only = ON").fetchall())
