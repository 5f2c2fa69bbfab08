"""
A batch of requests, decided by the core's table and written in few short transactions.

Each piece of a batch is first decided on what a plain read finds. What changes nothing
is answered from that, without the write lock: it is how most claims end, since one
instance wins and all others ask. The rest is decided again under the lock.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from anarchon.backend import RenewRequest
from anarchon.errors import BackendError, RequestError, StoreRefusedError, StoreUnavailableError
from anarchon.protocol import Change, JobState, Now, RecordOpen, RecordView
from anarchon_sqlite.clock import LeaseClock
from anarchon_sqlite.operations import Operation
from anarchon_sqlite.pruning import Pruning
from anarchon_sqlite.rows import (
    AnyRequest,
    Row,
    check_request,
    close_values,
    job_values,
    open_values,
    read_by_job,
    record_view,
    state_of,
)
from anarchon_sqlite.statements import Statements
from anarchon_sqlite.transaction import Ticket, insist, write_transaction
from anarchon_sqlite.trouble import store_error

__all__ = ["PIECE_MAX", "Session", "Tables", "serve"]

PIECE_MAX = 128
"""
How many items one transaction carries: some milliseconds, in which nobody else writes.
"""

Request = TypeVar("Request", bound=AnyRequest)
Answer = TypeVar("Answer")
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """
    What a transaction needs to know of the store.
    """

    path: str
    statements: Statements
    clock: LeaseClock
    pruning: Pruning

    def now(self, raw: sqlite3.Connection) -> Now:
        """
        Read the clocks: SQLite's own for the wall, this machine's for leases.
        """
        wall_ms = raw.execute(self.statements.now).fetchall()[0][0]
        return Now(wall_ms, self.clock.read_ms(), self.clock.clock_id)

    def write(self, raw: sqlite3.Connection, ticket: Ticket, body: Callable[[], T]) -> T:
        """
        Run *body* as one write transaction.
        """
        return write_transaction(raw, ticket, body)


@dataclass(frozen=True, slots=True)
class Session:
    """
    One call on the connection's thread.
    """

    raw: sqlite3.Connection
    ticket: Ticket
    tables: Tables

    def view(self, job: str, slot: int, attempt: int) -> RecordView | None:
        """
        Find the record of an attempt.
        """
        key = (job, slot, attempt)
        found = self.raw.execute(self.tables.statements.read_record, key).fetchall()
        return record_view(found[0]) if found else None


def serve(
    session: Session,
    operation: Operation[Request, Answer],
    requests: Sequence[Request],
) -> list[Answer | BackendError]:
    """
    Answer a batch in its order; items are decided in the order of (job, slot).

    Raises:
        StoreRefusedError: SQLite refused the first write; nothing was changed.

        StoreUnavailableError: SQLite did not do it in time, or failed when earlier
            pieces had been written; asked again, those get the same answers.
    """
    answers: dict[int, Answer | BackendError] = {}
    order: list[int] = []
    for index, request in enumerate(requests):
        unfit = check_request(request)
        if unfit is None:
            order.append(index)
        else:
            answers[index] = unfit
    order.sort(key=lambda index: (requests[index].job, requests[index].slot or 0))
    written = False
    for start in range(0, len(order), PIECE_MAX):
        piece = [(index, requests[index]) for index in order[start : start + PIECE_MAX]]
        try:
            rest = _decide_unlocked(session, operation, piece, answers)
            if rest:
                _decide_locked(session, operation, rest, answers)
                written = True
        except sqlite3.Error as error:
            trouble = store_error(error, session.tables.path)
            if written and isinstance(trouble, StoreRefusedError):
                trouble = StoreUnavailableError(f"{trouble}; a part of the batch had been written")
            raise trouble from error
    return [answers[index] for index in range(len(requests))]


_Items = Sequence[tuple[int, Request]]


def _decide_unlocked(
    session: Session,
    operation: Operation[Request, Answer],
    items: _Items[Request],
    answers: dict[int, Answer | BackendError],
) -> list[tuple[int, Request]]:
    """
    Answer what changes nothing, from one plain read; return the rest.

    An item behind one of the same job that has to wait for the lock waits too.
    """

    def read() -> tuple[dict[str, JobState], Now]:
        tables = session.tables
        states = read_by_job(session.raw, tables.statements.read_jobs, _jobs(items), state_of)
        return states, tables.now(session.raw)

    def view(job: str, slot: int, attempt: int) -> RecordView | None:
        return insist(session.ticket, lambda: session.view(job, slot, attempt))

    states, now = insist(session.ticket, read)
    rest: list[tuple[int, Request]] = []
    waiting: set[str] = set()
    for index, request in items:
        state = states.get(request.job)
        if request.job not in waiting and not operation.writes(state, request, now):
            try:
                change = operation.decide(view, state, request, now)
            except RequestError as error:
                answers[index] = error
                continue
            if change.state is None and not change.records:
                answers[index] = change.answer
                continue
        waiting.add(request.job)
        rest.append((index, request))
    return rest


def _decide_locked(
    session: Session,
    operation: Operation[Request, Answer],
    items: _Items[Request],
    answers: dict[int, Answer | BackendError],
) -> None:
    """
    Answer items in one transaction that has the write lock; answers stand once it is committed.
    """

    def body() -> list[tuple[int, Answer | BackendError]]:
        writing = _Writing(session, _jobs(items))
        decided: list[tuple[int, Answer | BackendError]] = []
        for index, request in items:
            try:
                change = operation.decide(
                    writing.view, writing.states.get(request.job), request, writing.now
                )
            except RequestError as error:
                decided.append((index, error))
                continue
            writing.take(request.job, change)
            if operation.started_ms is not None:
                writing.start(request, operation.started_ms(request, change.answer, writing.now))
            decided.append((index, change.answer))
        writing.end()
        return decided

    answers.update(session.tables.write(session.raw, session.ticket, body))


@dataclass(slots=True)
class _Records:
    """
    What is to be written to the history.
    """

    opened: list[Row] = field(default_factory=list)
    started: list[Row] = field(default_factory=list)
    closed: list[Row] = field(default_factory=list)


class _Writing:
    """
    One write transaction: what was read in it, and what is to be written at its end.
    """

    def __init__(self, session: Session, jobs: Sequence[str]) -> None:
        raw, tables = session.raw, session.tables
        self._session = session
        self.now = tables.now(raw)
        tables.pruning.by_age(raw, self.now.wall_ms)
        found = read_by_job(
            raw, tables.statements.read_jobs, jobs, lambda row: (state_of(row), row[-1])
        )
        self.states: dict[str, JobState] = {job: state for job, (state, _) in found.items()}
        self._counts: dict[str, int] = {job: count for job, (_, count) in found.items()}
        self._changed: set[str] = set()
        self._grown: set[str] = set()
        self._records = _Records()

    def take(self, job: str, change: Change[Any]) -> None:
        """
        Remember what a decision changes, for the end and for later items of the job.
        """
        if change.state is not None:
            self.states[job] = change.state
            self._changed.add(job)
        for record in change.records:
            if isinstance(record, RecordOpen):
                self._records.opened.append(open_values(job, record))
                self._counts[job] = self._counts.get(job, 0) + 1
                self._grown.add(job)
            else:
                self._records.closed.append(close_values(job, record))

    def start(self, request: AnyRequest, started_ms: int | None) -> None:
        """
        Remember when a handler began, if that is news.
        """
        if started_ms is not None:
            renewal = cast("RenewRequest", request)
            self._records.started.append((started_ms, renewal.job, renewal.slot, renewal.attempt))

    def view(self, job: str, slot: int, attempt: int) -> RecordView | None:
        """
        Show a record as the items before have left it.
        """
        self._write_records()
        return self._session.view(job, slot, attempt)

    def end(self) -> None:
        """
        Write everything.
        """
        self._write_records()
        raw, tables, counts = self._session.raw, self._session.tables, self._counts
        for job in self._grown:
            counts[job] = tables.pruning.by_count(raw, job, counts[job])
        rows = [
            job_values(job, self.states[job], counts.get(job, 0)) for job in sorted(self._changed)
        ]
        _each(raw, tables.statements.write_job, rows)

    def _write_records(self) -> None:
        raw, records = self._session.raw, self._records
        statements = self._session.tables.statements
        self._records = _Records()
        _each(raw, statements.open_record, records.opened)
        _each(raw, statements.start_record, records.started)
        _each(raw, statements.close_record, records.closed)


def _each(raw: sqlite3.Connection, statement: str, rows: Sequence[Row]) -> None:
    if rows:
        raw.executemany(statement, rows)


def _jobs(items: Iterable[tuple[int, AnyRequest]]) -> list[str]:
    """
    Name each job once, in order.
    """
    return list(dict.fromkeys(request.job for _, request in items))
