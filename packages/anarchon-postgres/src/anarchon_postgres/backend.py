"""
The backend: the protocol's calls, each one statement on a connection of its own.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
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
from anarchon.errors import BackendError, BackendStateError, InvalidOptionError
from anarchon.life import Life
from anarchon.operating import Finding, KnownJob
from anarchon.records import Retention, RunRecord
from anarchon_postgres.batch import PIECE_MAX, Batch
from anarchon_postgres.diagnosis import ask_for_facts, judge, read_known_jobs
from anarchon_postgres.driver import Connect
from anarchon_postgres.driver import connect as open_connection
from anarchon_postgres.hints import Hints, Offer
from anarchon_postgres.line import Line
from anarchon_postgres.operations import CLAIM, FINISH, REGISTER, RELEASE, RENEW, Operation
from anarchon_postgres.options import check_dsn, check_retention, place_of, read_url
from anarchon_postgres.rows import NAME_BYTES_MAX, AnyRequest, record_of, unfit_text
from anarchon_postgres.schema import (
    DEFAULT_SCHEMA,
    NOW_SQL,
    check_schema,
    migration_sql,
    quoted,
)
from anarchon_postgres.session import Session, prepare

__all__ = ["PostgresBackend"]

logger = logging.getLogger("anarchon")

Request = TypeVar("Request", bound=AnyRequest)
Answer = TypeVar("Answer")

_HISTORY_MAX = 2**31
_SWEEP_EVERY_MS_MAX = 60_000

_RECORD = (
    "job, slot, attempt, instance_id, status, reason, claimed_ms, started_ms, finished_ms, error"
)


class PostgresBackend:
    """
    Keep leases in one schema of a PostgreSQL database.

    The constructor connects to nothing, so that a server may fork after it.

    Args:
        dsn: Where the database is, as the driver reads it: postgresql://user:password@host:port/database. It may be
            left out where *connect* knows.

        schema: The schema that holds the tables. Services that share a database use different ones: lower-case
            letters, digits and underscores.

        connect: Opens a connection, for logins that change, or certificates that a DSN cannot name: called as
            asyncpg.connect is, with the DSN if there is one and keyword options that it hands on.

        hints_dsn: The server's own address, where *dsn* is that of a pooler through which no notification passes.

        retention: How long records are kept.

    Raises:
        InvalidOptionError: An argument is none of that.
    """

    protocol_version: ClassVar[int] = PROTOCOL_VERSION
    keeps_leases: ClassVar[bool] = True

    def __init__(
        self,
        dsn: str | None = None,
        *,
        schema: str = DEFAULT_SCHEMA,
        connect: Connect | None = None,
        hints_dsn: str | None = None,
        retention: Retention | None = None,
        _offer: Offer | None = None,
        _reads: bool = False,
    ) -> None:
        if dsn is None and connect is None:
            msg = "PostgresBackend needs a DSN such as postgresql://user@host/database, or a connect function"
            raise InvalidOptionError(msg)
        opener: object = connect  # callers without a type checker hand in anything
        if opener is not None and not callable(opener):
            msg = (
                "connect must be a function that opens a connection (a pool belongs to one event loop, and renewals"
                f" have their own), not {connect!r}"
            )
            raise InvalidOptionError(msg)
        self._dsn = None if dsn is None else check_dsn("dsn", dsn)
        self._hints_dsn = None if hints_dsn is None else check_dsn("hints_dsn", hints_dsn)
        self._schema = check_schema(schema)
        self._connect = connect
        self._retention = check_retention(retention or Retention())
        self._offer = _offer or Offer()
        self._reads = _reads
        self._place = place_of(self._dsn)
        self._version = ""
        self._direct = False
        self._life = Life()
        self._line: Line | None = None
        self._hints: Hints | None = None
        self._batch = Batch(self._schema, self._pruning)
        self._next_sweep_s: float | None = None

    @classmethod
    def from_url(cls, url: str) -> Self:
        """
        Build a backend from ``postgresql://user:password@host:port/database?schema=anarchon``.

        Parameters: schema, hints_dsn, retention_age_ms (or "none") and
        retention_records_per_job, beside those that the driver reads: sslmode, say.

        Raises:
            InvalidOptionError: The URL cannot be read.
        """
        dsn, options = read_url(url)
        return cls(dsn, **options)

    @property
    def capabilities(self) -> Capabilities:
        """
        Leases, anywhere; and hints, unless open() has found that none arrives.
        """
        return Capabilities(
            leases=True,
            hints=self._offer.hints is not False,
            store_clock=True,
            reach=Reach.NETWORK,
            batch_max=PIECE_MAX,
            name_bytes_max=NAME_BYTES_MAX,
            lease_ms_min=300,
            time_resolution_ms=1,
        )

    @property
    def service(self) -> str:
        """
        The store in words; the server's version is known once it has answered.
        """
        place = self._place.replace("PostgreSQL", f"PostgreSQL {self._version}".strip(), 1)
        return f"{place}, schema {self._schema}"

    def clone(self) -> Self:
        """
        Return an unopened backend to the same schema, with connections of its own.
        """
        return self._twin(reads=self._reads)

    def reader(self) -> Self:
        """
        Return an unopened backend to the same schema that only reads, and makes no tables.
        """
        return self._twin(reads=True)

    def migration_sql(self, *, grant_to: str | None = None) -> str:
        """
        Return the SQL that makes or upgrades the tables, for somebody who may create them.
        """
        return migration_sql(self._schema, grant_to=grant_to)

    async def open(self, *, timeout_ms: int) -> None:
        """
        Connect, make the tables if they are missing, and find out whether hints arrive.

        Raises:
            StoreUnavailableError: The server did not answer, or takes no connection now.

            StoreRefusedError: A login, a right, a database that does not exist, a standby.

            ServerTooOldError: With the version that was found.

            ProtocolVersionError: A newer anarchon-postgres has made the tables.

            BackendStateError: The backend was opened before.
        """
        loop = asyncio.get_running_loop()
        end_s = loop.time() + timeout_ms / 1_000
        async with self._life.opening(self._disconnect):
            line, hints = self._new_line(), self._new_hints()
            self._line, self._hints = line, hints
            await line.run(self._look, timeout_ms=timeout_ms)
            if self._offer.hints is None and not self._reads:
                left_ms = max(1, int((end_s - loop.time()) * 1_000))
                self._offer.hints = await self._prove(hints, line, left_ms)

    async def close(self) -> None:
        """
        End the calls in flight and the connections. Closing twice is no error.
        """
        self._life.close()
        await self._disconnect()

    async def _disconnect(self) -> None:
        line, hints = self._line, self._hints
        self._line = self._hints = None
        if hints is not None:
            await hints.close()
        if line is not None:
            await line.close()

    async def time(self, *, timeout_ms: int) -> int | None:
        """
        Tell the server's clock.
        """
        # The schema of somebody who only reads may not have its functions yet.
        clock = NOW_SQL if self._reads else f"{quoted(self._schema)}.now_v1()"
        query = f"SELECT {clock} AS now_ms"

        async def read(session: Session) -> int:
            (row,) = await session.fetch(query)
            now_ms: int = row["now_ms"]
            return now_ms

        return await self._opened().run(read, timeout_ms=timeout_ms)

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
        Return the newest records, newest first.
        """
        line = self._opened()
        if limit <= 0 or (job is not None and unfit_text("job", job) is not None):
            return []
        runs = f"{quoted(self._schema)}.runs"
        bound = min(limit, _HISTORY_MAX)

        async def read(session: Session) -> list[RunRecord]:
            if job is None:
                query = (
                    f"SELECT {_RECORD} FROM {runs} ORDER BY slot DESC, job, attempt DESC LIMIT $1"
                )
                rows = await session.fetch(query, bound)
            else:
                query = f"SELECT {_RECORD} FROM {runs} WHERE job = $1 ORDER BY slot DESC, attempt DESC LIMIT $2"
                rows = await session.fetch(query, job, bound)
            return [record_of(row) for row in rows]

        return await line.run(read, timeout_ms=timeout_ms)

    async def known_jobs(self, *, timeout_ms: int) -> Sequence[KnownJob]:
        """
        Return every job that the schema knows, by name.
        """
        return await self._opened().run(
            lambda session: read_known_jobs(session, self._schema), timeout_ms=timeout_ms
        )

    async def diagnose(self, *, timeout_ms: int) -> Sequence[Finding]:
        """
        Look at the server's settings, as they hold for our connection.
        """
        elsewhere = self._hints_dsn is not None
        facts = await self._opened().run(
            lambda session: ask_for_facts(session, self._schema, hints_elsewhere=elsewhere),
            timeout_ms=timeout_ms,
        )
        return list(judge(facts))

    async def next_hint(
        self, runs: Sequence[tuple[str, int, int]], *, timeout_ms: int
    ) -> frozenset[str]:
        """
        Wait until one of the watched runs is over, released or taken over.
        """
        _ = self._opened()
        assert self._hints is not None
        if self._offer.hints is False:
            await asyncio.sleep(timeout_ms / 1_000)
            return frozenset()
        return await self._hints.next(runs, timeout_ms=timeout_ms)

    async def _serve(
        self, operation: Operation[Request, Answer], requests: Sequence[Request], timeout_ms: int
    ) -> list[Answer | BackendError]:
        line = self._opened()
        if self._reads:
            msg = "this backend only reads: it came from reader()"
            raise BackendStateError(msg)
        if not requests:
            return []
        # The caller's list may change while its batch waits for its turn.
        asked = tuple(requests)
        return await line.run(
            lambda session: self._batch.ask(session, operation, asked), timeout_ms=timeout_ms
        )

    def _opened(self) -> Line:
        self._life.check_open()
        assert self._line is not None
        return self._line

    def _twin(self, *, reads: bool) -> Self:
        return type(self)(
            self._dsn,
            schema=self._schema,
            connect=self._connect,
            hints_dsn=self._hints_dsn,
            retention=self._retention,
            _offer=self._offer,
            _reads=reads,
        )

    def _new_line(self) -> Line:
        return Line(
            connect=self._connect or open_connection,
            dsn=self._dsn,
            place=self._place,
            ready=lambda session: prepare(
                session,
                self._schema,
                first=self._life.is_opening,
                migrates=not self._reads,
            ),
        )

    def _new_hints(self) -> Hints:
        direct = self._hints_dsn is not None
        return Hints(
            connect=open_connection if direct or self._connect is None else self._connect,
            dsn=self._hints_dsn if direct else self._dsn,
            place=place_of(self._hints_dsn if direct else self._dsn),
            schema=self._schema,
        )

    async def _look(self, session: Session) -> None:
        self._version = session.version
        self._direct = session.direct

    async def _prove(self, hints: Hints, line: Line, timeout_ms: int) -> bool:
        """
        Find out whether hints arrive, without leaving anything on a connection that others share.
        """
        if self._hints_dsn is None and not self._direct:
            logger.warning(
                "%s: hints are off: a pooler hands our transactions to connections that others share. A released run"
                " starts elsewhere at the next heartbeat; hints_dsn names the server's own address",
                self._place,
            )
            return False

        async def notify(channel: str, payload: str) -> None:
            async def send(session: Session) -> None:
                _ = await session.fetch("SELECT pg_notify($1, $2)", channel, payload)

            await line.run(send, timeout_ms=timeout_ms)

        return await hints.prove(notify, timeout_ms=timeout_ms)

    def _pruning(self) -> tuple[int, int | None]:
        """
        Tell how many records a job keeps, and the age at which to forget, if it is time to look.
        """
        age_ms = self._retention.age_ms
        now_s = asyncio.get_running_loop().time()
        if age_ms is None or (self._next_sweep_s is not None and now_s < self._next_sweep_s):
            return self._retention.records_per_job, None
        self._next_sweep_s = now_s + min(_SWEEP_EVERY_MS_MAX, age_ms // 16) / 1_000
        return self._retention.records_per_job, age_ms
