"""
Intervals: a grid that everybody counts from 1970.
"""

from __future__ import annotations

import pickle
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anarchon.errors import InvalidDurationError
from anarchon.slots import Every

SLOT_MS_MAX = 253_402_300_799_999


def test_grid_ignores_when_an_instance_started() -> None:
    """
    Two instances that start at different moments agree on the next slot.
    """
    every = Every("10s")

    assert 10_000 == every.next_slot(1_000)
    assert 10_000 == every.next_slot(9_999)


def test_next_is_strictly_later_and_last_may_be_now() -> None:
    """
    A slot is not its own next one, and is its own last one.
    """
    every = Every(10)

    assert 20_000 == every.next_slot(10_000)
    assert 10_000 == every.last_slot(10_000)
    assert 0 == every.last_slot(9_999)


def test_offset_moves_the_whole_grid() -> None:
    """
    Slots are at offset + k intervals, for the very first one too.
    """
    every = Every("1h", offset="5m")

    assert 300_000 == every.next_slot(-1)
    assert 3_900_000 == every.next_slot(300_000)
    assert 300_000 == every.last_slot(3_899_999)
    assert every.last_slot(299_999) is None


@pytest.mark.parametrize(
    ("interval", "offset", "words"),
    [
        ("99ms", 0, "The interval of Every must be at least 100ms"),
        ("0s", 0, "The interval of Every must be at least 100ms"),
        ("no", 0, "The interval of Every must be a duration"),
        ("10s", "-1s", "The offset of Every must be at least 0s"),
        ("10s", "10s", r"The offset of Every must be shorter than its interval \(10s\), not '10s'"),
    ],
)
def test_constructor_refuses(interval: Any, offset: Any, words: str) -> None:
    """
    An interval below 100 ms and an offset outside of one interval are errors at once.
    """
    with pytest.raises(InvalidDurationError, match=words):
        Every(interval, offset=offset)


def test_no_slots_outside_of_the_span() -> None:
    """
    Before 1970 and after 9999 there is nothing, and asking there is no error.
    """
    every = Every("1d")

    assert 0 == every.next_slot(-(10**30))
    assert every.last_slot(-1) is None
    assert every.next_slot(SLOT_MS_MAX) is None
    assert every.next_slot(10**30) is None
    assert SLOT_MS_MAX - 86_399_999 == every.last_slot(10**30)
    assert 2_932_897 == every.count_slots(-(10**30), 10**30)


def test_ends_of_an_interval_do_not_count() -> None:
    """
    A slot on either end is not between them; a millisecond further, it is.
    """
    every = Every("10s", offset="3s")

    assert 1 == every.count_slots(13_000, 33_000)
    assert 2 == every.count_slots(12_999, 33_000)
    assert 2 == every.count_slots(13_000, 33_001)
    assert 0 == every.count_slots(13_000, 23_000)


@given(
    st.integers(100, 10**9),
    st.integers(0, 10**9),
    st.integers(-(10**6), 10**13),
    st.integers(-(10**9), 10**9),
)
def test_count_is_what_asking_gives(
    interval_ms: int, offset_ms: int, after_ms: int, width_ms: int
) -> None:
    """
    Arithmetic counts the open interval, at whatever bounds.
    """
    every = Every(
        timedelta(milliseconds=interval_ms),
        offset=timedelta(milliseconds=offset_ms % interval_ms),
    )
    before_ms = after_ms + width_ms % (20 * interval_ms) - interval_ms
    expected, slot_ms = 0, every.next_slot(after_ms)
    while slot_ms is not None and slot_ms < before_ms:
        expected, slot_ms = expected + 1, every.next_slot(slot_ms)

    assert expected == every.count_slots(after_ms, before_ms)


def test_equal_by_value() -> None:
    """
    How an interval was written does not matter.
    """
    assert Every("90s") == Every("1m30s", offset=0.0)
    assert hash(Every("90s")) == hash(Every(90))
    assert Every("90s") != Every("90s", offset="1s")
    assert Every("90s").fingerprint == Every(90).fingerprint
    assert Every("90s").fingerprint != Every("90s", offset="1s").fingerprint


def test_says_what_it_is() -> None:
    """
    The representation can be pasted, the description read.
    """
    every = Every(5_400, offset=60)

    assert "Every('1h30m', offset='1m')" == repr(every)
    assert "every 1h30m, offset 1m" == every.describe()
    assert "Every('10s')" == repr(Every(10))
    assert "every 10s" == Every(10).describe()
    assert 10_000 == Every(10).shortest_gap_ms


def test_travels_between_processes() -> None:
    """
    A schedule survives pickling, and nothing about it can be changed.
    """
    every = Every("1h", offset="5m")

    assert every == pickle.loads(pickle.dumps(every))
    with pytest.raises(AttributeError):
        every.interval_ms = 1  # type: ignore[misc]  # That this is refused is what the test shows.
