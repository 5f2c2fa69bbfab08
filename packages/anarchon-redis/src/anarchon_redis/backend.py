"""
The backend: the protocol's calls, each a script in the server.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import fields
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
    UnsupportedByBackendError,
)
from anarchon.life import Life
from anarchon.operating import Finding, KnownJob
from anarchon.records import Retention, RunRecord
from anarchon_redis.address import read_address
from anarchon_redis.batch import Batches
from anarchon_redis.client import make_client, make_listener
from anarchon_redis.hints import Hints, Run
from anarchon_redis.history import HistoryReader
from anarchon_redis.inspection import look_at_servers, read_known_jobs
from anarchon_redis.keys import NAME_BYTES_MAX, Keys
from anarchon_redis.marker import check_marker, read_marker
from anarchon_redis.operations import Operation, plan_for
from anarchon_redis.options import DEFAULT_PREFIX, Options, Strategy, read_url
from anarchon_redis.requests import AnyRequest
from anarchon_redis.scripts import Script
from anarchon_redis.server import Server, check_server, eviction_warning, server_of
from anarchon_redis.wire import Wire

__all__ = ["RedisBackend"]

Request = TypeVar("Request", bound=AnyRequest)
Answer = TypeVar("Answer")
T = TypeVar("T")

logger = logging.getLogger("anarchon")


class RedisBackend:
    """
    Keep leases, or claims alone, in Redis or Valkey.

    The constructor opens nothing, so that a server may fork after it.

    Args:
        url: redis://user:password@host:port/db, rediss://… (TLS) or unix:///path.

        strategy: "lease" keeps leases; "stream-id", "idmp" and "script" are claim-only.

        prefix: The front of every key. Services that share a server use different ones.

        retention: How long records are kept.

        db: The number of the database, where the URL does not say it.

        claim_memory_ms: How long a claim-only strategy remembers a claim; a slot that
            is older is refused. In milliseconds.

        wait_replicas, wait_timeout_ms: How many replicas must have a claim before it
            counts, and for how long to wait for them.

        cluster: The server is a node of a Redis Cluster; the URL may name several.

        sentinel: The URL names Sentinels; this is the service that they watch.

        sentinel_username, sentinel_password: The login at the Sentinels.

        ca_file, certificate_file, key_file, verify: TLS: whom to trust, who to be, and
            whether to look at the server's certificate at all.

    Raises:
        InvalidOptionError: An argument cannot be meant.
    """

    protocol_version: ClassVar[int] = PROTOCOL_VERSION
    keeps_leases: ClassVar[bool] = True

    def __init__(
        self,
        url: str = "redis://localhost:6379/0",
        *,
        strategy: Strategy = "lease",
        prefix: str = DEFAULT_PREFIX,
        retention: Retention | None = None,
        db: int | None = None,
        claim_memory_ms: int = 3_600_000,
        wait_replicas: int | None = None,
        wait_timeout_ms: int = 500,
        cluster: bool = False,
        sentinel: str | None = None,
        sentinel_username: str | None = None,
        sentinel_password: str | None = None,
        ca_file: str | None = None,
        certificate_file: str | None = None,
        key_file: str | None = None,
        verify: bool = True,
        _reads: bool = False,
    ) -> None:
        self._options = Options(
            strategy=strategy,
            prefix=prefix,
            retention=retention or Retention(),
            claim_memory_ms=claim_memory_ms,
            wait_replicas=wait_replicas,
            wait_timeout_ms=wait_timeout_ms,
            cluster=cluster,
            sentinel=sentinel,
            sentinel_username=sentinel_username,
            sentinel_password=sentinel_password,
            ca_file=ca_file,
            certificate_file=certificate_file,
            key_file=key_file,
            verify=verify,
        )
        self._url = url
        self._db = db
        self._reads = _reads
        self._address = read_address(url, db=db, sentinel=sentinel is not None)
        self._keys = Keys(self._options.prefix)
        self._plan = plan_for(self._options)
        self._life = Life()
        self._server: Server | None = None
        self._wire: Wire | None = None
        self._hints: Hints | None = None
        self._batches: Batches | None = None

    @classmethod
    def from_url(cls, url: str) -> Self:
        """
        Build a backend from a URL with the constructor's options as its parameters.

        The retention is written retention_age_ms (or "none") and
        retention_records_per_job.

        Raises:
            InvalidOptionError: The URL cannot be read.
        """
        place, options = read_url(url)
        return cls(place, **options)

    @property
    def capabilities(self) -> Capabilities:
        """
        What the strategy promises.
        """
        return Capabilities(
            leases=self._options.leases,
            hints=self._options.leases,
            store_clock=True,
            reach=Reach.NETWORK,
            batch_max=512,
            name_bytes_max=NAME_BYTES_MAX,
            lease_ms_min=300,
            time_resolution_ms=1,
            claim_memory_ms=None if self._options.leases else self._options.claim_memory_ms,
            rising_slots=self._options.strategy == "stream-id",
        )

    @property
    def service(self) -> str:
        """
        The store in words, without passwords.
        """
        return f"{self._where}, strategy {self._options.strategy}, prefix {self._options.prefix}"

    @property
    def _where(self) -> str:
        name = "Redis" if self._server is None else self._server.shown
        kind = " Cluster" if self._options.cluster else ""
        sentinel = self._options.sentinel
        through = "" if sentinel is None else f" (service {sentinel!r} of Sentinel)"
        return f"{name}{kind} at {self._address.shown}{through}"

    def clone(self) -> Self:
        """
        Return an unopened backend to the same server, with connections of its own.
        """
        return self._twin(reads=self._reads)

    def reader(self) -> Self:
        """
        Return an unopened backend to the same server that only reads.
        """
        return self._twin(reads=True)

    def _twin(self, *, reads: bool) -> Self:
        options = {
            field.name: getattr(self._options, field.name) for field in fields(self._options)
        }
        return type(self)(self._url, db=self._db, _reads=reads, **options)

    async def open(self, *, timeout_ms: int) -> None:
        """
        Connect, look at the server, and make the scripts known to it.

        Raises:
            StoreUnavailableError: The server did not answer.

            ServerTooOldError: It cannot serve the strategy.

            StoreRefusedError: It refused the login, is a replica, or the prefix
                belongs to another strategy.

            ProtocolVersionError: Another anarchon-redis has laid the keys out.

            BackendStateError: The backend was opened before.
        """
        async with self._life.opening(self._disconnect):
            wire = Wire(
                make_client(self._address, self._options),
                self._where,
                cluster=self._options.cluster,
            )
            self._wire = wire
            await wire.bounded(lambda: self._prepare(wire), timeout_ms=timeout_ms)
            self._batches = Batches(
                wire, self._plan, self._keys, where=self._where, prepared=self._script
            )

    async def _prepare(self, wire: Wire) -> None:
        server = server_of(await wire.hello())
        check_server(server, self._options, self._where)
        self._server = server
        await wire.load([self._script(script) for script in self._plan.scripts])
        mark = read_marker if self._reads else check_marker
        await mark(wire, self._keys, self._options, self._where)
        if self._reads:
            return  # Whoever only reads is told of the eviction by diagnose().
        warning = eviction_warning(await wire.memory(), self._options.strategy)
        if warning is not None:
            logger.warning("%s: %s", self._where, warning)

    async def close(self) -> None:
        """
        End the calls in flight and the connections. Closing twice is no error.
        """
        self._life.close()
        await self._disconnect()

    async def _disconnect(self) -> None:
        hints, wire = self._hints, self._wire
        self._hints = self._wire = self._batches = None
        if hints is not None:
            await hints.close()
        if wire is not None:
            await wire.close()

    async def time(self, *, timeout_ms: int) -> int | None:
        """
        Tell the server's clock.
        """
        wire = self._opened_wire()

        async def ask() -> int:
            # A Cluster's client would ask every node.
            seconds, micros = await wire.time_of(self._keys.marker)
            return int(seconds) * 1_000 + int(micros) // 1_000

        return await wire.bounded(ask, timeout_ms=timeout_ms)

    async def register(
        self, requests: Sequence[RegisterRequest], *, timeout_ms: int
    ) -> Sequence[RegisterAnswer | BackendError]:
        """
        Make jobs known.
        """
        return await self._serve(self._plan.register, requests, timeout_ms)

    async def claim(
        self, requests: Sequence[ClaimRequest], *, timeout_ms: int
    ) -> Sequence[ClaimAnswer | BackendError]:
        """
        Answer claims: by the table, or by the strategy that keeps claims alone.
        """
        wanted = self._options.wait_replicas
        replicas = None if wanted is None else (wanted, self._options.wait_timeout_ms)
        return await self._serve(self._plan.claim, requests, timeout_ms, replicas=replicas)

    async def renew(
        self, requests: Sequence[RenewRequest], *, timeout_ms: int
    ) -> Sequence[RenewAnswer | BackendError]:
        """
        Push leases forward.
        """
        return await self._serve(self._plan.renew, requests, timeout_ms)

    async def finish(
        self, requests: Sequence[FinishRequest], *, timeout_ms: int
    ) -> Sequence[CloseAnswer | BackendError]:
        """
        Close runs whose handlers have ended.
        """
        return await self._serve(self._plan.finish, requests, timeout_ms)

    async def release(
        self, requests: Sequence[ReleaseRequest], *, timeout_ms: int
    ) -> Sequence[CloseAnswer | BackendError]:
        """
        Hand runs over.
        """
        return await self._serve(self._plan.release, requests, timeout_ms)

    async def history(self, job: str | None, *, limit: int, timeout_ms: int) -> Sequence[RunRecord]:
        """
        Return the newest records, newest first.
        """
        wire = self._opened_wire()
        if limit <= 0:
            return []
        reader = self._history_of(wire)
        return await wire.bounded(lambda: reader.read(job, limit=limit), timeout_ms=timeout_ms)

    async def known_jobs(self, *, timeout_ms: int) -> Sequence[KnownJob]:
        """
        Return every job under the prefix, by name.
        """
        wire = self._opened_wire()
        now_ms = await self.time(timeout_ms=timeout_ms)
        assert now_ms is not None
        history = None if self._options.leases else self._history_of(wire)
        return await wire.bounded(
            lambda: read_known_jobs(wire, self._keys, history=history, now_ms=now_ms),
            timeout_ms=timeout_ms,
        )

    async def diagnose(self, *, timeout_ms: int) -> Sequence[Finding]:
        """
        Look at the settings of the server, or of each primary of a Cluster.
        """
        self._opened()
        client = make_client(self._address, self._options)
        return await look_at_servers(client, self._options, self._where, timeout_ms=timeout_ms)

    async def next_hint(
        self, runs: Sequence[tuple[str, int, int]], *, timeout_ms: int
    ) -> frozenset[str]:
        """
        Wait until one of the watched runs was finished or released.
        """
        self._opened()
        self._keeping(self._plan.look)
        if self._hints is None:
            client = make_listener(self._address, self._options)
            self._hints = Hints(client, self._keys, self._look)
        found = await self._hints.wait(runs, timeout_ms=timeout_ms)
        self._opened()
        return found

    def _history_of(self, wire: Wire) -> HistoryReader:
        return HistoryReader(
            wire=wire,
            plan=self._plan,
            keys=self._keys,
            script=self._script(self._plan.history),
            where=self._where,
        )

    async def _look(self, runs: Sequence[Run], timeout_ms: int) -> frozenset[str]:
        look = self._keeping(self._plan.look)
        return await self._opened().changed(look, runs, timeout_ms=timeout_ms)

    async def _serve(
        self,
        operation: Operation[Request, Answer] | None,
        requests: Sequence[Request],
        timeout_ms: int,
        *,
        replicas: tuple[int, int] | None = None,
    ) -> list[Answer | BackendError]:
        if self._reads:
            msg = "this backend only reads: it came from reader()"
            raise BackendStateError(msg)
        return await self._opened().serve(
            self._keeping(operation), requests, timeout_ms=timeout_ms, replicas=replicas
        )

    def _script(self, script: Script) -> Script:
        """
        Return a script as it is to be run; a broken backend of our tests changes it here.
        """
        return script

    def _opened(self) -> Batches:
        self._life.check_open()
        assert self._batches is not None
        return self._batches

    def _opened_wire(self) -> Wire:
        self._opened()
        assert self._wire is not None
        return self._wire

    def _keeping(self, part: T | None) -> T:
        """
        Refuse what only a lease backend can do.

        Raises:
            UnsupportedByBackendError: The strategy is claim-only.
        """
        if part is None:
            msg = (
                f"strategy {self._options.strategy!r} keeps claims alone; strategy 'lease' of the same backend"
                " keeps leases"
            )
            raise UnsupportedByBackendError(msg)
        return part
