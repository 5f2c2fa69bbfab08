"""
What ran, where, and how it ended.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from datetime import datetime, timedelta

from anarchon.backend import Backend
from anarchon.clock import SystemClock
from anarchon.records import RunRecord, Status, datetime_of
from anarchon.registry import backend_from_url
from anarchon_cli.reading import opened_to_read
from anarchon_cli.screen import print_json_lines, print_table, utc_time

__all__ = ["endless", "json_of", "read_history", "row_of", "show_history"]

_TIMEOUT_MS = 10_000
_RECORDS_MAX = 100_000
_ERROR_COLUMNS = 160
_ENDLESS_AFTER = timedelta(hours=1)
_COLUMNS = (
    "job",
    "slot (UTC)",
    "attempt",
    "instance",
    "status",
    "claimed",
    "started",
    "finished",
    "took",
    "error",
)


def show_history(
    url: str, job: str | None, *, limit: int, status: Status | None, as_json: bool
) -> None:
    """
    Print the newest records of one job, or of all, newest first. No job's code is needed.

    Raises:
        AnarchonError: The URL names no store, or the store does not answer.
    """
    backend = backend_from_url(url)
    records, now = asyncio.run(_read(backend, job, limit=limit, status=status))
    leases = backend.capabilities.leases
    told = [(record, endless(record, leases=leases, now=now)) for record in records]
    if as_json:
        print_json_lines(json_of(record, no_end=no_end) for record, no_end in told)
    elif records:
        print_table(_COLUMNS, (row_of(record, no_end=no_end) for record, no_end in told))
    else:
        wanted = " ".join(
            [
                "No record",
                *([f"of job {job!r}"] if job else []),
                *([f"with status {status}"] if status else []),
            ]
        )
        print(f"{wanted} in {backend.service}.", file=sys.stderr)  # noqa: T201 - a word to a person, not output


async def read_history(
    backend: Backend, job: str | None, *, limit: int, status: Status | None
) -> Sequence[RunRecord]:
    """
    Return the newest *limit* records, of one status if one is named.

    A store knows no statuses to search for, so that more and more records are read
    until enough of them match, there are no more, or 100,000 were read.
    """
    wanted = limit
    while True:
        records = await backend.history(job, limit=wanted, timeout_ms=_TIMEOUT_MS)
        matching = [record for record in records if status in (None, record.status)]
        if len(matching) >= limit or len(records) < wanted or wanted >= _RECORDS_MAX:
            return matching[:limit]
        wanted = min(4 * wanted, _RECORDS_MAX)


def endless(record: RunRecord, *, leases: bool, now: datetime) -> bool:
    """
    Say whether a running attempt may have ended unheard.

    Where there are no leases, nobody notices that a runner has died: its record says
    "running" for ever. It is doubted after an hour; a job may well run that long.
    """
    return (
        not leases and record.status is Status.RUNNING and now - record.claimed_at > _ENDLESS_AFTER
    )


def row_of(record: RunRecord, *, no_end: bool = False) -> tuple[str, ...]:
    """
    Write a record as a row of the table. A time on the slot's own day goes without its date.
    """
    reason = f" ({record.reason.replace('_', ' ')})" if record.reason else ""
    reason = " (no end recorded)" if no_end else reason
    error = (record.error or "").strip().partition("\n")[0]
    return (
        record.job,
        utc_time(record.slot),
        str(record.attempt),
        record.instance_id,
        f"{record.status}{reason}",
        _time(record.claimed_at, record.slot),
        _time(record.started_at, record.slot),
        _time(record.finished_at, record.slot),
        _took(record),
        error if len(error) <= _ERROR_COLUMNS else f"{error[: _ERROR_COLUMNS - 1]}…",
    )


def json_of(record: RunRecord, *, no_end: bool = False) -> dict[str, object]:
    """
    Write a record as an object of JSON, complete, its times in ISO 8601 and UTC.

    ``no_end`` says that the attempt may have ended unheard, as endless() tells.
    """
    return {
        "job": record.job,
        "slot": record.slot,
        "attempt": record.attempt,
        "instance_id": record.instance_id,
        "status": record.status,
        "reason": record.reason,
        "claimed_at": _iso(record.claimed_at),
        "started_at": _iso(record.started_at),
        "finished_at": _iso(record.finished_at),
        "error": record.error,
        "no_end": no_end,
    }


async def _read(
    backend: Backend, job: str | None, *, limit: int, status: Status | None
) -> tuple[Sequence[RunRecord], datetime]:
    async with opened_to_read(backend, timeout_ms=_TIMEOUT_MS) as reader:
        records = await read_history(reader, job, limit=limit, status=status)
        now_ms = await reader.time(timeout_ms=_TIMEOUT_MS)
        return records, datetime_of(SystemClock().wall_ms() if now_ms is None else now_ms)


def _took(record: RunRecord) -> str:
    if record.finished_at is None or record.started_at is None:
        return ""
    return f"{(record.finished_at - record.started_at).total_seconds():.3f} s"


def _time(time: datetime | None, slot: int) -> str:
    if time is None:
        return ""
    date, clock = time.replace(tzinfo=None).isoformat(sep=" ", timespec="milliseconds").split()
    return clock if utc_time(slot).startswith(date) else f"{date} {clock}"


def _iso(time: datetime | None) -> str | None:
    return None if time is None else time.isoformat(timespec="milliseconds")
