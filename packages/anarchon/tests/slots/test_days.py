"""
Dates, sets and times of day against plain enumeration.
"""

from __future__ import annotations

from datetime import date, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anarchon.slots import bits
from anarchon.slots.parse import parse
from anarchon.slots.pattern import Pattern

DAY_FIELDS = [
    "* * *",
    "1 * *",
    "31 * *",
    "*/10 * *",
    "L * *",
    "L 2 *",
    "1,L 2,3 *",
    "29 2 *",
    "* * 0",
    "* * 1-5",
    "13 * 5",
    "L * 1",
    "* 2,11 3",
    "* * 1#1",
    "* * 0#5,3#2",
    "* * L6",
    "15 6 L1",
    "* 12 *",
]


def named(fields: str, day: date) -> bool:
    """
    Say whether a date is meant, by the words of the specification.
    """
    month_days, months, weekdays = fields.split()
    last = (day + timedelta(days=1)).month != day.month
    number, nth = day.isoweekday() % 7, (day.day - 1) // 7 + 1
    last_of_kind = (day + timedelta(days=7)).month != day.month
    by_weekday = number in members(weekdays, 0, 6) or f"{number}#{nth}" in weekdays.split(",")
    by_weekday = by_weekday or (last_of_kind and f"L{number}" in weekdays.split(","))
    by_date = day.day in members(month_days, 1, 31) or (last and "L" in month_days)
    either = month_days != "*" and weekdays != "*"
    return day.month in members(months, 1, 12) and (
        by_date or by_weekday if either else by_date and by_weekday
    )


def members(field: str, low: int, high: int) -> set[int]:
    """
    Read the few forms of fields that are used here.
    """
    found: set[int] = set()
    for term in field.split(","):
        body, _, step = term.partition("/")
        first, _, last = body.partition("-")
        if body == "*":
            found |= set(range(low, high + 1, int(step or 1)))
        elif first.isdigit():
            found |= set(range(int(first), int(last or first) + 1))
    return found


@pytest.mark.parametrize("fields", DAY_FIELDS)
def test_days_are_those_of_the_calendar(fields: str) -> None:
    """
    Forwards, backwards, one by one and counted, the days of nine years are those that the fields name.
    """
    days = parse(f"0 0 {fields}").days
    start, end = date(2023, 6, 15).toordinal(), date(2032, 6, 15).toordinal()
    expected = [day for day in range(start, end) if named(fields, date.fromordinal(day))]
    forwards, backwards = [], []
    day = days.first(start)
    while day is not None and day < end:
        forwards.append(day)
        day = days.first(day + 1)
    day = days.last(end - 1)
    while day is not None and day >= start:
        backwards.append(day)
        day = days.last(day - 1)

    assert expected == forwards
    assert expected == backwards[::-1]
    assert expected == [day for day in range(start, end) if days.matches(day)]
    for first in range(start, start + 70):
        assert sum(first <= day < end for day in expected) == days.count(first, end)
        assert sum(start <= day < first for day in expected) == days.count(start, first)


@pytest.mark.parametrize("fields", DAY_FIELDS)
def test_shortest_gap_of_days_is_kept_and_met(fields: str) -> None:
    """
    Over four hundred years, the smallest distance of two days is the one that was computed.
    """
    days = parse(f"0 0 {fields}").days
    start = date(1990, 1, 1).toordinal()
    found: list[int] = []
    day = days.first(start)
    while day is not None and day < start + 401 * 366 and len(found) < 6_000:
        found.append(day)
        day = days.first(day + 1)

    assert min(later - earlier for earlier, later in pairwise(found)) == days.shortest_gap()


def test_days_end_with_the_dates() -> None:
    """
    Beyond the last date there is nothing to find, count or match.
    """
    last = date.max.toordinal()
    for fields in ("* * *", "* * 0-5", "29 2 *"):
        days = parse(f"0 0 {fields}").days

        assert days.first(last + 1) is None
        assert not days.matches(last + 1)
        assert days.count(last - 1_500, last + 1) == days.count(last - 1_500, last + 10)
        assert days.last(last) == days.last(last + 10)
        assert days.last(date(1960, 1, 1).toordinal()) is None
    assert parse("0 0 29 2 *").days.first(last - 30) is None
    assert parse("0 0 29 2 *").days.last(date(1970, 3, 1).toordinal()) is None
    assert 0 == parse("0 0 29 2 *").days.count(last, last)


@given(
    st.sampled_from(["*/7 * * * *", "5,50 1-3,23 * * *", "*/25 3-9 2 * * *", "0 0 0 * * *"]),
    st.data(),
)
def test_times_of_a_day_are_those_of_the_fields(expression: str, data: st.DataObject) -> None:
    """
    From any second of a day, the first, the last and the number of times are those of a list.
    """
    pattern = parse(expression)
    listed = times_of(pattern)
    reading = data.draw(st.integers(-1, 86_401))
    end = data.draw(st.integers(reading, 86_401))

    assert min((time for time in listed if time >= reading), default=None) == pattern.first(reading)
    assert max((time for time in listed if time <= reading), default=None) == pattern.last(reading)
    assert sum(reading <= time < end for time in listed) == pattern.count(reading, end)


def times_of(pattern: Pattern) -> list[int]:
    """
    List the matching readings of four days around 1970-01-01.
    """
    return [
        day * 86_400 + hour * 3_600 + minute * 60 + second
        for day in (-1, 0, 1, 2)
        for hour in bits.values_of(pattern.hours)
        for minute in bits.values_of(pattern.minutes)
        for second in bits.values_of(pattern.seconds)
    ]


@given(st.sets(st.integers(0, 60)))
def test_sets_as_masks(values: set[int]) -> None:
    """
    A mask holds what was put in, and knows its ends and its closest two values.
    """
    mask = bits.mask_of(values)
    gaps = [later - earlier for earlier, later in pairwise(sorted(values))]

    assert sorted(values) == bits.values_of(mask)
    assert max(values, default=-1) == bits.highest(mask)
    assert min(gaps, default=None) == bits.closest(mask)
    if values:
        assert min(values) == bits.lowest(mask)
