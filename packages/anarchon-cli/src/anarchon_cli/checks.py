"""
What a store's clock and its jobs say about an installation. Pure: everything was asked before.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from anarchon.backend import EARLY_TOLERANCE_MS
from anarchon.durations import format_ms
from anarchon.job import Job
from anarchon.operating import Finding, KnownJob, Severity
from anarchon.scheduler.registering import differing_years
from anarchon.slots.facts import zone_digests_of
from anarchon_cli.screen import utc_time
from anarchon_cli.text import printable

__all__ = ["ClockSample", "check_clock", "check_jobs", "check_runs", "check_zones"]

_SLOW_MS: Final = 1_000
_RECENT_MS: Final = 24 * 3_600_000
# A timer sleeps for half a minute at most, and a claim may wait for its call's deadline.
_GRACE_MS: Final = 60_000
_NAMES_MAX: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockSample:
    """
    One look at the store's clock: between which instants of our own it told its time.
    """

    sent_ms: int
    received_ms: int
    store_ms: int

    @property
    def trip_ms(self) -> int:
        """
        How long the answer took.
        """
        return max(0, self.received_ms - self.sent_ms)

    @property
    def ahead_ms(self) -> int:
        """
        By how much our own clock is ahead of the store's, at the middle of the trip.
        """
        return (self.sent_ms + self.received_ms) // 2 - self.store_ms


def check_clock(samples: Sequence[ClockSample]) -> Iterator[Finding]:
    """
    Compare this machine's clock with the store's, by the quickest answer; none says that the store tells no time.
    """
    if not samples:
        yield Finding(
            check="clock",
            severity=Severity.NOTE,
            message="The store tells no time: an instance whose clock is fast runs a slot early, for all.",
            advice="Let NTP keep the clocks of all instances, and watch that it does.",
        )
        return
    best = min(samples, key=lambda sample: sample.trip_ms)
    apart_ms, unsure_ms = abs(best.ahead_ms), -(-best.trip_ms // 2)
    words = "ahead of" if best.ahead_ms > 0 else "behind"
    if apart_ms - unsure_ms > EARLY_TOLERANCE_MS:
        cost = "claims too early and is told to wait" if best.ahead_ms > 0 else "starts slots late"
        yield Finding(
            check="clock",
            severity=Severity.WARNING,
            message=f"This machine's clock is {apart_ms} ms {words} the store's (within {unsure_ms} ms): an instance"
            f" here {cost}. Leases do not notice: the store's clock judges them.",
            advice="Let NTP keep both clocks, and find out which of them is wrong.",
        )
    else:
        yield Finding(
            check="clock",
            severity=Severity.FINE,
            message=f"This machine's clock and the store's are {apart_ms} ms apart (within {unsure_ms} ms).",
        )
    if best.trip_ms > _SLOW_MS:
        yield Finding(
            check="latency",
            severity=Severity.WARNING,
            message=f"The quickest of {len(samples)} answers took {best.trip_ms} ms. With a heartbeat of 10 s a"
            " renewal has 5 s.",
            advice="Move the store closer, or give schedulers a longer heartbeat.",
        )


def check_runs(known: Sequence[KnownJob]) -> Iterator[Finding]:
    """
    Find unfinished runs that nobody renews.
    """
    for job in known:
        run = job.run
        if run is not None and not run.remaining_ms:
            yield Finding(
                check="runs",
                severity=Severity.WARNING,
                message=f"The run of job {job.job!r}, slot {utc_time(run.slot)} UTC, attempt {run.attempt}, has no"
                f" runner: the lease of {printable(run.instance_id)} is over, or was given back.",
                advice="A backup takes it over within two heartbeats. If this lasts, no instance with this job is"
                " running.",
            )


def check_zones(
    jobs: Sequence[Job], known: Mapping[str, KnownJob], *, rules: str, now_ms: int
) -> Iterator[Finding]:
    """
    Compare the rules of the jobs' time zones with those of whoever wrote to the store last.
    """
    differing: dict[tuple[str, ...], list[str]] = {}
    for job in jobs:
        digests = zone_digests_of(job.schedule, now_ms)
        stored = known[job.name].zone_digests if job.name in known else None
        if digests and (years := differing_years(stored, json.dumps(digests))):
            differing.setdefault(tuple(years), []).append(job.name)
    for which, names in differing.items():
        yield Finding(
            check="zones",
            severity=Severity.WARNING,
            message=f"Another instance has other rules for the time zone of {_listed(names)} in {', '.join(which)}"
            f" (here: {rules}): such a job may run twice, at two different slots.",
            advice="Update tzdata everywhere, in one deploy.",
        )


def check_jobs(
    jobs: Sequence[Job], known: Mapping[str, KnownJob], *, leases: bool, now_ms: int
) -> Iterator[Finding]:
    """
    Compare the jobs of the code with those of the store.
    """
    defined = {job.name: job for job in jobs}
    new = [name for name in defined if name not in known]
    if new:
        yield Finding(
            check="jobs",
            severity=Severity.NOTE,
            message=f"The store does not know {_listed(new)} yet.",
            advice="Nothing is missed: such a job begins with its next slot when a scheduler that has it starts."
            if leases
            else "It becomes known with its first claim.",
        )
    yield from _undefined([job for job in known.values() if job.job not in defined], now_ms)
    both = [(job, known[job.name]) for job in jobs if job.name in known]
    changed = [
        job.name
        for job, stored in both
        if job.fingerprint is not None and stored.fingerprint not in (None, job.fingerprint)
    ]
    if changed:
        yield Finding(
            check="schedules",
            severity=Severity.WARNING,
            message=f"The store has another schedule for {_listed(changed)} than this code.",
            advice="If instances of another release are running, end them: two schedules give two sets of slots. Else"
            " this code's schedule counts from its first start on.",
        )
    yield from _overdue([pair for pair in both if pair[0].name not in changed], now_ms)
    if not new and not changed and both:
        yield Finding(
            check="jobs",
            severity=Severity.FINE,
            message=f"The store knows all {len(both)} jobs of this code.",
        )


def _undefined(known: Sequence[KnownJob], now_ms: int) -> Iterator[Finding]:
    """
    Tell jobs of the store that the code does not have: used lately, or left over.
    """
    lately = [
        job.job
        for job in known
        if job.run is not None or (job.high is not None and now_ms - job.high < _RECENT_MS)
    ]
    left = [job.job for job in known if job.job not in lately]
    if lately:
        yield Finding(
            check="other-jobs",
            severity=Severity.WARNING,
            message=f"The store knows {_listed(lately)}, used within the last day, which this code does not define.",
            advice="Every instance must have the same jobs: look whether another release is running, or another service"
            " uses this store without a prefix or schema of its own.",
        )
    if left:
        yield Finding(
            check="old-jobs",
            severity=Severity.NOTE,
            message=f"The store remembers {_listed(left)}, which this code does not define (any more).",
            advice="Nothing needs to be done: what it keeps of a job that was removed is one row or key.",
        )


def _overdue(both: Sequence[tuple[Job, KnownJob]], now_ms: int) -> Iterator[Finding]:
    """
    Find slots that nobody has claimed, though they are well past.
    """
    names, longest_ms = [], 0
    for job, stored in both:
        if stored.high is None or (stored.run is not None and stored.run.remaining_ms):
            continue
        due = _last_slot(job, now_ms)
        if due is not None and due > max(stored.high, stored.since_ms or 0):
            names.append(job.name)
            longest_ms = max(longest_ms, now_ms - due)
    if names:
        everything = len(names) == len(both)
        yield Finding(
            check="overdue",
            severity=Severity.WARNING,
            message=f"Nobody has claimed the last slot of {_listed(names)}, due up to"
            f" {format_ms(longest_ms // 1_000 * 1_000)} ago.",
            advice="No instance seems to be running, or none was when it was due: look, and start one."
            if everything
            else "Look whether an instance with these jobs is running, and into its log.",
        )


def _last_slot(job: Job, now_ms: int) -> int | None:
    """
    Ask for the last slot that must have been claimed by now.
    """
    try:
        return job.schedule.last_slot(now_ms - _GRACE_MS - job.jitter_ms)
    except Exception:  # noqa: BLE001 - a schedule of the user's own may raise; a scheduler tells so in its log
        return None


def _listed(names: Sequence[str]) -> str:
    """
    List names of jobs, not too many.
    """
    shown = ", ".join(repr(name) for name in names[:_NAMES_MAX])
    rest = len(names) - _NAMES_MAX
    return f"job{'s' if len(names) > 1 else ''} {shown}" + (f" and {rest} more" if rest > 0 else "")
