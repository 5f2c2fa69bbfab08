"""
Make the jobs known to the store at start, and compare what it knew of them.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence

from anarchon.backend import LeaseBackend, RegisterAnswer, RegisterRequest
from anarchon.errors import BackendError
from anarchon.events import Event, ScheduleEvent
from anarchon.job import Job
from anarchon.scheduler.store_line import call_store
from anarchon.slots.facts import zone_digests_of

__all__ = ["compare_schedule", "differing_years", "register_jobs"]

logger = logging.getLogger("anarchon")


async def register_jobs(
    backend: LeaseBackend, jobs: Sequence[Job], *, store_ms: int, timeout_ms: int
) -> list[tuple[Job, RegisterAnswer, str | None]]:
    """
    Register all jobs, each with its last slot at the store's own time.

    Taken by the instance's clock, a fast one would shut a new job for a day, and a
    slow one would make the next instance catch up slots older than the job.

    Returns each job with the answer and the zone digests that were registered.

    Raises:
        BackendError: The store does not answer, or refuses a job.
    """
    registered: list[tuple[Job, RegisterAnswer, str | None]] = []
    piece = backend.capabilities.batch_max
    for start in range(0, len(jobs), piece):
        some = jobs[start : start + piece]
        digests = [_digests(job, store_ms) for job in some]
        requests = [
            RegisterRequest(
                job=job.name,
                slot=job.schedule.last_slot(store_ms),
                fingerprint=job.fingerprint,
                zone_digests=digest,
            )
            for job, digest in zip(some, digests, strict=True)
        ]
        answers = await call_store(
            backend.register(requests, timeout_ms=timeout_ms), timeout_ms=timeout_ms
        )
        for job, answer, digest in zip(some, answers, digests, strict=True):
            if isinstance(answer, BackendError):
                raise answer
            registered.append((job, answer, digest))
    return registered


def compare_schedule(
    job: Job,
    answer: RegisterAnswer,
    digest: str | None,
    *,
    emit: Callable[[Event], None],
    instance_id: str,
) -> None:
    """
    Tell when the store knew the job by another schedule, or by other rules of its zone.
    """
    extra = {"job": job.name, "instance": instance_id}
    if job.fingerprint is not None and answer.fingerprint not in (None, job.fingerprint):
        logger.info(
            "job %r: its schedule has changed; it counts from now on", job.name, extra=extra
        )
        emit(ScheduleEvent(instance=instance_id, job=job.name, reason="changed"))
        return
    years = differing_years(answer.zone_digests, digest)
    if years:
        detail = f"the rules of its time zone differ from another instance's in {', '.join(years)}"
        logger.warning("job %r: %s; update tzdata everywhere", job.name, detail, extra=extra)
        emit(ScheduleEvent(instance=instance_id, job=job.name, reason="zone_rules", detail=detail))


def differing_years(before: str | None, now: str | None) -> list[str]:
    """
    Compare the digests of a zone's rules, calendar year by calendar year.

    Two years in one hash would look like a change at each New Year.
    """
    if before is None or now is None:
        return []
    try:
        theirs, ours = json.loads(before), json.loads(now)
        return sorted(year for year in set(theirs) & set(ours) if theirs[year] != ours[year])
    except (ValueError, TypeError):
        return []


def _digests(job: Job, now_ms: int) -> str | None:
    digests = zone_digests_of(job.schedule, now_ms)
    return json.dumps(digests, sort_keys=True) if digests else None
