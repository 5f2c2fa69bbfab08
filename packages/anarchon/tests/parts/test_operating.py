"""
What an operator asks of a backend is optional, and offered by having a method.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import pytest

from anarchon import MemoryBackend, Scheduler
from anarchon.operating import (
    Diagnosable,
    Finding,
    Inspectable,
    JobLister,
    KnownJob,
    Migratable,
    Severity,
)

PARTS = (Diagnosable, Inspectable, JobLister, Migratable)


class Offers:
    """
    A third party's backend, as far as it is asked here: it inherits nothing.
    """

    def reader(self) -> Self:
        """
        Give what only reads.
        """
        return self

    def migration_sql(self, *, grant_to: str | None = None) -> str:
        """
        Give no statements at all.
        """
        return f"-- nothing for {grant_to}"

    async def diagnose(self, *, timeout_ms: int) -> Sequence[Finding]:
        """
        Find nothing.
        """
        return []

    async def known_jobs(self, *, timeout_ms: int) -> Sequence[KnownJob]:
        """
        Know nothing.
        """
        return []


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.__name__)
def test_part_is_told_by_its_method(part: type) -> None:
    """
    A backend has a part when it has the method, and no backend needs any of them.
    """
    assert isinstance(Offers(), part)
    assert not isinstance(MemoryBackend(), part)


def test_scheduler_gives_its_backend() -> None:
    """
    Whoever looks after the store of a scheduler asks through what it was given, or uses now.
    """
    first, second = MemoryBackend(), MemoryBackend()
    scheduler = Scheduler(first)

    assert first is scheduler.backend
    scheduler.use(second)

    assert second is scheduler.backend


def test_severities_rise() -> None:
    """
    They stand in the order of their weight, so that a list of findings can be sorted by it.
    """
    assert ["fine", "note", "warning", "problem"] == [severity.value for severity in Severity]


def test_findings_and_jobs_are_values() -> None:
    """
    What crosses the border is frozen, compares by its content, and says no more than it knows.
    """
    finding = Finding(check="disk", severity=Severity.FINE, message="There is room.")
    job = KnownJob(job="a")

    assert (finding, "") == (
        Finding(check="disk", severity=Severity.FINE, message="There is room."),
        finding.advice,
    )
    assert {None} == {job.high, job.since_ms, job.fingerprint, job.zone_digests, job.run}
    with pytest.raises(AttributeError):
        finding.check = "other"  # type: ignore[misc]  # that is what fails
