"""
The lease runner's decisions, apart from all I/O.
"""

from __future__ import annotations

from random import Random

from anarchon.backend import RunView
from anarchon.job import Job
from anarchon.slots import Schedule

__all__ = ["catch_up_slot", "chase_from", "check_pause_ms", "missed_between", "newest_due"]


def check_pause_ms(run: RunView, heartbeat_ms: int, random: Random) -> int:
    """
    Say when a backup looks at a run again.

    Every 1 to 2 heartbeats, and at the latest one heartbeat after the lease runs
    out, so that a takeover comes within lease + 2 heartbeats of the last renewal;
    at once when nothing is left of the lease.
    """
    if run.remaining_ms <= 0:
        return 0
    usual_ms = heartbeat_ms + int(random.random() * heartbeat_ms)
    # A little after the end, spread over a part of a heartbeat: backups do not knock in step.
    over_ms = run.remaining_ms + 1 + int(random.random() * heartbeat_ms / 2)
    return min(usual_ms, over_ms)


def chase_from(job: Job, high: int | None, since_ms: int | None, store_now_ms: int) -> int:
    """
    Say after which instant the first slot to be asked for lies, under catch_up = "all".

    The caller asks for nothing but the first slot after the newest of high, since,
    and now less the shorter of window and max lateness; that alone keeps the order,
    without any lock.
    """
    windows = [
        window_ms
        for window_ms in (job.catch_up_window_ms, job.max_lateness_ms)
        if window_ms is not None
    ]
    bounds = [bound for bound in (high, since_ms) if bound is not None]
    if windows:
        bounds.append(store_now_ms - min(windows) - 1)
    return max(bounds, default=-1)


def newest_due(schedule: Schedule, armed_slot: int, now_ms: int) -> int:
    """
    Return the newest slot that is due when the timer of *armed_slot* fires, maybe late.
    """
    last = schedule.last_slot(now_ms)
    return armed_slot if last is None or last < armed_slot else last


def catch_up_slot(job: Job, high: int | None, since_ms: int | None, now_ms: int) -> int | None:
    """
    Return the slot to be caught up under catch_up = "latest"; None if nothing was missed.
    """
    slot = job.schedule.last_slot(now_ms)
    if slot is None or slot <= max(bound for bound in (high, since_ms, -1) if bound is not None):
        return None
    if job.catch_up_window_ms is not None and now_ms - slot > job.catch_up_window_ms:
        return None
    return slot


def missed_between(
    previous_high: int | None, since_ms: int | None, slot: int
) -> tuple[int, int] | None:
    """
    Return the open interval in which every slot was missed; None if there is none.
    """
    if previous_high is None:
        return None
    first = previous_high if since_ms is None else max(previous_high, since_ms)
    return None if first >= slot else (first, slot)
