"""
The history, read out of the log from its end backwards.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from anarchon.records import Retention, RunRecord, Status, datetime_of
from anarchon_rabbitmq.entries import ClaimEntry, Entry, FinishEntry
from anarchon_rabbitmq.line import Line
from anarchon_rabbitmq.reading import Placed, read_part

__all__ = ["Chapter", "read_back", "records_of"]

_FIRST_PART: Final = 4_000
_PART_GROWTH: Final = 4
_MESSAGES_MAX: Final = 200_000

_CONTEST_MS: Final = 15_000
"""
How long after a slot was won others may still ask for it, in milliseconds.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chapter:
    """
    A part of the log up to its end: its messages, and whether it begins where the log began.
    """

    messages: list[Placed]
    whole: bool


async def read_back(
    line: Line, stream: str, end: int, *, job: str | None, enough: int, until: float
) -> Chapter:
    """
    Read backwards until *enough* runs of a job were met, or all was read, or the time is over.

    Args:
        line: The way to the log.

        stream: Its name.

        end: The offset to begin at, which must stand in the log.

        job: The job; None for all.

        enough: How many runs are wanted.

        until: When to stop going further back, by the event loop's clock.

    Raises:
        BackendError: It could not be read.
    """
    messages: list[Placed] = []
    begin, size = end + 1, _FIRST_PART
    while begin > 0:
        start = max(0, begin - size)
        part = await read_part(line, stream, start, begin - 1)
        messages[:0] = [placed for placed in part if placed[0] < begin]
        if part[0][0] > start:
            # Older parts were cut off.
            return Chapter(messages=messages, whole=False)
        begin, size = start, size * _PART_GROWTH
        late = asyncio.get_running_loop().time() >= until
        if begin and (len(messages) >= _MESSAGES_MAX or late or _runs(messages, job) > enough):
            return Chapter(messages=messages, whole=False)
    return Chapter(messages=messages, whole=True)


def records_of(
    chapter: Chapter, *, job: str | None, retention: Retention, now_ms: int
) -> list[RunRecord]:
    """
    Make records of what the log says, newest first, without those beyond the retention.
    """
    records: dict[tuple[str, int], RunRecord] = {}
    tokens: dict[tuple[str, int], str] = {}
    begun_ms = None
    for _, message in chapter.messages:
        if message is None:
            continue
        if begun_ms is None:
            begun_ms = message.written_ms
        for entry in _about(message.entries, job):
            key = (entry.job, entry.slot)
            if isinstance(entry, FinishEntry):
                known = records.get(key)
                if known is None or known.status is Status.RUNNING:
                    records[key] = _ended(entry, message.written_ms)
            elif key not in records:
                tokens[key] = entry.token
                records[key] = _begun(entry, message.written_ms)
    found = list(records.values())
    if not chapter.whole and begun_ms is not None:
        # Who asked first for these may stand before the part that was read.
        doubtful = datetime_of(begun_ms + _CONTEST_MS)
        found = [
            record
            for record in found
            if record.status is not Status.RUNNING or record.claimed_at > doubtful
        ]
    found.sort(key=lambda record: record.job)
    found.sort(key=lambda record: record.slot, reverse=True)
    return _kept(found, retention, now_ms)


def _runs(messages: list[Placed], job: str | None) -> int:
    return len(
        {
            (entry.job, entry.slot)
            for _, message in messages
            if message is not None
            for entry in _about(message.entries, job)
        }
    )


def _about(entries: Iterable[Entry], job: str | None) -> Iterable[Entry]:
    return entries if job is None else (entry for entry in entries if entry.job == job)


def _begun(entry: ClaimEntry, written_ms: int) -> RunRecord:
    return RunRecord(
        job=entry.job,
        slot=entry.slot,
        attempt=1,
        instance_id=entry.instance_id,
        status=Status.RUNNING,
        claimed_at=datetime_of(written_ms),
    )


def _ended(entry: FinishEntry, written_ms: int) -> RunRecord:
    return RunRecord(
        job=entry.job,
        slot=entry.slot,
        attempt=1,
        instance_id=entry.instance_id,
        status=entry.status,
        reason=entry.reason,
        claimed_at=datetime_of(entry.claimed_ms),
        started_at=None if entry.started_ms is None else datetime_of(entry.started_ms),
        finished_at=datetime_of(written_ms),
        error=entry.error,
    )


def _kept(found: list[RunRecord], retention: Retention, now_ms: int) -> list[RunRecord]:
    """
    Leave out what is beyond the retention; a run that has not ended never is.
    """
    oldest = None if retention.age_ms is None else datetime_of(max(0, now_ms - retention.age_ms))
    counts: Counter[str] = Counter()
    kept = []
    for record in found:
        counts[record.job] += 1
        if record.finished_at is None or (
            counts[record.job] <= retention.records_per_job
            and (oldest is None or record.finished_at >= oldest)
        ):
            kept.append(record)
    return kept
