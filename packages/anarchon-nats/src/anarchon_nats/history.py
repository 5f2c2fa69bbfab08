"""
Reading the history: claims without an end, and ends, within the retention.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from anarchon.errors import RequestError
from anarchon.records import Retention, RunRecord, datetime_of
from anarchon_nats.instants import ServerTime
from anarchon_nats.messages import claim_of, ended_record, open_record
from anarchon_nats.stream import Stream
from anarchon_nats.subjects import Subjects

__all__ = ["HistoryReader", "Kept", "kept_of"]

logger = logging.getLogger("anarchon")

_PIECE = 256


class Kept(NamedTuple):
    """
    The slots of one job of which the stream has a claim, and an end. Newest first.
    """

    open: list[int]
    ended: list[int]


def kept_of(subjects: Subjects, found: Sequence[str]) -> dict[str, Kept]:
    """
    Sort subjects by job.
    """
    claims: dict[str, set[int]] = {}
    ends: dict[str, set[int]] = {}
    for subject in found:
        parsed = subjects.parsed(subject)
        if parsed is None:
            continue
        kind, job, slot = parsed
        side = ends if kind == "end" else claims
        side.setdefault(job, set()).add(slot)
    return {
        job: Kept(
            open=sorted(claims.get(job, set()) - ends.get(job, set()), reverse=True),
            ended=sorted(ends.get(job, set()), reverse=True),
        )
        for job in claims | ends
    }


class HistoryReader:
    """
    Reads records.

    What is beyond the retention is not told, also while the stream still keeps it to
    protect its slot.

    Args:
        stream: The stream.

        subjects: The names.

        retention: How many records of a job there are, and for how long.

        time: What is known of the server's clock.
    """

    def __init__(
        self, stream: Stream, subjects: Subjects, retention: Retention, time: ServerTime
    ) -> None:
        self._stream = stream
        self._subjects = subjects
        self._retention = retention
        self._time = time

    async def read(self, job: str | None, *, limit: int) -> list[RunRecord]:
        """
        Return the newest records of one job, or of all, newest first.
        """
        filtered = self._subjects.everything if job is None else self._subjects.both(job)
        kept = kept_of(self._subjects, await self._stream.subjects_of(filtered))
        places = [
            (-slot, name, ended)
            for name, slots in kept.items()
            for ended, some in (
                (False, slots.open),
                (True, slots.ended[: self._retention.records_per_job]),
            )
            for slot in some
        ]
        places.sort()
        records: list[RunRecord] = []
        while places and len(records) < limit:
            count = min(_PIECE, limit - len(records))
            part, places = places[:count], places[count:]
            records += await self._read(part)
        return records

    async def _read(self, places: Sequence[tuple[int, str, bool]]) -> list[RunRecord]:
        found = await self._stream.read(
            [
                self._subjects.end(job, -negative)
                if ended
                else self._subjects.claim(job, -negative)
                for negative, job, ended in places
            ]
        )
        told = (
            self._record(job, -negative, message, ended=ended)
            for (negative, job, ended), message in zip(places, found, strict=True)
        )
        return [record for record in told if record is not None]

    def _record(
        self, job: str, slot: int, message: Mapping[str, Any] | None, *, ended: bool
    ) -> RunRecord | None:
        if message is None:
            return None  # It was pruned between the two looks.
        try:
            if not ended:
                return open_record(job, slot, claim_of(message))
            record = ended_record(job, slot, message)
        except RequestError as error:
            logger.warning("the history leaves out a record of job %r: %s", job, error)
            return None
        age_ms = self._retention.age_ms
        if age_ms is not None and record.finished_at is not None:
            # What ends at the very instant of its age is still told.
            oldest = datetime_of(max(0, self._time.now_ms() - age_ms))
            return record if record.finished_at >= oldest else None
        return record
