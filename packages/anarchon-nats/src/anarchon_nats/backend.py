"""
The backend: the protocol's calls, as messages to a stream.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import ClassVar, Self

from anarchon.backend import (
    PROTOCOL_VERSION,
    ClaimAnswer,
    ClaimRequest,
    CloseAnswer,
    FinishRequest,
    Verdict,
)
from anarchon.capabilities import Capabilities, Reach
from anarchon.clock import SystemClock
from anarchon.errors import BackendError, BackendStateError
from anarchon.life import Life
from anarchon.operating import Finding, KnownJob
from anarchon.records import Retention, RunRecord
from anarchon_nats.address import read_addresses
from anarchon_nats.diagnosis import ask_for_facts, judge, look_at_stream, read_known_jobs
from anarchon_nats.history import HistoryReader
from anarchon_nats.instants import ServerTime
from anarchon_nats.ledger import Ledger
from anarchon_nats.options import DEFAULT_MEMORY_MS, DEFAULT_PREFIX, Options, read_url
from anarchon_nats.pruning import Pruner
from anarchon_nats.stream import Stream, check_server
from anarchon_nats.subjects import NAME_BYTES_MAX, Subjects
from anarchon_nats.wire import Wire

__all__ = ["NatsBackend"]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opened:
    """
    What a backend has while it is open.
    """

    wire: Wire
    stream: Stream
    ledger: Ledger
    history: HistoryReader
    pruner: Pruner


class NatsBackend:
    """
    Keep claims and their history in NATS JetStream. There are no leases.

    The constructor opens nothing, so that a server may fork after it.

    Args:
        url: nats://user:password@host:port, nats://token@host:port or tls://…; several servers
            of one cluster are separated by commas, or stand in a list.

        prefix: The front of every subject, and the stream's name. Services that share a
            server use different ones.

        retention: How long records are kept.

        claim_memory_ms: For how long a claim is remembered; a slot that is older is
            refused. In milliseconds; all instances say the same.

        replicas: How many nodes of a cluster keep everything: 1, 3 or 5. None makes a
            stream with one, and takes a stream that is there as it is.

        max_age_ms: The stream's own limit, in milliseconds: the server drops everything that
            is older, unfinished runs too. None leaves it to the retention.

        domain: The JetStream domain, where the server is a leaf node.

        credentials_file, nkey_file: A login by JWT and seed, or by an nkey's seed.

        ca_file, certificate_file, key_file, verify: TLS: whom to trust, who to be, and
            whether to look at the server's certificate at all.

    Raises:
        InvalidOptionError: An argument cannot be meant.
    """

    protocol_version: ClassVar[int] = PROTOCOL_VERSION
    keeps_leases: ClassVar[bool] = False

    def __init__(
        self,
        url: str | Sequence[str] = "nats://localhost:4222",
        *,
        prefix: str = DEFAULT_PREFIX,
        retention: Retention | None = None,
        claim_memory_ms: int = DEFAULT_MEMORY_MS,
        replicas: int | None = None,
        max_age_ms: int | None = None,
        domain: str | None = None,
        credentials_file: str | None = None,
        nkey_file: str | None = None,
        ca_file: str | None = None,
        certificate_file: str | None = None,
        key_file: str | None = None,
        verify: bool = True,
        _reads: bool = False,
    ) -> None:
        self._options = Options(
            prefix=prefix,
            retention=retention or Retention(),
            claim_memory_ms=claim_memory_ms,
            replicas=replicas,
            max_age_ms=max_age_ms,
            domain=domain,
            credentials_file=credentials_file,
            nkey_file=nkey_file,
            ca_file=ca_file,
            certificate_file=certificate_file,
            key_file=key_file,
            verify=verify,
        )
        self._url = url
        self._reads = _reads
        self._addresses = read_addresses(url)
        self._subjects = Subjects(prefix)
        self._time = ServerTime(SystemClock())
        self._life = Life()
        self._version: str | None = None
        self._replicas: int | None = None
        self._wire: Wire | None = None
        self._opened_parts: _Opened | None = None

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
        Claims alone, for instances anywhere, remembered for a while.
        """
        return Capabilities(
            reach=Reach.NETWORK,
            name_bytes_max=NAME_BYTES_MAX,
            claim_memory_ms=self._options.claim_memory_ms,
        )

    @property
    def service(self) -> str:
        """
        The store in words, without passwords.
        """
        replicas = "" if self._replicas is None else f", R{self._replicas}"
        return f"{self._where}, stream {self._subjects.stream}{replicas}"

    @property
    def _where(self) -> str:
        name = "NATS" if self._version is None else f"NATS {self._version}"
        return f"{name} at {','.join(each.shown for each in self._addresses)}"

    def clone(self) -> Self:
        """
        Return an unopened backend to the same servers, with a connection of its own.
        """
        return self._twin(reads=self._reads)

    def reader(self) -> Self:
        """
        Return an unopened backend to the same servers that only reads, and makes no stream.
        """
        return self._twin(reads=True)

    def _twin(self, *, reads: bool) -> Self:
        options = {
            field.name: getattr(self._options, field.name) for field in fields(self._options)
        }
        return type(self)(self._url, _reads=reads, **options)

    async def open(self, *, timeout_ms: int) -> None:
        """
        Connect, look at the server, and make the stream or look at the one that is there.

        Raises:
            StoreUnavailableError: The server did not answer.

            ServerTooOldError: It is older than NATS 2.10.

            StoreRefusedError: It refused the login, has no JetStream, or the stream does
                not keep what is promised; or a file that the options name cannot be used.

            ProtocolVersionError: Another anarchon-nats has made the stream.

            BackendStateError: The backend was opened before.
        """
        async with self._life.opening(self._disconnect):
            self._wire = wire = Wire(self._addresses, self._options, self._where)
            parts = await wire.bounded(lambda: self._prepare(wire), timeout_ms=timeout_ms)
            self._opened_parts = parts

    async def _prepare(self, wire: Wire) -> _Opened:
        self._version = check_server(await wire.hello(), self._options, self._where)
        stream = Stream(wire, self._options, self._subjects, self._where)
        if self._reads:
            told = await look_at_stream(wire, self._options, self._subjects, self._where)
        else:
            told = await stream.prepare()
        self._replicas = told["config"].get("num_replicas", 1)
        self._time.heard(told["ts"], wire.connections)
        ledger = Ledger(
            wire=wire,
            stream=stream,
            subjects=self._subjects,
            options=self._options,
            time=self._time,
            where=self._where,
        )
        return _Opened(
            wire=wire,
            stream=stream,
            ledger=ledger,
            history=HistoryReader(stream, self._subjects, self._options.retention, self._time),
            pruner=Pruner(
                wire=wire,
                stream=stream,
                subjects=self._subjects,
                options=self._options,
                time=self._time,
                fresh=ledger.forgotten_until,
            ),
        )

    async def close(self) -> None:
        """
        End the calls in flight and the connection. Closing twice is no error.
        """
        self._life.close()
        await self._disconnect()

    async def _disconnect(self) -> None:
        wire, parts = self._wire, self._opened_parts
        self._wire = self._opened_parts = None
        if parts is not None:
            await parts.pruner.close()
        if wire is not None:
            await wire.close()

    async def time(self, *, timeout_ms: int) -> int | None:
        """
        Ask the stream's leader for a sign of life. It judges no claim by its clock, so none is told.
        """
        parts = self._opened()
        told = await parts.wire.bounded(parts.stream.info, timeout_ms=timeout_ms)
        self._time.heard(told["ts"], parts.wire.connections)
        return None

    async def claim(
        self, requests: Sequence[ClaimRequest], *, timeout_ms: int
    ) -> Sequence[ClaimAnswer | BackendError]:
        """
        Grant each slot to the first token that asks for it.
        """
        parts = self._writing()
        if not requests:
            return []
        answers = await parts.wire.bounded(
            lambda: parts.ledger.claim(requests), timeout_ms=timeout_ms
        )
        for request, answer in zip(requests, answers, strict=True):
            if isinstance(answer, ClaimAnswer) and answer.verdict is Verdict.WON:
                parts.pruner.won(request.job)
        return answers

    async def finish(
        self, requests: Sequence[FinishRequest], *, timeout_ms: int
    ) -> Sequence[CloseAnswer | BackendError]:
        """
        Record how runs ended.
        """
        parts = self._writing()
        if not requests:
            return []
        return await parts.wire.bounded(
            lambda: parts.ledger.finish(requests), timeout_ms=timeout_ms
        )

    async def history(self, job: str | None, *, limit: int, timeout_ms: int) -> Sequence[RunRecord]:
        """
        Return the newest records, newest first.
        """
        parts = self._opened()
        if limit <= 0:
            return []
        return await parts.wire.bounded(
            lambda: parts.history.read(job, limit=limit), timeout_ms=timeout_ms
        )

    async def known_jobs(self, *, timeout_ms: int) -> Sequence[KnownJob]:
        """
        Return every job that has a claim, by name.
        """
        parts = self._opened()
        return await parts.wire.bounded(
            lambda: read_known_jobs(parts.stream, self._subjects), timeout_ms=timeout_ms
        )

    async def diagnose(self, *, timeout_ms: int) -> Sequence[Finding]:
        """
        Look at the stream, and at the server's clock.
        """
        wire = self._opened().wire
        facts = await wire.bounded(
            lambda: ask_for_facts(
                wire, self._options, self._subjects, self._where, clock=SystemClock()
            ),
            timeout_ms=timeout_ms,
        )
        return list(judge(facts))

    def _writing(self) -> _Opened:
        parts = self._opened()
        if self._reads:
            msg = "this backend only reads: it came from reader()"
            raise BackendStateError(msg)
        return parts

    def _opened(self) -> _Opened:
        self._life.check_open()
        assert self._opened_parts is not None
        return self._opened_parts
