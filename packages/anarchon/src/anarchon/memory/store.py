"""
The state that memory backends share.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from anarchon.clock import Clock, SystemClock
from anarchon.protocol import (
    JobState,
    Now,
    RecordClose,
    RecordOpen,
    RecordView,
)
from anarchon.records import Retention, RunRecord, Status, datetime_of

__all__ = ["MemoryStore"]

_Key = tuple[str, int, int]


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
    records: dict[str, dict[_Key, _Stored]] = field(default_factory=dict)
    # The renewal thread has a backend of its own on the same store. The lock is
    # held over plain dictionary work only, never over an await.
    lock: threading.Lock = field(default_factory=threading.Lock)
    # In order: one seed of a simulation always wakes them alike.
    listeners: dict[Callable[[str], None], None] = field(default_factory=dict)

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
            elif (
                stored := records.get(key)
            ) is not None and stored.record.status is Status.RUNNING:
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
        return RecordView(
            token=stored.token, status=stored.record.status, reason=stored.record.reason
        )

    def tell(self, job: str) -> None:
        """
        Hint to whoever watches that something about *job* has changed.
        """
        for listener in tuple(self.listeners):
            listener(job)

    def _prune(self, records: dict[_Key, _Stored]) -> None:
        """
        Forget old records of one job; the job's state protects its slots without them.
        """
        surplus = len(records) - self.retention.records_per_job
        oldest = (
            datetime_of(max(0, self.clock.wall_ms() - self.retention.age_ms))
            if self.retention.age_ms
            else None
        )
        for key in list(records):
            record = records[key].record
            if record.status is Status.RUNNING:
                continue
            too_old = (
                oldest is not None
                and record.finished_at is not None
                and record.finished_at < oldest
            )
            if surplus <= 0 and not too_old:
                break
            del records[key]
            surplus -= 1


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
