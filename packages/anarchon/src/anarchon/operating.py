"""
What a person who operates a service asks of its store. Each part is optional.

A backend offers a part by having its method; nothing is inherited, and a scheduler
asks for none of it. The command `anarchon doctor` puts the parts together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, Self, runtime_checkable

from anarchon.backend import RunView

__all__ = [
    "Diagnosable",
    "Finding",
    "Inspectable",
    "JobLister",
    "KnownJob",
    "Migratable",
    "Severity",
]


class Severity(StrEnum):
    """
    How much a finding matters.

    FINE was looked at and is as it should be. NOTE is worth knowing, and may be meant.
    A WARNING endangers a promise under circumstances that the message names, or costs
    time. A PROBLEM breaks a promise, or stops the scheduler.
    """

    FINE = "fine"
    NOTE = "note"
    WARNING = "warning"
    PROBLEM = "problem"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """
    One thing that was looked at.

    Args:
        check: A short name of what was looked at, which never changes: "eviction".

        severity: How much it matters.

        message: What was found, as a sentence.

        advice: What to do about it, as a sentence. A warning and a problem have one.
    """

    check: str
    severity: Severity
    message: str
    advice: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownJob:
    """
    What a store keeps of a job.

    Args:
        job: The job's name.

        high: Its newest slot that was ever granted, skipped or registered; None where
            there is none, and where a store keeps none.

        since_ms: When its schedule last changed.

        fingerprint, zone_digests: Those of the instance that wrote last.

        run: Its unfinished run.
    """

    job: str
    high: int | None = None
    since_ms: int | None = None
    fingerprint: str | None = None
    zone_digests: str | None = None
    run: RunView | None = None


@runtime_checkable
class Inspectable(Protocol):
    """
    A backend that can look at its store without changing it.
    """

    def reader(self) -> Self:
        """
        Return an unopened backend to the same store that only reads.

        Its open() makes and changes nothing, and raises StoreRefusedError where there is
        nothing to open. Calls that would write are refused.
        """


@runtime_checkable
class Diagnosable(Protocol):
    """
    A backend that knows which settings of its store endanger what is promised.
    """

    async def diagnose(self, *, timeout_ms: int) -> Sequence[Finding]:
        """
        Look at the store's settings and state. The backend is open; nothing is changed.

        What a user may not ask for is a finding, not an error.

        Raises:
            StoreUnavailableError: The store did not answer.
        """


@runtime_checkable
class JobLister(Protocol):
    """
    A backend that can say which jobs its store knows.
    """

    async def known_jobs(self, *, timeout_ms: int) -> Sequence[KnownJob]:
        """
        Return every job that the store knows, by name. The backend is open; nothing is changed.

        Raises:
            StoreUnavailableError: The store did not answer.
        """


@runtime_checkable
class Migratable(Protocol):
    """
    A backend whose store must be prepared by somebody with more rights, where its user has too few.
    """

    def migration_sql(self, *, grant_to: str | None = None) -> str:
        """
        Return the statements that make or upgrade what the backend needs; they may be run again.

        Args:
            grant_to: A role that gets the rights which a backend needs.
        """
