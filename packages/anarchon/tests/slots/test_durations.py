"""
Durations: read exactly or refused in words.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anarchon.durations import DURATION_MS_MAX, duration_ms, format_ms
from anarchon.errors import InvalidDurationError


@pytest.mark.parametrize(
    ("value", "expected_ms"),
    [
        ("250ms", 250),
        ("10s", 10_000),
        ("5m", 300_000),
        ("2h", 7_200_000),
        ("1d", 86_400_000),
        ("1w", 604_800_000),
        ("1h30m", 5_400_000),
        ("1w2d3h4m5s6ms", 788_645_006),
        ("1.5h", 5_400_000),
        ("0.25s", 250),
        ("1.005s", 1_005),
        ("0.001s", 1),
        (" 10s ", 10_000),
        ("010s", 10_000),
        ("1.000000000000000000000000000000s", 1_000),
        (10, 10_000),
        (0.1, 100),
        (1.005, 1_005),
        (1e-3, 1),
        (timedelta(days=1, milliseconds=1), 86_400_001),
        (timedelta(days=36_525), DURATION_MS_MAX),
        ("36525d", DURATION_MS_MAX),
    ],
)
def test_duration_is_read_exactly(value: Any, expected_ms: int) -> None:
    """
    No form loses a millisecond to binary fractions.
    """
    assert expected_ms == duration_ms(value, what="The lease")


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("", "must be a duration"),
        ("-", "must be a duration"),
        ("10", "must be a duration"),
        ("s", "must be a duration"),
        ("1y", "must be a duration"),
        ("1e3s", "must be a duration"),
        ("1.s", "must be a duration"),
        (".5s", "must be a duration"),
        ("1m1h", "must be a duration"),
        ("1s1s", "must be a duration"),
        ("1h 30m", "must be a duration"),
        ("٣s", "must be a duration"),
        ("9" * 70 + "s", "must be a duration"),
        (None, "must be a duration"),
        (True, "must be a duration"),
        ([10], "must be a duration"),
        ("1.0005s", "must be a whole number of milliseconds"),
        ("0.5ms", "must be a whole number of milliseconds"),
        ("0.0000000000000000000000000000000000001w", "must be a whole number of milliseconds"),
        (0.0005, "must be a whole number of milliseconds"),
        (timedelta(microseconds=1_500), "must be a whole number of milliseconds"),
        (float("nan"), "must be a finite duration"),
        (float("inf"), "must be a finite duration"),
        ("0s", "must be at least 1ms"),
        ("-5s", "must be at least 1ms"),
        (0, "must be at least 1ms"),
        (-1.5, "must be at least 1ms"),
        (-timedelta(milliseconds=1), "must be at least 1ms"),
        ("36525d1ms", "must be at most a hundred years"),
        (1e300, "must be at most a hundred years"),
        pytest.param(10**5_000, "must be at most a hundred years", id="int of 5,001 digits"),
        (timedelta.max, "must be a whole number of milliseconds"),
    ],
)
def test_what_is_no_duration_is_refused(value: Any, reason: str) -> None:
    """
    The message names what the duration is for, the reason, and the forms that are allowed.
    """
    with pytest.raises(InvalidDurationError) as caught:
        duration_ms(value, what="The lease")

    message = str(caught.value)
    assert message.startswith(f"The lease {reason}")
    assert "'1h30m'" in message
    assert len(message) < 400


def test_refused_value_is_shown() -> None:
    """
    Who reads the log sees what was written.
    """
    with pytest.raises(InvalidDurationError, match="not '10 sec ago'"):
        duration_ms("10 sec ago", what="The lease")
    with pytest.raises(InvalidDurationError, match="not 0"):
        duration_ms(0, what="The lease")


@pytest.mark.parametrize("value", [0, 0.0, "0s", "0ms", timedelta()])
def test_zero_is_allowed_where_it_means_something(value: Any) -> None:
    """
    A jitter or an offset may be nothing.
    """
    assert 0 == duration_ms(value, what="The jitter", minimum_ms=0)


def test_minimum_is_named() -> None:
    """
    Too short is not just refused: the message says what is long enough.
    """
    with pytest.raises(InvalidDurationError, match="The lease must be at least 1m30s, not '1m'"):
        duration_ms("1m", what="The lease", minimum_ms=90_000)


@pytest.mark.parametrize(
    ("given_ms", "expected"),
    [
        (0, "0s"),
        (1, "1ms"),
        (250, "250ms"),
        (1_500, "1s500ms"),
        (10_000, "10s"),
        (5_400_000, "1h30m"),
        (604_800_000, "1w"),
        (-90_000, "-1m30s"),
    ],
)
def test_duration_is_written_as_a_user_would(given_ms: int, expected: str) -> None:
    """
    The largest units come first, and none is empty.
    """
    assert expected == format_ms(given_ms)


@given(st.integers(0, DURATION_MS_MAX))
def test_written_duration_reads_back(given_ms: int) -> None:
    """
    What is shown can be copied into a definition.
    """
    assert given_ms == duration_ms(format_ms(given_ms), what="It", minimum_ms=0)


@given(st.integers(1, 10**9), st.integers(0, 3))
def test_seconds_as_float_and_as_text_are_equal(number: int, places: int) -> None:
    """
    A number of seconds means its shortest decimal form.
    """
    text = f"{number / 10**places:.{places}f}"

    assert duration_ms(f"{text}s", what="It") == duration_ms(float(text), what="It")
