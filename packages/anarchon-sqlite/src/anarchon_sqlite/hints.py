"""
Hints: has another connection changed one of the runs that somebody watches?
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import ClassVar

from anarchon_sqlite.rows import Row, read_by_job
from anarchon_sqlite.statements import Statements
from anarchon_sqlite.transaction import Ticket, insist

__all__ = ["Watch"]


class Watch:
    """
    Look whether the watched runs are still as they were.

    SQLite counts the commits of other connections (`PRAGMA data_version`), which
    costs some microseconds to ask; the rows are read only after one. The count
    leaves out a connection's own commits, so a watch has a connection that makes none.

    Args:
        runs: What is watched: (job, slot, attempt).

        statements: Those of the prefix.
    """

    EVERY_S: ClassVar[float] = 0.15

    def __init__(self, runs: Sequence[tuple[str, int, int]], statements: Statements) -> None:
        self._runs = tuple(runs)
        self._jobs = list(dict.fromkeys(job for job, _, _ in self._runs))
        self._statements = statements
        self._version: int | None = None

    def look(self, raw: sqlite3.Connection, ticket: Ticket) -> frozenset[str]:
        """
        Name the jobs whose watched run is over, released or taken over.
        """
        return insist(ticket, lambda: self._look(raw))

    def _look(self, raw: sqlite3.Connection) -> frozenset[str]:
        # The count comes before the rows: a commit in between is then seen the next time.
        version: int = raw.execute("PRAGMA data_version").fetchall()[0][0]
        if version == self._version:
            return frozenset()
        live = read_by_job(raw, self._statements.read_live, self._jobs, _live)
        self._version = version
        return frozenset(
            job for job, slot, attempt in self._runs if live.get(job) != (slot, attempt)
        )


def _live(row: Row) -> tuple[int, int] | None:
    """
    Name the run that somebody executes, if the job has one.
    """
    return (row[1], row[2]) if row[3] else None
