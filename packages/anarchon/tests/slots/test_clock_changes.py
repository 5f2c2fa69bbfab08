"""
What a user sees where the clocks change: each test is a complaint about some scheduler, turned into a promise.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from anarchon.slots import Cron

MsOf = Callable[[str], int]


def slots_between(cron: Cron, start_ms: int, end_ms: int) -> list[str]:
    """
    List the slots in [start, end) as UTC times.
    """
    slots, slot_ms = [], cron.next_slot(start_ms - 1)
    while slot_ms is not None and slot_ms < end_ms:
        slots.append(datetime.fromtimestamp(slot_ms / 1000, UTC).strftime("%d %H:%M"))
        slot_ms = cron.next_slot(slot_ms)
    return slots


def test_midnight_gap_keeps_the_day(ms_of: MsOf) -> None:
    """
    Where midnight does not exist, a midnight job runs when the day begins, and every day once.
    """
    cron = Cron("0 0 * * *", "America/Sao_Paulo")
    slots = slots_between(cron, ms_of("2018-11-02T12:00-03:00"), ms_of("2018-11-06T12:00-02:00"))

    assert ["03 03:00", "04 03:00", "05 02:00", "06 02:00"] == slots


def test_daily_job_in_the_gap_runs_when_the_gap_ends(ms_of: MsOf) -> None:
    """
    A time that the clocks leave out is not a day without a run, nor one that is run an hour late.
    """
    cron = Cron("30 2 * * *", "Europe/Berlin")
    slots = slots_between(cron, ms_of("2026-03-28T00:00+01:00"), ms_of("2026-03-31T00:00+02:00"))

    assert ["28 01:30", "29 01:00", "30 00:30"] == slots


def test_daily_job_in_the_fold_runs_once(ms_of: MsOf) -> None:
    """
    A time that the clocks show twice is one slot, the first, whoever asks from between the two.
    """
    cron = Cron("30 2 * * *", "Europe/Berlin")
    slots = slots_between(cron, ms_of("2026-10-25T00:00+02:00"), ms_of("2026-10-26T00:00+01:00"))
    between = ms_of("2026-10-25T02:10+01:00")

    assert ["25 00:30"] == slots
    assert ms_of("2026-10-26T02:30+01:00") == cron.next_slot(between)
    assert ms_of("2026-10-25T02:30+02:00") == cron.last_slot(between)


@pytest.mark.parametrize(
    ("day", "next_day", "hours"),
    [
        ("2026-10-25T00:00+02:00", "2026-10-26T00:00+01:00", 25),
        ("2026-03-29T00:00+01:00", "2026-03-30T00:00+02:00", 23),
        ("2026-06-01T00:00+02:00", "2026-06-02T00:00+02:00", 24),
    ],
)
def test_hourly_job_follows_the_real_hours(
    day: str, next_day: str, hours: int, ms_of: MsOf
) -> None:
    """
    An hourly job runs 25 times on the long day and 23 times on the short one.
    """
    cron = Cron("0 * * * *", "Europe/Berlin")

    assert hours == len(slots_between(cron, ms_of(day), ms_of(next_day)))
    assert hours == cron.count_slots(ms_of(day) - 1, ms_of(next_day))


def test_minutely_job_neither_bursts_nor_falls_silent(ms_of: MsOf) -> None:
    """
    Through both changes of a year, a minutely job has its slots a minute apart.
    """
    cron = Cron("* * * * *", "America/New_York")
    for start in ("2026-03-08T00:00-05:00", "2026-11-01T00:00-04:00"):
        slot_ms: int | None = ms_of(start)
        for step in range(1, 300):
            slot_ms = cron.next_slot(slot_ms or 0)

            assert ms_of(start) + step * 60_000 == slot_ms


def test_seconds_field_keeps_no_seconds_through_the_gap(ms_of: MsOf) -> None:
    """
    A slot from the gap is at its end, to the second, also for an instance that starts right after it.
    """
    cron = Cron("15 30 2 * * *", "America/New_York")
    gap_end = ms_of("2026-03-08T03:00-04:00")

    assert gap_end == cron.next_slot(gap_end - 1)
    assert gap_end == cron.last_slot(gap_end + 5_000)
    assert ms_of("2026-03-09T02:30:15-04:00") == cron.next_slot(gap_end)


def test_half_hour_fold_does_not_depend_on_the_start(ms_of: MsOf) -> None:
    """
    A shift that is no multiple of the step gives the same slots to all instances.
    """
    cron = Cron("*/20 * * * *", "Australia/Lord_Howe")
    fold = ms_of("2026-04-05T02:00+11:00")
    slots = {
        cron.next_slot(start) for start in range(ms_of("2026-04-05T01:40+11:00"), fold, 60_000)
    }

    assert {ms_of("2026-04-05T01:40+10:30")} == slots


def test_day_that_begins_twice_is_not_skipped(ms_of: MsOf) -> None:
    """
    Where the clocks go back over midnight, a rare hourly job has its slots on both sides, from wherever it is asked.
    """
    evening = Cron("59 * 6 11 *", "America/St_Johns")
    morning = Cron("0 * 7 11 *", "America/St_Johns")
    first_midnight, change = ms_of("2010-11-07T00:00-02:30"), ms_of("2010-11-07T00:01-02:30")

    assert ms_of("2010-11-06T23:59-02:30") == evening.last_slot(first_midnight)
    assert ms_of("2010-11-06T23:59-03:30") == evening.next_slot(first_midnight)
    assert first_midnight == morning.last_slot(change + 1_000)
    assert ms_of("2010-11-07T00:00-03:30") == morning.next_slot(change + 1_000)


def test_search_never_leaves_the_month_that_was_asked_for(ms_of: MsOf) -> None:
    """
    A job of one month does not run in another one because the clocks change in between.
    """
    cron = Cron("0 0 1 * *", "Europe/Berlin")
    zone = ZoneInfo("Europe/Berlin")
    slot_ms = cron.next_slot(ms_of("2020-01-01T00:00+00:00"))
    for _ in range(120):
        assert slot_ms is not None
        local = datetime.fromtimestamp(slot_ms / 1000, zone)

        assert (1, 0, 0) == (local.day, local.hour, local.minute)
        following = cron.next_slot(slot_ms)
        assert following is not None
        assert 28 <= (following - slot_ms) / 86_400_000 <= 31.1
        slot_ms = following


def test_order_of_close_slots_is_kept(ms_of: MsOf) -> None:
    """
    Slots that a gap pushes together become one, and none overtakes another.
    """
    cron = Cron("0,15,30,45 0-4 * * *", "Antarctica/Troll")
    slots = slots_between(cron, ms_of("2026-03-29T00:45+00:00"), ms_of("2026-03-29T02:00+00:00"))

    assert ["29 00:45", "29 01:00", "29 01:15", "29 01:30", "29 01:45"] == slots


@pytest.mark.parametrize("weekday", ["0", "7", "sun", "SUN"])
def test_sunday_has_two_numbers(weekday: str) -> None:
    """
    0 and 7 are Sunday, as in crontab, never Monday.
    """
    slot_ms = Cron(f"0 3 * * {weekday}").next_slot(1_795_824_000_000)

    assert slot_ms is not None
    assert "Sunday" == datetime.fromtimestamp(slot_ms / 1000, UTC).strftime("%A")


def test_restricted_days_are_joined_by_or() -> None:
    """
    The 13th and every Friday, not only a Friday the 13th.
    """
    cron = Cron("0 4 13 * 5")
    slots = slots_between(cron, 1_793_491_200_000, 1_793_491_200_000 + 30 * 86_400_000)

    assert ["06 04:00", "13 04:00", "20 04:00", "27 04:00"] == slots


def test_six_fields_begin_with_the_second() -> None:
    """
    The finest field comes first, so that adding seconds moves the others.
    """
    assert 10_000 == Cron("*/10 * * * * *").next_slot(0)
    assert 10_000 == Cron("*/10 * * * * *").shortest_gap_ms


def test_job_two_years_ahead_costs_one_answer(ms_of: MsOf) -> None:
    """
    A year of minutes is counted, not listed.
    """
    cron = Cron("* * * * *", "Europe/Berlin")
    start, end = ms_of("2026-01-01T00:00+01:00"), ms_of("2027-01-01T00:00+01:00")

    assert 365 * 24 * 60 == cron.count_slots(start - 1, end)
