"""
Rows and what they mean: the state of a job, a record, a request that fits into them.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from anarchon.backend import (
    ClaimRequest,
    FinishRequest,
    RegisterRequest,
    ReleaseRequest,
    RenewRequest,
)
from anarchon.errors import RequestError
from anarchon.protocol import JobState, Live, RecordClose, RecordOpen, RecordView, Skip
from anarchon.records import Reason, RunRecord, Status, datetime_of
from anarchon_sqlite.statements import READ_SIZES

__all__ = [
    "NAME_BYTES_MAX",
    "AnyRequest",
    "Row",
    "check_request",
    "close_values",
    "job_values",
    "open_values",
    "read_by_job",
    "record_of",
    "record_view",
    "state_of",
]

NAME_BYTES_MAX = 255
"""
The longest name of a job, in bytes of UTF-8.
"""

AnyRequest = ClaimRequest | RegisterRequest | RenewRequest | FinishRequest | ReleaseRequest

_INTEGER_MAX = 2**63 - 1
# A sum of two of these is still an integer of SQLite, and a date of Python lies within one.
_DURATION_MS_MAX = 10**14

Row = tuple[Any, ...]
T = TypeVar("T")


def state_of(row: Row) -> JobState:
    """
    Read the state of a job from its row.
    """
    live = skip = None
    if row[2] is not None:
        live = Live(
            slot=row[2],
            attempt=row[3],
            token=row[4],
            instance_id=row[5],
            lease_ms=row[6],
            lease_until_ms=row[7],
            lease_clock=row[8],
            elsewhere=() if row[9] is None else tuple(json.loads(row[9]).items()),
            crashes=row[10],
            previous_high=row[11],
        )
    if row[12] is not None:
        skip = Skip(slot=row[12], token=row[13], previous_high=row[14])
    return JobState(
        high=row[1],
        live=live,
        skip=skip,
        fingerprint=row[15],
        zone_digests=row[16],
        since_ms=row[17],
    )


def job_values(job: str, state: JobState, records: int) -> Row:
    """
    Lay the state of a job out as its row.
    """
    live, skip = state.live, state.skip
    return (
        job,
        state.high,
        *(
            (None,) * 10
            if live is None
            else (
                live.slot,
                live.attempt,
                live.token,
                live.instance_id,
                live.lease_ms,
                live.lease_until_ms,
                live.lease_clock,
                json.dumps(dict(live.elsewhere)) if live.elsewhere else None,
                live.crashes,
                live.previous_high,
            )
        ),
        *((None,) * 3 if skip is None else (skip.slot, skip.token, skip.previous_high)),
        state.fingerprint,
        state.zone_digests,
        state.since_ms,
        records,
    )


def open_values(job: str, change: RecordOpen) -> Row:
    """
    Lay a new record out as its row, its token last.
    """
    finished_ms = change.claimed_ms if change.status is Status.SKIPPED else None
    reason = None if change.reason is None else change.reason.value
    status = change.status.value
    return (
        job,
        change.slot,
        change.attempt,
        change.instance_id,
        status,
        reason,
        change.claimed_ms,
        None,
        finished_ms,
        None,
        change.token,
    )


def close_values(job: str, change: RecordClose) -> Row:
    """
    Lay the end of a record out for its UPDATE.
    """
    reason = None if change.reason is None else change.reason.value
    return (
        change.status.value,
        reason,
        change.started_ms,
        change.finished_ms,
        change.error,
        job,
        change.slot,
        change.attempt,
    )


def record_view(row: Row) -> RecordView:
    """
    Show a record to a decision.
    """
    return RecordView(
        token=row[0], status=Status(row[1]), reason=None if row[2] is None else Reason(row[2])
    )


def record_of(row: Row) -> RunRecord:
    """
    Read a record of the history.
    """
    job, slot, attempt, instance_id, status, reason, claimed_ms, started_ms, finished_ms, error = (
        row
    )
    return RunRecord(
        job=job,
        slot=slot,
        attempt=attempt,
        instance_id=instance_id,
        status=Status(status),
        reason=None if reason is None else Reason(reason),
        claimed_at=datetime_of(claimed_ms),
        started_at=None if started_ms is None else datetime_of(started_ms),
        finished_at=None if finished_ms is None else datetime_of(finished_ms),
        error=error,
    )


def read_by_job(
    raw: sqlite3.Connection, selects: Sequence[str], jobs: Sequence[str], read: Callable[[Row], T]
) -> dict[str, T]:
    """
    Read the rows of some jobs, by one SELECT for each READ_SIZES[-1] of them.

    One SELECT sees one state of the file.
    """
    found: dict[str, T] = {}
    longest = READ_SIZES[-1]
    for start in range(0, len(jobs), longest):
        part = jobs[start : start + longest]
        which = next(index for index, size in enumerate(READ_SIZES) if size >= len(part))
        values = (*part, *(None,) * (READ_SIZES[which] - len(part)))
        for row in raw.execute(selects[which], values).fetchall():
            found[row[0]] = read(row)
    return found


def check_request(request: AnyRequest) -> RequestError | None:
    """
    Say why a request cannot be kept; None if it can.

    One item that SQLite could not bind must not fail its neighbours.
    """
    why = (
        _unfit_text("job", request.job, NAME_BYTES_MAX)
        or _unfit_slot(request)
        or (None if isinstance(request, RegisterRequest) else _unfit_attempt(request))
    )
    if why is None and isinstance(request, ClaimRequest | RegisterRequest):
        why = (
            None if request.fingerprint is None else _unfit_text("fingerprint", request.fingerprint)
        ) or (
            None
            if request.zone_digests is None
            else _unfit_text("zone_digests", request.zone_digests)
        )
    return None if why is None else RequestError(f"job {request.job!r}: {why}")


def _unfit_slot(request: AnyRequest) -> str | None:
    if isinstance(request, RegisterRequest) and request.slot is None:
        return None
    return _unfit_integer("slot", request.slot, -_INTEGER_MAX, _INTEGER_MAX)


def _unfit_attempt(
    request: ClaimRequest | RenewRequest | FinishRequest | ReleaseRequest,
) -> str | None:
    why = _unfit_integer("attempt", request.attempt, 1, _DURATION_MS_MAX) or _unfit_text(
        "token", request.token
    )
    if why is None and isinstance(request, ClaimRequest | RenewRequest):
        why = _unfit_integer("lease_ms", request.lease_ms, 0, _DURATION_MS_MAX)
    if why is not None:
        return why
    if isinstance(request, ClaimRequest):
        return _unfit_text("instance_id", request.instance_id)
    if request.started_ago_ms is None:
        return None
    # An instant that no datetime can hold would spoil every later reading of the history.
    return _unfit_integer("started_ago_ms", request.started_ago_ms, 0, 10**12)


def _unfit_text(name: str, value: object, bytes_max: int | None = None) -> str | None:
    if not isinstance(value, str):
        return f"{name} must be a str, not {value!r}"
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        return f"{name} {value!r} is no text that UTF-8 can hold"
    if bytes_max is not None and not 0 < size <= bytes_max:
        return f"{name} must be 1 to {bytes_max} bytes of UTF-8, not {size}"
    return None


def _unfit_integer(name: str, value: object, least: int, most: int) -> str | None:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        return f"{name} must be an integer from {least} to {most}, not {value!r}"
    return None
