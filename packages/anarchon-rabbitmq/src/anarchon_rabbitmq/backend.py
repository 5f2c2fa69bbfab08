"""
The backend: a claim is an entry in a log that all instances read, and the first one has the slot.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from dataclasses import fields
from typing import ClassVar, Final, Self

from anarchon.backend import (
    PROTOCOL_VERSION,
    ClaimAnswer,
    ClaimRequest,
    CloseAnswer,
    FinishRequest,
    Verdict,
)
from anarchon.capabilities import Capabilities, Reach
from anarchon.clock import Clock, SystemClock
from anarchon.errors import BackendError, BackendStateError, StoreUnavailableError
from anarchon.life import Life
from anarchon.operating import Finding, KnownJob
from anarchon.records import Reason, Retention, RunRecord, Status, storable_error
from anarchon_rabbitmq.address import read_address
from anarchon_rabbitmq.client import tls_context
from anarchon_rabbitmq.diagnosis import insist_on_stream, judge, known_jobs_of
from anarchon_rabbitmq.entries import ClaimEntry, Entry, FinishEntry, cut
from anarchon_rabbitmq.history import read_back, records_of
from anarchon_rabbitmq.ledger import Claim, Ledger
from anarchon_rabbitmq.log import Log
from anarchon_rabbitmq.options import (
    DEFAULT_CLAIM_MEMORY_MS,
    DEFAULT_LOG_BYTES,
    DEFAULT_PREFIX,
    Options,
    read_url,
)
from anarchon_rabbitmq.requests import NAME_BYTES_MAX, check_claim, check_finish

__all__ = ["RabbitMQBackend"]


_KNOWN_MAX: Final = 100_000

_HISTORY_SHARE: Final = 0.6
"""
The part of a reading's deadline after which it goes no further back.
"""


class RabbitMQBackend:
    """
    Keep claims, and a history, in a stream of RabbitMQ.

    The constructor opens nothing, so that a server may fork after it.

    Args:
        url: amqp://user:password@host:port/vhost, or amqps://… (TLS). A cluster's nodes are
            named with commas between them.

        prefix: The front of the stream's name. Services that share a broker use different
            ones.

        retention: How long records are kept.

        claim_memory_ms: How long a claim is remembered; a slot that is older is refused.
            In milliseconds.

        log_bytes_max: How large the stream may become before its oldest part goes.

        replicas: How many nodes of a cluster keep the stream; None: all that there are
            when it is made.

        ca_file, certificate_file, key_file, verify: TLS: whom to trust, who to be, and
            whether to look at the broker's certificate at all.

        clock: The instance's clocks; the broker tells none.

    Raises:
        InvalidOptionError: An argument cannot be meant.
    """

    protocol_version: ClassVar[int] = PROTOCOL_VERSION
    keeps_leases: ClassVar[bool] = False

    # A broken backend of our tests puts its own in their places.
    _log_class: ClassVar[type[Log]] = Log
    _ledger_class: ClassVar[type[Ledger]] = Ledger

    def __init__(
        self,
        url: str = "amqp://guest:guest@localhost:5672",
        *,
        prefix: str = DEFAULT_PREFIX,
        retention: Retention | None = None,
        claim_memory_ms: int = DEFAULT_CLAIM_MEMORY_MS,
        log_bytes_max: int = DEFAULT_LOG_BYTES,
        replicas: int | None = None,
        ca_file: str | None = None,
        certificate_file: str | None = None,
        key_file: str | None = None,
        verify: bool = True,
        clock: Clock | None = None,
        _reads: bool = False,
    ) -> None:
        self._options = Options(
            prefix=prefix,
            retention=retention or Retention(),
            claim_memory_ms=claim_memory_ms,
            log_bytes_max=log_bytes_max,
            replicas=replicas,
            ca_file=ca_file,
            certificate_file=certificate_file,
            key_file=key_file,
            verify=verify,
        )
        self._url = url
        self._reads = _reads
        self._address = read_address(url)
        if self._address.tls:
            tls_context(self._options)  # A file that is wrong is told here, not at the start.
        self._clock = clock or SystemClock()
        self._life = Life()
        self._version = ""
        self._ledger = self._new_ledger()
        self._log: Log | None = None

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
        Claims alone, from anywhere; the broker tells no time.
        """
        return Capabilities(
            reach=Reach.NETWORK,
            batch_max=256,
            name_bytes_max=NAME_BYTES_MAX,
            claim_memory_ms=self._options.claim_memory_ms,
        )

    @property
    def service(self) -> str:
        """
        The store in words, without passwords.
        """
        version = f" {self._version}" if self._version else ""
        return f"RabbitMQ{version} at {self._address.shown}, stream {self._options.stream}"

    def clone(self) -> Self:
        """
        Return an unopened backend to the same stream, with a connection of its own.
        """
        return self._twin(reads=self._reads)

    def reader(self) -> Self:
        """
        Return an unopened backend to the same stream that only reads, and makes none.

        To find the end of the stream it appends messages that hold nothing.
        """
        return self._twin(reads=True)

    def _twin(self, *, reads: bool) -> Self:
        options = {
            field.name: getattr(self._options, field.name) for field in fields(self._options)
        }
        return type(self)(self._url, clock=self._clock, _reads=reads, **options)

    async def open(self, *, timeout_ms: int) -> None:
        """
        Connect, make sure of the stream, and read what of it counts today.

        Raises:
            StoreUnavailableError: The broker did not answer.

            ServerTooOldError: It has no streams that could be used.

            StoreRefusedError: It refused the login or the stream, or is another kind of broker.

            ProtocolVersionError: A later anarchon-rabbitmq writes to this stream.

            BackendStateError: The backend was opened before.
        """
        async with self._life.opening(self._disconnect):
            ledger = self._new_ledger()
            log = self._log_class(
                self._address,
                self._options,
                ledger,
                clock=self._clock,
                mark=lambda: secrets.token_hex(8),
            )
            self._log, self._ledger = log, ledger
            deadline = _deadline(timeout_ms)
            if self._reads:
                await insist_on_stream(self._address, self._options, deadline=deadline)
            # What comes back at the end has the whole of the log before it.
            await log.append((), deadline=deadline)
            self._version = log.version

    async def close(self) -> None:
        """
        End the calls in flight and the connection. Closing twice is no error.
        """
        self._life.close()
        await self._disconnect()

    async def _disconnect(self) -> None:
        log, self._log = self._log, None
        if log is not None:
            await log.close()

    async def time(self, *, timeout_ms: int) -> int | None:
        """
        Make a round trip; the broker tells no time.
        """
        log, deadline = self._opened(), _deadline(timeout_ms)
        line = await log.line(deadline=deadline)
        try:
            async with asyncio.timeout_at(deadline):
                await line.ask()
        except TimeoutError:
            error = StoreUnavailableError(f"{line.where}: no answer in time")
            line.drop(error)
            raise error from None
        return None

    async def claim(
        self, requests: Sequence[ClaimRequest], *, timeout_ms: int
    ) -> Sequence[ClaimAnswer | BackendError]:
        """
        Grant each slot to the token that stands first in the log.
        """
        log, deadline = self._writing(), _deadline(timeout_ms)
        answers: list[ClaimAnswer | BackendError | None] = [
            self._known(request) for request in requests
        ]
        asked = [place for place, answer in enumerate(answers) if answer is None]
        entries = [
            ClaimEntry(
                job=requests[place].job,
                slot=requests[place].slot,
                token=requests[place].token,
                instance_id=requests[place].instance_id,
            )
            for place in asked
        ]
        told = await _appended(log, entries, deadline)
        for place, answer in zip(asked, told, strict=True):
            answers[place] = answer
            if answer.verdict is Verdict.WON:
                self._ledger.own(requests[place].job, requests[place].slot)
        return [answer for answer in answers if answer is not None]

    def _known(self, request: ClaimRequest) -> ClaimAnswer | BackendError | None:
        """
        Answer a claim without the broker; None where the log has to be asked.
        """
        try:
            check_claim(request, memory_ms=self._options.claim_memory_ms)
        except BackendError as error:
            return error
        answer = self._ledger.decide(request, self._clock.wall_ms())
        if answer.verdict is Verdict.WON:
            if self._ledger.holder(request.job, request.slot) is None:
                return None
            self._ledger.own(request.job, request.slot)
        return answer

    async def finish(
        self, requests: Sequence[FinishRequest], *, timeout_ms: int
    ) -> Sequence[CloseAnswer | BackendError]:
        """
        Record how runs ended.
        """
        log, deadline = self._writing(), _deadline(timeout_ms)
        errors = [_error_of(request) for request in requests]
        if any(
            error is None and self._ledger.holder(request.job, request.slot) is None
            for request, error in zip(requests, errors, strict=True)
        ):
            # Another instance may have won it a moment ago: read the log to its end.
            await log.append((), deadline=deadline)
        now_ms = self._clock.wall_ms()
        answers: list[CloseAnswer | BackendError] = []
        entries: list[Entry] = []
        for request, error in zip(requests, errors, strict=True):
            claim = self._ledger.holder(request.job, request.slot)
            accepted = claim is not None and (claim.token, 1) == (request.token, request.attempt)
            answers.append(error or CloseAnswer(accepted=accepted))
            if error is None and claim is not None and accepted and not claim.finished:
                entries.append(_finish_entry(request, claim, now_ms))
        await _appended(log, entries, deadline)
        return answers

    async def history(self, job: str | None, *, limit: int, timeout_ms: int) -> Sequence[RunRecord]:
        """
        Return the newest records, newest first: as far back as there is time to read.
        """
        log, deadline = self._opened(), _deadline(timeout_ms)
        if limit <= 0:
            return []
        now = asyncio.get_running_loop().time()
        end = await log.append((), deadline=deadline)
        line = await log.line(deadline=deadline)
        retention = self._options.retention
        try:
            async with asyncio.timeout_at(deadline):
                chapter = await read_back(
                    line,
                    self._options.stream,
                    end.offset,
                    job=job,
                    enough=limit if job is None else min(limit, retention.records_per_job),
                    until=now + _HISTORY_SHARE * (deadline - now),
                )
        except TimeoutError:
            msg = f"{line.where}: the log could not be read in time"
            raise StoreUnavailableError(msg) from None
        now_ms = self._clock.wall_ms()
        return records_of(chapter, job=job, retention=retention, now_ms=now_ms)[:limit]

    async def known_jobs(self, *, timeout_ms: int) -> Sequence[KnownJob]:
        """
        Return every job of the history, by name.
        """
        return known_jobs_of(await self.history(None, limit=_KNOWN_MAX, timeout_ms=timeout_ms))

    async def diagnose(self, *, timeout_ms: int) -> Sequence[Finding]:
        """
        Say what is known of the broker.
        """
        await self.time(timeout_ms=timeout_ms)
        return list(judge(self._version, self._address, self._options))

    def _new_ledger(self) -> Ledger:
        return self._ledger_class(
            memory_ms=self._options.claim_memory_ms, window_ms=self._options.window_ms
        )

    def _writing(self) -> Log:
        log = self._opened()
        if self._reads:
            msg = "this backend only reads: it came from reader()"
            raise BackendStateError(msg)
        return log

    def _opened(self) -> Log:
        self._life.check_open()
        assert self._log is not None
        return self._log


async def _appended(log: Log, entries: Sequence[Entry], deadline: float) -> list[ClaimAnswer]:
    """
    Append entries in as many messages as they need, one after the other.
    """
    answers: list[ClaimAnswer] = []
    for piece in cut(entries):
        read = await log.append(piece, deadline=deadline)
        answers += read.answers
    return answers


def _deadline(timeout_ms: int) -> float:
    return asyncio.get_running_loop().time() + timeout_ms / 1_000


def _error_of(request: FinishRequest) -> BackendError | None:
    try:
        check_finish(request)
    except BackendError as error:
        return error
    return None


def _finish_entry(request: FinishRequest, claim: Claim, now_ms: int) -> FinishEntry:
    ago_ms = request.started_ago_ms
    interrupted = request.status is Status.INTERRUPTED
    return FinishEntry(
        job=request.job,
        slot=request.slot,
        token=request.token,
        instance_id=claim.instance_id,
        claimed_ms=claim.claimed_ms,
        status=request.status,
        reason=Reason.STOPPED if interrupted else request.reason,
        error=None if request.error is None else storable_error(request.error),
        started_ms=None if ago_ms is None else now_ms - ago_ms,
    )
