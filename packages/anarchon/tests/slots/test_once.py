"""
One-off schedules.
"""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from anarchon.errors import InvalidScheduleError
from anarchon.slots import Once

BERLIN = ZoneInfo("Europe/Berlin")


def test_has_one_slot() -> None:
    """
    The slot is the next one until it is there, and the last one from then on.
    """
    once = Once(1_793_000_000_123)

    assert 1_793_000_000_123 == once.next_slot(1_793_000_000_122)
    assert once.next_slot(1_793_000_000_123) is None
    assert 1_793_000_000_123 == once.last_slot(1_793_000_000_123)
    assert once.last_slot(1_793_000_000_122) is None
    assert [0, 1, 0] == [
        once.count_slots(at, at + 2) for at in range(1_793_000_000_121, 1_793_000_000_124)
    ]
    assert once.shortest_gap_ms is None


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        (datetime(2027, 1, 1, tzinfo=UTC), 1_798_761_600_000),
        (datetime(2027, 1, 1, 1, tzinfo=timezone(timedelta(hours=1))), 1_798_761_600_000),
        (datetime(2027, 1, 1, 1, tzinfo=BERLIN), 1_798_761_600_000),
        (datetime(2027, 1, 1, 0, 0, 0, 123_999, tzinfo=UTC), 1_798_761_600_123),
        (0, 0),
        (datetime(1970, 1, 1, tzinfo=UTC), 0),
    ],
)
def test_datetime_is_its_instant(at: Any, expected: int) -> None:
    """
    A datetime means an instant, and what it has below a millisecond is dropped.
    """
    assert expected == Once(at).at_ms


@pytest.mark.parametrize("fold", [0, 1])
@pytest.mark.parametrize("after", [0, 1, 7, 1_043_123, 1_800_000, 2_345_678, 3_599_999])
def test_missing_local_time_is_where_the_gap_ends(after: int, fold: int) -> None:
    """
    A local time that the clocks left out means the instant of the change, as in a cron expression.
    """
    at = datetime(2026, 3, 29, 2, fold=fold, tzinfo=BERLIN) + timedelta(milliseconds=after)

    assert 1_774_746_000_000 == Once(at.replace(fold=fold)).at_ms


def test_skipped_day_is_where_the_day_after_begins() -> None:
    """
    A gap of a whole day ends like any other.
    """
    at = datetime(2011, 12, 30, 12, tzinfo=ZoneInfo("Pacific/Apia"))

    assert 1_325_239_200_000 == Once(at).at_ms


def test_repeated_local_time_is_the_first_pass_unless_told() -> None:
    """
    A datetime says by its fold which pass it means.
    """
    first = Once(datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN))
    second = Once(datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=BERLIN))

    assert 1_792_888_200_000 == first.at_ms
    assert 3_600_000 == second.at_ms - first.at_ms


@pytest.mark.parametrize(
    ("at", "words"),
    [
        (datetime(2027, 1, 1), "has no time zone. Write datetime"),  # noqa: DTZ001 - the naive one is the test
        (True, "not True"),
        (1.5, "not 1.5"),
        ("2027-01-01", "not '2027-01-01'"),
        (None, "not None"),
        (-1, "in the years 1970 to 9999"),
        (datetime(1969, 12, 31, tzinfo=UTC), "in the years 1970 to 9999"),
        (253_402_300_800_000, "in the years 1970 to 9999"),
        (datetime.max.replace(tzinfo=timezone(-timedelta(hours=14))), "in the years 1970 to 9999"),
        (datetime.min.replace(tzinfo=BERLIN), "in the years 1970 to 9999"),
        pytest.param(10**5_000, "not a number beyond all bounds", id="int of 5,001 digits"),
        pytest.param("x" * 500, r"xxx\.\.\.", id="long text"),
    ],
)
def test_constructor_refuses(at: Any, words: str) -> None:
    """
    What is no instant, or none that everybody reads alike, is an error at once.
    """
    with pytest.raises(InvalidScheduleError, match=words) as caught:
        Once(at)

    assert len(str(caught.value)) < 300


def test_equal_by_value() -> None:
    """
    How the instant was written does not matter.
    """
    number, date = Once(1_798_761_600_000), Once(datetime(2027, 1, 1, tzinfo=UTC))

    assert number == date == pickle.loads(pickle.dumps(date))
    assert hash(number) == hash(date)
    assert number.fingerprint == date.fingerprint != Once(1).fingerprint


def test_says_what_it_is() -> None:
    """
    The representation can be pasted, the description read.
    """
    once = Once(1_798_761_600_123)

    assert "Once(1798761600123)" == repr(once)
    assert "once at 2027-01-01T00:00:00.123Z" == once.describe()
