"""
What ran in a simulation, as a user asks for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from anarchon.events import Event, MissEvent
from anarchon.records import RunRecord, Status
from anarchon_simulation.trace import Entry, timeline

__all__ = ["Report", "Told"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """
    An event, and when: milliseconds of true time since 1970.
    """

    at_ms: int
    instance: str
    event: Event


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """
    What a simulation came to.

    Args:
        records: The history, oldest first: one record an attempt.

        told: The events of all instances, in order.

        seed: What makes it run again in the same way.

        digest: Equal digests, equal runs.
    """

    records: tuple[RunRecord, ...] = field(repr=False)
    told: tuple[Told, ...] = field(repr=False)
    seed: int
    digest: str
    start_ms: int
    columns: tuple[str, ...] = field(repr=False)
    entries: tuple[Entry, ...] = field(repr=False)

    def attempts(self, job: str | None = None) -> list[RunRecord]:
        """
        Return every attempt that was begun, of one job or of all, oldest slot first.
        """
        return [
            record
            for record in self.records
            if job in (None, record.job) and record.status is not Status.SKIPPED
        ]

    def ran(self, job: str | None = None) -> list[RunRecord]:
        """
        Return the attempts that came to an end of their own: success or failed.
        """
        ended = (Status.SUCCESS, Status.FAILED)
        return [record for record in self.attempts(job) if record.status in ended]

    def skipped(self, job: str | None = None) -> list[RunRecord]:
        """
        Return the slots that were skipped because an older run went on.
        """
        return [
            record
            for record in self.records
            if job in (None, record.job) and record.status is Status.SKIPPED
        ]

    def missed(self, job: str | None = None) -> list[MissEvent]:
        """
        Return what was told as missed: ranges of slots that nobody ran.
        """
        return [
            told.event
            for told in self.told
            if isinstance(told.event, MissEvent) and job in (None, told.event.job)
        ]

    def events(self, event_type: str) -> list[Told]:
        """
        Return the events of one type, in order.
        """
        return [told for told in self.told if told.event.type == event_type]

    def timeline(self, job: str | None = None, *, rows_max: int | None = 200) -> str:
        """
        Draw what happened: instances as columns, virtual time as rows.
        """
        entries: Sequence[Entry] = [
            entry for entry in self.entries if job is None or entry.job in (None, job)
        ]
        return timeline(entries, self.columns, start_ms=self.start_ms, rows_max=rows_max)
