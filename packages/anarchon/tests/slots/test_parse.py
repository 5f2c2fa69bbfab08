"""
The parser behind the gate: its expansions are pinned, so that another version cannot change a slot unseen.
"""

from __future__ import annotations

import pytest

from anarchon.errors import InvalidScheduleError
from anarchon.slots.bits import values_of
from anarchon.slots.parse import expanded, parse

SIXTY = list(range(60))
HOURS = list(range(24))
DAYS = list(range(1, 32))
MONTHS = list(range(1, 13))
WEEK = list(range(7))


@pytest.mark.parametrize(
    ("expression", "sets"),
    [
        ("* * * * *", [[0], SIXTY, HOURS, DAYS, MONTHS, WEEK]),
        ("* * * * * *", [SIXTY, SIXTY, HOURS, DAYS, MONTHS, WEEK]),
        ("5 4 3 2 1", [[0], [5], [4], [3], [2], [1]]),
        ("6 5 4 3 2 1", [[6], [5], [4], [3], [2], [1]]),
        (
            "*/20 */7 */10 */5 */3",
            [[0], [0, 20, 40], [0, 7, 14, 21], [1, 11, 21, 31], [1, 6, 11], [0, 3, 6]],
        ),
        ("59/15 23/5 31/2 dec/3 6/2", [[0], [59], [23], [31], [12], [6]]),
        (
            "5/15 5/6 5/9 5/4 3/2",
            [[0], [5, 20, 35, 50], [5, 11, 17, 23], [5, 14, 23], [5, 9], [3, 5]],
        ),
        (
            "50-59/20 9-17/4 1-3 jan-mar mon-fri",
            [[0], [50], [9, 13, 17], [1, 2, 3], [1, 2, 3], [1, 2, 3, 4, 5]],
        ),
        ("0-59 0-23 1-31 1-12 0-6", [[0], SIXTY, HOURS, DAYS, MONTHS, WEEK]),
        ("0 0 * * 1-7", [[0], [0], [0], DAYS, MONTHS, WEEK]),
        ("0 0 * * 0-7", [[0], [0], [0], DAYS, MONTHS, WEEK]),
        ("0 0 * * 5-7", [[0], [0], [0], DAYS, MONTHS, [0, 5, 6]]),
        ("0 0 * * 3-7/2", [[0], [0], [0], DAYS, MONTHS, [0, 3, 5]]),
        ("0 0 * * 7", [[0], [0], [0], DAYS, MONTHS, [0]]),
        ("0 0 * * 0,7", [[0], [0], [0], DAYS, MONTHS, [0]]),
        ("*/60 */24 */31 */12 */7", [[0], [0], [0], [1], [1], [0]]),
        ("*,5 1,1 1,L * *", [[0], SIXTY, [1], [1], MONTHS, WEEK]),
        ("0 0 ? jan,JUL SUN", [[0], [0], [0], DAYS, [1, 7], [0]]),
    ],
)
def test_expansions(expression: str, sets: list[list[int]]) -> None:
    """
    Each field becomes the set that the specification says: second, minute, hour, day, month, weekday.
    """
    pattern = parse(expression)
    days = pattern.days
    masks = (
        pattern.seconds,
        pattern.minutes,
        pattern.hours,
        days.month_days,
        days.months,
        days.weekdays,
    )

    assert sets == [values_of(mask) for mask in masks]
    assert () == days.nth


@pytest.mark.parametrize(
    ("field", "nth"),
    [
        ("fri#2", ((5, 2),)),
        ("7#1", ((0, 1),)),
        ("1#3,1#1", ((1, 1), (1, 3))),
        ("L5", ((5, 6),)),
        ("L7,mon#2", ((0, 6), (1, 2))),
    ],
)
def test_weekdays_of_the_month(field: str, nth: tuple[tuple[int, int], ...]) -> None:
    """
    A weekday that is picked by its number in the month is not a plain weekday besides.
    """
    days = parse(f"0 0 * * {field}").days

    assert nth == days.nth
    assert 0 == days.weekdays


@pytest.mark.parametrize(
    ("field", "last_day"), [("L", True), ("1,L", True), ("1", False), ("*", False), ("*,L", False)]
)
def test_last_day_of_the_month(field: str, last_day: bool) -> None:  # noqa: FBT001 - a row of the table
    """
    Every day includes the last one, which then is not named besides.
    """
    assert last_day == parse(f"0 0 {field} * *").days.last_day


def test_what_passes_the_gate_by_mistake_is_still_refused() -> None:
    """
    The parser's own refusals, and what these rules do not have, end in the same error.
    """
    with pytest.raises(InvalidScheduleError, match="cannot be read"):
        expanded("0 0 * * 99")
    with pytest.raises(InvalidScheduleError, match="nearest weekday, which is not offered"):
        expanded("0 0 15W * *")


@pytest.mark.parametrize(
    "expression", ["0 0 31 2,4,6,9,11 *", "0 0 30 2 *", "0 0 30-31 feb ?", "1 0 0 31 4 0-6"]
)
def test_impossible_date_is_refused(expression: str) -> None:
    """
    A job that can never run is an error when it is defined, not a silence.
    """
    with pytest.raises(InvalidScheduleError, match="can never fire"):
        parse(expression)


@pytest.mark.parametrize(
    "expression", ["0 0 29 2 *", "0 0 30,31 4 *", "0 0 31 2 1", "0 0 31,L 2 *", "0 0 * 2 1#5"]
)
def test_rare_date_is_allowed(expression: str) -> None:
    """
    Rare is not impossible.
    """
    assert parse(expression).days.first(730_000) is not None
