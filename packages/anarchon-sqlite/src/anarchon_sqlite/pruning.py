"""
Which records are forgotten, and when: never one that is running, and not at every claim.

What protects a slot is the job's own row, so that records may go at any time.
"""

from __future__ import annotations

import sqlite3
from collections import Counter

from anarchon.records import Retention
from anarchon_sqlite.statements import Statements

__all__ = ["Pruning"]

_SWEEP_MAX = 200
_SWEEP_EVERY_MS_MAX = 60_000


class Pruning:
    """
    Forget records by count and by age, inside the transactions that write anyway.

    By count: a job's row says how many records it has. A thirty-second more than
    the retention allows are let gather, so that a long history is cut in strokes.
    By age: at most once a minute in each process, the oldest slots of all jobs.
    """

    def __init__(self, retention: Retention, statements: Statements) -> None:
        self._statements = statements
        self._keep = retention.records_per_job
        self._most = self._keep + self._keep // 32
        self._age_ms = retention.age_ms
        self._next_sweep_ms: int | None = None

    def by_count(self, raw: sqlite3.Connection, job: str, count: int) -> int:
        """
        Forget the oldest records of *job* if its *count* is too high; return the new count.
        """
        if count <= self._most:
            return count
        surplus = raw.execute(
            self._statements.surplus_records, (job, count - self._keep)
        ).fetchall()
        raw.executemany(self._statements.delete_record, surplus)
        return count - len(surplus)

    def by_age(self, raw: sqlite3.Connection, now_ms: int) -> None:
        """
        Forget some records that ended too long ago, if it is time to look.

        A transaction has few of them to delete; what is left over, the next one does.
        """
        if self._age_ms is None or (
            self._next_sweep_ms is not None and now_ms < self._next_sweep_ms
        ):
            return
        oldest_ms = now_ms - self._age_ms
        # What ended before that instant is of a slot before it; the index on slots finds it.
        # A claim may come half a second before its slot: such a record waits that much longer.
        old = raw.execute(
            self._statements.old_records, (oldest_ms, oldest_ms, _SWEEP_MAX)
        ).fetchall()
        raw.executemany(self._statements.delete_record, old)
        forgotten = Counter(job for job, _, _ in old)
        raw.executemany(
            self._statements.count_records, [(count, job) for job, count in forgotten.items()]
        )
        if len(old) < _SWEEP_MAX:
            self._next_sweep_ms = now_ms + min(_SWEEP_EVERY_MS_MAX, self._age_ms // 16)
