"""
The backends that live in one process: for tests, development, and as verified fakes.

Both pass the conformance kit, so a test that uses one tests the real protocol.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
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
    Verdict,
)
from anarchon.capabilities import Capabilities, Reach
from anarchon.clock import Clock, SystemClock
from anarchon.errors import BackendError, BackendStateError
from anarchon.protocol import (
    Change,
    JobState,
    Now,
    RecordClose,
    RecordOpen,
    RecordView,
    check_finish_status,
    decide_claim,
    decide_claim_only,
    decide_finish,
    decide_register,
    decide_release,
    decide_renewal,
)
from anarchon.protocol.closing import started_ms_of
from anarchon.records import Reason, Retention, RunRecord, Status, datetime_of, storable_error
from anarchon.registry import url_options

__all__ = ["MemoryBackend", "MemoryClaimBackend", "MemoryStore"]

Request = TypeVar("Request")
Answer = TypeVar("Answer")
Key = tuple[str, int, int]

_BATCH_MAX = 256


@dataclass(slots=True)
class _Stored:
    """
    A record as the store keeps it.
    """

    token: str
    record: RunRecord


@dataclass(slots=True)
class MemoryStore:
    """
    The state that memory backends share: one of these is one store.

    Args:
        clock: The store's clock.

        retention: How long records are kept.
    """

    clock: Clock = field(default_factory=SystemClock)
    retention: Retention = field(default_factory=Retention)
    states: dict[str, JobState] = field(default_factory=dict)
    claims: dict[str, dict[int, str]] = field(default_factory=dict)
    forgotten: dict[str, int] = field(default_factory=dict)
    records: dict[str, dict[Key, _Stored]] = field(default_factory=dict)
    # The renewal thread has a backend of its own on the same store. The lock is
    # held over plain dictionary work only, never over an await.
    lock: threading.Lock = field(default_factory=threading.Lock)
    listeners: set[Callable[[str], None]] = field(default_factory=set)

    def now(self) -> Now:
        """
        Read the store's clocks.
        """
        return Now(self.clock.wall_ms(), self.clock.suspend_ms())

    def write(self, job: str, changes: Sequence[RecordOpen | RecordClose]) -> None:
        """
        Write what a decision says about the records of *job*.
        """
        records = self.records.setdefault(job, {})
        for change in changes:
            key = (job, change.slot, change.attempt)
            if isinstance(change, RecordOpen):
                records[key] = _opened(job, change)
            elif (stored := records.get(key)) is not None and stored.record.status is Status.RUNNING:
                stored.record = _closed(stored.record, change)
        if any(isinstance(change, RecordOpen) for change in changes):
            self._prune(records)

    def started(self, job: str, slot: int, attempt: int, started_ms: int | None) -> None:
        """
        Write down when a handler began, once that is known.
        """
        stored = self.records.get(job, {}).get((job, slot, attempt))
        if started_ms is not None and stored is not None and stored.record.started_at is None:
            stored.record = replace(stored.record, started_at=datetime_of(started_ms))

    def view(self, job: str, slot: int, attempt: int) -> RecordView | None:
        """
        Show a record to a decision.
        """
        stored = self.records.get(job, {}).get((job, slot, attempt))
        if stored is None:
            return None
        return RecordView(token=stored.token, status=stored.record.status, reason=stored.record.reason)

    def tell(self, job: str) -> None:
        """
        Hint to whoever watches that something about *job* has changed.
        """
        for listener in tuple(self.listeners):
            listener(job)

    def _prune(self, records: dict[Key, _Stored]) -> None:
        """
        Forget old records of one job; the job's state protects its slots without them.
        """
        surplus = len(records) - self.retention.records_per_job
        oldest = datetime_of(max(0, self.clock.wall_ms() - self.retention.age_ms)) if self.retention.age_ms else None
        for key in list(records):
            record = records[key].record
            too_old = oldest is not None and record.finished_at is not None and record.finished_at < oldest
            if record.status is not Status.RUNNING and (surplus > 0 or too_old):
                del records[key]
                surplus -= 1
            elif surplus <= 0 and not too_old:
                break


def _opened(job: str, change: RecordOpen) -> _Stored:
    claimed_at = datetime_of(change.claimed_ms)
    record = RunRecord(
        job=job,
        slot=change.slot,
        attempt=change.attempt,
        instance_id=change.instance_id,
        status=change.status,
        reason=change.reason,
        claimed_at=claimed_at,
        finished_at=claimed_at if change.status is Status.SKIPPED else None,
    )
    return _Stored(change.token, record)


def _closed(record: RunRecord, change: RecordClose) -> RunRecord:
    started_at = record.started_at
    if change.started_ms is not None and started_at is None:
        started_at = datetime_of(change.started_ms)
    return replace(
        record,
        status=change.status,
        reason=change.reason,
        started_at=started_at,
        finished_at=datetime_of(change.finished_ms),
        error=change.error,
    )


class _Opened:
    """
    The life of a memory backend: unopened, open, closed.
    """

    def __init__(self, store: MemoryStore | None = None, *, retention: Retention | None = None) -> None:
        if store is None:
            store = MemoryStore() if retention is None else MemoryStore(retention=retention)
        self._store = store
        self._state = "unopened"
        self._watches: set[Callable[[], None]] = set()

    @classmethod
    def from_url(cls, url: str) -> Self:
        """
        Build a backend from ``memory:``; each URL that is read is a store of its own.
        """
        url_options(url, {})
        return cls()

    @property
    def service(self) -> str:
        """
        The store in words.
        """
        return "memory of this process"

    def clone(self) -> Self:
        """
        Return an unopened backend that shares this one's store.
        """
        return type(self)(self._store)

    async def open(self, *, timeout_ms: int) -> None:  # noqa: ARG002 - memory answers at once
        """
        Make the backend usable, once.
        """
        if self._state != "unopened":
            msg = f"this backend was opened before and is {self._state}; clone() gives a fresh one"
            raise BackendStateError(msg)
        self._state = "open"

    async def close(self) -> None:
        """
        End the backend's life, and its watches; the store stays.
        """
        self._state = "closed"
        for wake in tuple(self._watches):
            wake()

    async def time(self, *, timeout_ms: int) -> int | None:  # noqa: ARG002 - memory answers at once
        """
        Tell the store's wall clock.
        """
        self._check()
        return self._store.clock.wall_ms()

    async def history(self, job: str | None, *, limit: int, timeout_ms: int) -> Sequence[RunRecord]:  # noqa: ARG002 - memory answers at once
        """
        Return the newest records, newest first.
        """
        self._check()
        store = self._store
        with store.lock:
            names = list(store.records) if job is None else [job]
            found = [stored.record for name in names for stored in store.records.get(name, {}).values()]
        found.sort(key=lambda record: record.attempt, reverse=True)
        found.sort(key=lambda record: record.job)
        found.sort(key=lambda record: record.slot, reverse=True)
        return found[: max(0, limit)]

    def _check(self) -> None:
        if self._state != "open":
            msg = f"this backend is {self._state}; open() it first, and use it until close()"
            raise BackendStateError(msg)

    def _each(
        self, requests: Sequence[Request], serve: Callable[[Request, Now], Answer]
    ) -> list[Answer | BackendError]:
        """
        Serve each request by itself: one item's error never fails its neighbours.
        """
        self._check()
        answers: list[Answer | BackendError] = []
        with self._store.lock:
            now = self._store.now()
            for request in requests:
                try:
                    answers.append(serve(request, now))
                except BackendError as error:
                    answers.append(error)
        return answers


class MemoryBackend(_Opened):
    """
    Keep leases in the memory of this process.

    Several schedulers of one process share a store by ``MemoryBackend(store)``
    or clone(). Nothing survives the process.
    """

    protocol_version: ClassVar[int] = PROTOCOL_VERSION
    keeps_leases: ClassVar[bool] = True

    @property
    def capabilities(self) -> Capabilities:
        """
        Leases and hints, within one process.
        """
        return Capabilities(leases=True, hints=True, store_clock=True, reach=Reach.PROCESS, batch_max=_BATCH_MAX)

    async def claim(
        self,
        requests: Sequence[ClaimRequest],
        *,
        timeout_ms: int,  # noqa: ARG002 - memory answers at once
    ) -> Sequence[ClaimAnswer | BackendError]:
        """
        Answer claims by the table.
        """

        def serve(request: ClaimRequest, now: Now) -> ClaimAnswer:
            return self._apply(request.job, decide_claim(self._store.states.get(request.job), request, now))

        return self._each(requests, serve)

    async def register(
        self,
        requests: Sequence[RegisterRequest],
        *,
        timeout_ms: int,  # noqa: ARG002 - memory answers at once
    ) -> Sequence[RegisterAnswer | BackendError]:
        """
        Make jobs known.
        """

        def serve(request: RegisterRequest, now: Now) -> RegisterAnswer:
            return self._apply(request.job, decide_register(self._store.states.get(request.job), request, now))

        return self._each(requests, serve)

    async def renew(
        self,
        requests: Sequence[RenewRequest],
        *,
        timeout_ms: int,  # noqa: ARG002 - memory answers at once
    ) -> Sequence[RenewAnswer | BackendError]:
        """
        Push leases forward.
        """

        def serve(request: RenewRequest, now: Now) -> RenewAnswer:
            change = decide_renewal(self._store.states.get(request.job), request, now)
            if change.answer.held:
                started_ms = started_ms_of(request.started_ago_ms, now)
                self._store.started(request.job, request.slot, request.attempt, started_ms)
            return self._apply(request.job, change)

        return self._each(requests, serve)

    async def finish(
        self,
        requests: Sequence[FinishRequest],
        *,
        timeout_ms: int,  # noqa: ARG002 - memory answers at once
    ) -> Sequence[CloseAnswer | BackendError]:
        """
        Close runs whose handlers have ended.
        """

        def serve(request: FinishRequest, now: Now) -> CloseAnswer:
            store = self._store
            record = store.view(request.job, request.slot, request.attempt)
            change = decide_finish(store.states.get(request.job), record, request, now)
            return self._apply(request.job, change)

        return self._telling(requests, self._each(requests, serve))

    async def release(
        self,
        requests: Sequence[ReleaseRequest],
        *,
        timeout_ms: int,  # noqa: ARG002 - memory answers at once
    ) -> Sequence[CloseAnswer | BackendError]:
        """
        Hand runs over.
        """

        def serve(request: ReleaseRequest, now: Now) -> CloseAnswer:
            store = self._store
            record = store.view(request.job, request.slot, request.attempt)
            change = decide_release(store.states.get(request.job), record, request, now)
            return self._apply(request.job, change)

        return self._telling(requests, self._each(requests, serve))

    async def next_hint(self, runs: Sequence[tuple[str, int, int]], *, timeout_ms: int) -> frozenset[str]:
        """
        Wait until one of the watched runs is finished or released, or the backend is closed.
        """
        self._check()
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        jobs = {job for job, _, _ in runs}
        heard: set[str] = set()

        def wake() -> None:
            if not waiter.done():
                waiter.set_result(None)

        def listen(job: str) -> None:
            if job in jobs:
                heard.add(job)
                loop.call_soon_threadsafe(wake)

        self._store.listeners.add(listen)
        self._watches.add(wake)
        try:
            heard.update(self._already_over(runs))
            if not heard:
                async with asyncio.timeout(timeout_ms / 1_000):
                    await waiter
        except TimeoutError:
            pass
        finally:
            self._store.listeners.discard(listen)
            self._watches.discard(wake)
        return frozenset(heard)

    def _already_over(self, runs: Sequence[tuple[str, int, int]]) -> set[str]:
        """
        Find the runs that changed before anybody listened.
        """
        over = set()
        with self._store.lock:
            for job, slot, attempt in runs:
                state = self._store.states.get(job)
                live = None if state is None else state.live
                if live is None or live.token is None or (live.slot, live.attempt) != (slot, attempt):
                    over.add(job)
        return over

    def _apply(self, job: str, change: Change[Answer]) -> Answer:
        if change.state is not None:
            self._store.states[job] = change.state
        if change.records:
            self._store.write(job, change.records)
        return change.answer

    def _telling(
        self,
        requests: Sequence[FinishRequest | ReleaseRequest],
        answers: list[CloseAnswer | BackendError],
    ) -> list[CloseAnswer | BackendError]:
        """
        Hint outside of the lock that runs have ended.
        """
        for request, answer in zip(requests, answers, strict=True):
            if isinstance(answer, CloseAnswer) and answer.accepted:
                self._store.tell(request.job)
        return answers


class MemoryClaimBackend(_Opened):
    """
    Keep claims, and nothing more, in the memory of this process.

    What a claim-only store promises is one winner per run, a history, and at
    most one execution.
    """

    protocol_version: ClassVar[int] = PROTOCOL_VERSION

    @property
    def capabilities(self) -> Capabilities:
        """
        Claims only, within one process.
        """
        return Capabilities(store_clock=True, reach=Reach.PROCESS, batch_max=_BATCH_MAX)

    async def claim(
        self,
        requests: Sequence[ClaimRequest],
        *,
        timeout_ms: int,  # noqa: ARG002 - memory answers at once
    ) -> Sequence[ClaimAnswer | BackendError]:
        """
        Grant each slot to the first token that asks for it.
        """
        return self._each(requests, self._claim)

    async def finish(
        self,
        requests: Sequence[FinishRequest],
        *,
        timeout_ms: int,  # noqa: ARG002 - memory answers at once
    ) -> Sequence[CloseAnswer | BackendError]:
        """
        Record how runs ended.
        """
        return self._each(requests, self._finish)

    def _claim(self, request: ClaimRequest, now: Now) -> ClaimAnswer:
        store = self._store
        claims = store.claims.setdefault(request.job, {})
        holder = claims.get(request.slot)
        answer = decide_claim_only(holder, store.forgotten.get(request.job), request, now.wall_ms)
        if answer.verdict is Verdict.WON and holder is None:
            claims[request.slot] = request.token
            opened = RecordOpen(
                slot=request.slot,
                attempt=1,
                token=request.token,
                instance_id=request.instance_id,
                status=Status.RUNNING,
                reason=None,
                claimed_ms=now.wall_ms,
            )
            store.write(request.job, (opened,))
            self._forget(request.job, claims)
        return answer

    def _forget(self, job: str, claims: dict[int, str]) -> None:
        """
        Drop the oldest claims, and refuse from now on what is not newer than they were.
        """
        while len(claims) > max(1, self._store.retention.records_per_job):
            oldest = min(claims)
            del claims[oldest]
            self._store.forgotten[job] = max(oldest, self._store.forgotten.get(job, oldest))

    def _finish(self, request: FinishRequest, now: Now) -> CloseAnswer:
        check_finish_status(request, leases=False)
        view = self._store.view(request.job, request.slot, request.attempt)
        if view is None or view.token != request.token:
            return CloseAnswer(accepted=False, store_now_ms=now.wall_ms)
        closed = RecordClose(
            slot=request.slot,
            attempt=request.attempt,
            status=request.status,
            reason=Reason.STOPPED if request.status is Status.INTERRUPTED else request.reason,
            finished_ms=now.wall_ms,
            started_ms=started_ms_of(request.started_ago_ms, now),
            error=None if request.error is None else storable_error(request.error),
        )
        self._store.write(request.job, (closed,))
        return CloseAnswer(accepted=True, store_now_ms=now.wall_ms)
