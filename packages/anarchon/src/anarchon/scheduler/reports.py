"""
What the lease runner tells of slots that are not run here, or nowhere.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from anarchon.backend import ClaimAnswer
from anarchon.events import (
    ErrorEvent,
    Event,
    MissEvent,
    MissReason,
    ScheduleEvent,
    SkipEvent,
    SkipReason,
)
from anarchon.job import Job
from anarchon.scheduler.decide import missed_between
from anarchon.scheduler.pursuit import JobView
from anarchon.slots.facts import count_between

__all__ = ["Reports"]

logger = logging.getLogger("anarchon")


class Reports:
    """
    Events about slots, in the words of the protocol.
    """

    def __init__(self, emit: Callable[[Event], None], instance_id: str) -> None:
        self._emit = emit
        self._instance_id = instance_id

    def skip(self, job: Job, slot: int, reason: SkipReason) -> None:
        """
        Tell that a slot is not run by this instance.
        """
        self._emit(SkipEvent(instance=self._instance_id, job=job.name, slot=slot, reason=reason))

    def missed(self, job: Job, slot: int, answer: ClaimAnswer) -> None:
        """
        Tell the slots before *slot* that nobody ran, as one range.

        Whoever holds this answer does it, and nobody else.
        """
        interval = missed_between(answer.previous_high, answer.since_ms, slot)
        if interval is None:
            return
        first = job.schedule.next_slot(interval[0])
        last = job.schedule.last_slot(interval[1] - 1)
        if first is None or last is None or first >= interval[1] or last <= interval[0]:
            return
        count, exact = count_between(job.schedule, *interval)
        self.miss(job, first, last, count, exact=exact)

    def miss(
        self,
        job: Job,
        first_slot: int,
        last_slot: int,
        count: int,
        *,
        exact: bool = True,
        reason: MissReason = "unclaimed",
    ) -> None:
        """
        Tell a range of slots that nobody ran.
        """
        logger.warning(
            "job %r: %d slots were missed, from %d to %d",
            job.name,
            count,
            first_slot,
            last_slot,
            extra={"job": job.name, "instance": self._instance_id},
        )
        self._emit(
            MissEvent(
                instance=self._instance_id,
                job=job.name,
                reason=reason,
                first_slot=first_slot,
                last_slot=last_slot,
                count=count,
                at_least=not exact,
            )
        )

    def given_up(self, job: Job, slot: int, attempt: int) -> None:
        """
        Tell that a run whose attempt *attempt* died is not started again.
        """
        why = "its runners have died too often" if job.takeover else "takeover is off"
        message = (
            f"job {job.name!r}: the run of slot {slot} is given up after attempt {attempt}: {why}"
        )
        logger.error(message, extra={"job": job.name, "slot": slot})
        self.error(job, message, None, slot=slot, attempt=attempt)

    def error(
        self,
        job: Job,
        message: str,
        error: BaseException | None,
        *,
        slot: int | None = None,
        attempt: int | None = None,
    ) -> None:
        """
        Tell what went wrong with a job; the others go on.
        """
        self._emit(
            ErrorEvent(
                instance=self._instance_id,
                message=message,
                job=job.name,
                slot=slot,
                attempt=attempt,
                error=error,
            )
        )

    def notice_schedule(self, view: JobView, answer: ClaimAnswer) -> None:
        """
        Notice that somebody else runs the job on another schedule: the store says since when.
        """
        if answer.since_ms is None or answer.since_ms == view.since_ms:
            return
        view.since_ms = answer.since_ms
        if view.told_differs:
            return
        view.told_differs = True
        logger.warning("job %r: instances with different schedules are active", view.job.name)
        self._emit(ScheduleEvent(instance=self._instance_id, job=view.job.name, reason="differs"))
