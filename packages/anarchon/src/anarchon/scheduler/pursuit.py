"""
What the lease runner keeps of a job, and what it asks the store for.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from anarchon.backend import ClaimRequest, Overlap, RunView
from anarchon.job import Job
from anarchon.scheduler.runs import ActiveRun

__all__ = ["JobView", "Pursuit", "Watch"]


@dataclass(slots=True, eq=False)
class Watch:
    """
    A run on another instance that this one is a backup for.

    ``token`` is for the next attempt, and is used for no other. ``generation``
    tells a check that is still in the agenda from one that was replaced;
    ``asked`` is the check under way. A second one before it was sent takes its
    place: the same token twice in one batch would be granted twice.
    """

    slot: int
    attempt: int
    instance_id: str
    token: str
    generation: int = 0
    asked: Pursuit | None = None


@dataclass(slots=True, eq=False)
class Pursuit:
    """
    One claim that is asked, and asked again with the same token until it is answered.

    ``watch`` is set when the claim is a backup's check of a run. ``not_after_ms``
    is on the store's clock; ``sent_ms`` on the own suspend-counting one.
    """

    view: JobView
    slot: int
    attempt: int
    token: str
    overlap: Overlap = "skip"
    watch: Watch | None = None
    not_after_ms: int | None = None
    sent_ms: int = 0

    def request(self, *, instance_id: str, lease_ms: int) -> ClaimRequest:
        """
        Write the claim down as the protocol has it.
        """
        job = self.view.job
        return ClaimRequest(
            job=job.name,
            slot=self.slot,
            attempt=self.attempt,
            token=self.token,
            instance_id=instance_id,
            lease_ms=lease_ms,
            not_after_ms=self.not_after_ms,
            overlap=self.overlap,
            max_lateness_ms=job.max_lateness_ms,
            max_crashes=job.max_crashes,
            takeover=job.takeover,
            fingerprint=job.fingerprint,
            zone_digests=self.view.zone_digests,
        )


@dataclass(slots=True, eq=False)
class JobView:
    """
    A job as this instance sees it: no other instance needs any of it.
    """

    job: Job
    high: int | None = None
    since_ms: int | None = None
    zone_digests: str | None = None
    pursuit: Pursuit | None = None
    watch: Watch | None = None
    # Runs in this instance: at most one is live, others are threads that outlast a lost run.
    runs: list[ActiveRun] = field(default_factory=list)
    told_differs: bool = False

    def learn(self, high: int | None) -> None:
        """
        Keep the newest `high` that was heard; it only grows.
        """
        if high is not None and (self.high is None or high > self.high):
            self.high = high

    def owns(self, run: RunView) -> bool:
        """
        Say whether a run that the store shows is executed right here.
        """
        return any(
            own.context.slot == run.slot
            and own.context.attempt == run.attempt
            and not own.context.lost.is_set()
            for own in self.runs
        )

    @property
    def blocked(self) -> bool:
        """
        Whether a lost run still goes on here, in a thread or a clean-up: then nothing is claimed.
        """
        return any(own.context.lost.is_set() for own in self.runs)
