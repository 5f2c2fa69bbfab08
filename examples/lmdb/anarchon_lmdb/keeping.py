"""
What the file holds, and how one transaction reads and writes it.

A key is the prefix, a letter, the job's name, and for a record its slot and attempt, so that LMDB's own order is
the order of a job's attempts. A name has no NUL, so no two names share a key.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from typing import Any

import lmdb

from anarchon.protocol import JobState, Live, Now, RecordClose, RecordOpen, RecordView, Skip
from anarchon.records import Reason, Retention, RunRecord, Status, datetime_of

__all__ = ["Book"]

_PLACE = struct.Struct(">QI")  # slot and attempt, in an order that is theirs as numbers


@dataclass(slots=True)
class Book:
    """
    One transaction's view of the jobs of one prefix.
    """

    transaction: lmdb.Transaction
    prefix: bytes
    retention: Retention

    def state(self, job: str) -> JobState | None:
        """
        Return what is kept of a job; None if it is unknown.
        """
        kept = self._get(self._state_key(job))
        if kept is None:
            return None
        for name, kind in (("live", Live), ("skip", Skip)):
            if kept["state"][name] is not None:
                kept["state"][name] = kind(**kept["state"][name])
        return JobState(**kept["state"])

    def keep(self, job: str, state: JobState) -> None:
        """
        Write what is to be kept of a job.
        """
        self._put(self._state_key(job), {"state": asdict(state)})

    def write(self, job: str, changes: tuple[RecordOpen | RecordClose, ...], now: Now) -> None:
        """
        Write what a decision says about the records of a job.
        """
        for change in changes:
            key = self._record_key(job, change.slot, change.attempt)
            if isinstance(change, RecordOpen):
                skipped = change.status is Status.SKIPPED
                ends = {"finished_ms": change.claimed_ms if skipped else None}
                self._put(key, {"started_ms": None, "error": None} | _plain(change) | ends)
                self._count(job, 1)
            elif (record := self._get(key)) is not None and record["status"] == Status.RUNNING:
                told = {name: value for name, value in _plain(change).items() if value is not None}
                started_ms = record["started_ms"]
                self._put(key, record | told | ({"started_ms": started_ms} if started_ms else {}))
        if changes:
            self._prune(job, now)

    def started(self, job: str, slot: int, attempt: int, started_ms: int | None) -> None:
        """
        Date the beginning of a handler, once it is known.
        """
        key = self._record_key(job, slot, attempt)
        record = self._get(key)
        if started_ms is not None and record is not None and record["started_ms"] is None:
            self._put(key, record | {"started_ms": started_ms})

    def view(self, job: str, slot: int, attempt: int) -> RecordView | None:
        """
        Show a record to a decision.
        """
        record = self._get(self._record_key(job, slot, attempt))
        if record is None:
            return None
        reason = None if record["reason"] is None else Reason(record["reason"])
        return RecordView(token=record["token"], status=Status(record["status"]), reason=reason)

    def records(self, job: str | None) -> Iterator[RunRecord]:
        """
        Give the records of one job, or of all, in no order.
        """
        for key, value in self._under(self._key(b"r", job)):
            name = key[len(self.prefix) + 2 : -_PLACE.size - 1].decode()
            record = json.loads(value)
            yield RunRecord(
                job=name,
                slot=record["slot"],
                attempt=record["attempt"],
                instance_id=record["instance_id"],
                status=Status(record["status"]),
                reason=None if record["reason"] is None else Reason(record["reason"]),
                claimed_at=datetime_of(record["claimed_ms"]),
                started_at=_instant(record["started_ms"]),
                finished_at=_instant(record["finished_ms"]),
                error=record["error"],
            )

    def _prune(self, job: str, now: Now) -> None:
        """
        Forget the oldest records beyond the retention. What protects a slot is the state, not these.
        """
        surplus = self._count(job, 0) - self.retention.records_per_job
        age_ms = self.retention.age_ms
        for key, value in list(self._oldest(job, max(surplus, 0) + 1)):
            record = json.loads(value)
            if record["status"] == Status.RUNNING:
                continue
            too_old = age_ms is not None and record["finished_ms"] < now.wall_ms - age_ms
            if surplus > 0 or too_old:
                self.transaction.delete(key)
                self._count(job, -1)
                surplus -= 1

    def _oldest(self, job: str, count: int) -> Iterator[tuple[bytes, bytes]]:
        for _, entry in zip(range(count + 1), self._under(self._key(b"r", job)), strict=False):
            yield entry

    def _count(self, job: str, change: int) -> int:
        """
        Count a job's records beside them, so that nobody walks through all to know.
        """
        key = self._key(b"n", job)
        count = int(self.transaction.get(key, b"0")) + change
        if change:
            self.transaction.put(key, b"%d" % count)
        return count

    def _under(self, front: bytes) -> Iterator[tuple[bytes, bytes]]:
        cursor = self.transaction.cursor()
        found = cursor.set_range(front)
        while found and (key := bytes(cursor.key())).startswith(front):
            yield key, bytes(cursor.value())
            found = cursor.next()

    def _key(self, letter: bytes, job: str | None) -> bytes:
        front = self.prefix + b"\0" + letter
        return front if job is None else front + job.encode() + b"\0"

    def _state_key(self, job: str) -> bytes:
        return self._key(b"s", job)

    def _record_key(self, job: str, slot: int, attempt: int) -> bytes:
        return self._key(b"r", job) + _PLACE.pack(slot, attempt)

    def _get(self, key: bytes) -> Any:
        value = self.transaction.get(key)
        return None if value is None else json.loads(bytes(value))

    def _put(self, key: bytes, value: Any) -> None:
        self.transaction.put(key, json.dumps(value).encode())


def _plain(change: RecordOpen | RecordClose) -> dict[str, Any]:
    return {field.name: getattr(change, field.name) for field in fields(change)}


def _instant(instant_ms: int | None) -> Any:
    return None if instant_ms is None else datetime_of(instant_ms)
