"""
When the next slots are. No store is asked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from anarchon.clock import SystemClock
from anarchon.records import datetime_of
from anarchon.slots import Cron, Every, Once, Schedule, describe
from anarchon.slots.zones import check_key
from anarchon_cli.failing import UsageError
from anarchon_cli.loading import load_scheduler
from anarchon_cli.screen import local_time, print_json_lines, print_table, utc_time, zoned_time

__all__ = ["Upcoming", "instant_ms", "next_slots", "schedules_of", "show_next"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Upcoming:
    """
    One slot to come. Without one, ``slot`` is None and ``note`` says why.
    """

    job: str
    schedule: str
    slot: int | None
    time: str = ""
    note: str = ""


def show_next(
    schedules: Mapping[str, Schedule],
    *,
    after_ms: int,
    count: int,
    timezone: str | None,
    as_json: bool,
) -> bool:
    """
    Print the next slots of each job, and say whether every schedule could be asked.

    Times are shown in *timezone*; None takes a cron schedule's own zone, and this
    machine's for the others.

    Raises:
        InvalidScheduleError: There is no such zone.
    """
    if timezone is not None:
        check_key(timezone)  # Said once, not by every job.
    found = [
        upcoming
        for name, schedule in schedules.items()
        for upcoming in next_slots(
            name, schedule, after_ms=after_ms, count=count, timezone=timezone
        )
    ]
    if as_json:
        print_json_lines(_json_of(upcoming) for upcoming in found)
    else:
        columns = ("job", "schedule", "slot", "UTC", "local time")
        print_table(columns, (_row_of(upcoming) for upcoming in found))
    return not any(upcoming.note.startswith("error") for upcoming in found)


def next_slots(
    name: str, schedule: Schedule, *, after_ms: int, count: int, timezone: str | None
) -> Iterator[Upcoming]:
    """
    Give the next slots of one job.

    A schedule that raises gives its error: it may be a user's own, and one job's
    error never hides the others.
    """
    words = describe(schedule)
    slot: int | None = after_ms
    for given in range(count):
        assert slot is not None
        try:
            slot = schedule.next_slot(slot)
            time = "" if slot is None else _time(slot, schedule, timezone)
        except Exception as error:  # noqa: BLE001 - see above
            note = f"error: {type(error).__qualname__}: {error}"
            yield Upcoming(job=name, schedule=words, slot=None, note=note)
            return
        if slot is None:
            if not given:
                yield Upcoming(job=name, schedule=words, slot=None, note="no slot to come")
            return
        yield Upcoming(job=name, schedule=words, slot=slot, time=time)


def schedules_of(
    target: str | None,
    *,
    cron: str | None = None,
    every: str | None = None,
    timezone: str | None = None,
    job: str | None = None,
) -> dict[str, Schedule]:
    """
    Return the schedules that a command line names: a scheduler's, or one that is written there.

    Raises:
        UsageError: Not exactly one source is named, or the scheduler has no such job.

        AnarchonError: A schedule cannot be.
    """
    if sum(source is not None for source in (target, cron, every)) != 1:
        msg = "next needs one of MODULE:SCHEDULER, --cron EXPRESSION and --every INTERVAL."
        raise UsageError(msg)
    if target is None and job is not None:
        msg = "--job names a job of a scheduler: give MODULE:SCHEDULER."
        raise UsageError(msg)
    if cron is not None:
        return {"cron": Cron(cron, timezone or "UTC")}
    if every is not None:
        return {"every": Every(every)}
    assert target is not None
    schedules = {defined.name: defined.schedule for defined in load_scheduler(target).jobs}
    if job is None:
        return schedules
    if job not in schedules:
        msg = f"there is no job {job!r}; jobs there: {', '.join(schedules) or 'none'}."
        raise UsageError(msg)
    return {job: schedules[job]}


def instant_ms(text: str | None) -> int:
    """
    Read an instant; None is now.

    Raises:
        UsageError: It is no instant that a slot could have.
    """
    if text is None:
        return SystemClock().wall_ms()
    try:
        return Once(datetime.fromisoformat(text)).at_ms
    except ValueError as error:
        msg = (
            f"--after {text!r} is no instant from 1970 to 9999; write it as 2027-01-31T08:00:00Z, or with an offset"
            " such as +01:00."
        )
        raise UsageError(msg) from error


def _time(slot: int, schedule: Schedule, timezone: str | None) -> str:
    key = timezone or (schedule.timezone if isinstance(schedule, Cron) else None)
    return local_time(slot) if key is None else zoned_time(slot, key)


def _row_of(upcoming: Upcoming) -> tuple[str, ...]:
    if upcoming.slot is None:
        return (upcoming.job, upcoming.schedule, "", "", upcoming.note)
    slot = upcoming.slot
    return (upcoming.job, upcoming.schedule, str(slot), utc_time(slot), upcoming.time)


def _json_of(upcoming: Upcoming) -> dict[str, object]:
    return {
        "job": upcoming.job,
        "schedule": upcoming.schedule,
        "slot": upcoming.slot,
        "utc": None
        if upcoming.slot is None
        else datetime_of(upcoming.slot).isoformat(timespec="milliseconds"),
        "local": upcoming.time or None,
        "note": upcoming.note or None,
    }
