"""
Slots against brute force: every instant around a change of the clocks, mapped by the standard library alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from anarchon.slots import Cron

Matches = Callable[[datetime], bool]

# A zone, and a UTC day in whose neighbourhood its clocks change, or do not.
PLACES = [
    ("UTC", "2026-03-29"),
    ("America/New_York", "2026-03-08"),
    ("America/New_York", "2026-11-01"),
    ("Europe/Berlin", "2026-03-29"),
    ("Europe/Berlin", "2026-10-25"),
    ("Australia/Lord_Howe", "2026-04-04"),
    ("Australia/Lord_Howe", "2026-10-03"),
    ("Pacific/Apia", "2011-12-30"),
    ("Pacific/Kwajalein", "1993-08-21"),
    ("Africa/Casablanca", "2024-03-10"),
    ("Africa/Casablanca", "2024-04-14"),
    ("Antarctica/Troll", "2026-03-29"),
    ("Antarctica/Troll", "2026-10-25"),
    ("America/Sao_Paulo", "2018-02-18"),
    ("America/Sao_Paulo", "2018-11-04"),
    ("Asia/Pyongyang", "2015-08-14"),
    ("Asia/Pyongyang", "2018-05-04"),
    ("America/Caracas", "2007-12-09"),
    ("Asia/Kathmandu", "1985-12-31"),
    ("America/St_Johns", "2010-04-03"),
    ("America/St_Johns", "2010-11-07"),
]

# An expression, whether its hours cover the whole day, and what it means.
MEANINGS: list[tuple[str, bool, Matches]] = [
    ("* * * * *", True, lambda wall: True),
    ("*/20 * * * *", True, lambda wall: wall.minute % 20 == 0),
    ("7 0-23 * * *", True, lambda wall: wall.minute == 7),
    (
        "*/5 * 30 12 *",
        True,
        lambda wall: wall.minute % 5 == 0 and (wall.month, wall.day) == (12, 30),
    ),
    ("*/5 * * * sat", True, lambda wall: wall.minute % 5 == 0 and wall.weekday() == 5),
    ("0 * 7 11 *", True, lambda wall: (wall.minute, wall.day, wall.month) == (0, 7, 11)),
    ("59 * 6 11 *", True, lambda wall: (wall.minute, wall.day, wall.month) == (59, 6, 11)),
    ("0 0 * * *", False, lambda wall: (wall.hour, wall.minute) == (0, 0)),
    ("30 2 * * *", False, lambda wall: (wall.hour, wall.minute) == (2, 30)),
    ("30 1 * * *", False, lambda wall: (wall.hour, wall.minute) == (1, 30)),
    ("*/15 1-3 * * *", False, lambda wall: wall.hour in {1, 2, 3} and wall.minute % 15 == 0),
    ("* 1-23 * * *", False, lambda wall: wall.hour > 0),
    ("59 */2 * * *", False, lambda wall: wall.hour % 2 == 0 and wall.minute == 59),
    (
        "0,59 0,23 * * 0",
        False,
        lambda wall: wall.isoweekday() == 7 and wall.hour in {0, 23} and wall.minute in {0, 59},
    ),
    (
        "0 3 30 * 6",
        False,
        lambda wall: (wall.hour, wall.minute) == (3, 0) and (wall.day == 30 or wall.weekday() == 5),
    ),
]

MINUTE = timedelta(minutes=1)


def shown_minutes(
    rules: ZoneInfo, start: datetime, end: datetime
) -> Iterator[tuple[int, datetime]]:
    """
    Give each minute of a window with what the local clock shows.
    """
    while start < end:
        yield int(start.timestamp()) * 1000, start.astimezone(rules).replace(tzinfo=None)
        start += MINUTE


def slots_by_brute_force(
    rules: ZoneInfo, start: datetime, end: datetime, *, real: bool, matches: Matches
) -> list[int]:
    """
    Apply the two rules of specs/slots.md to every minute.
    """
    slots: list[int] = []
    unreached: datetime | None = None
    for instant_ms, wall in shown_minutes(rules, start, end):
        if real:
            if matches(wall):
                slots.append(instant_ms)
            continue
        unreached = wall if unreached is None else unreached
        passed = False
        while unreached <= wall:
            passed = matches(unreached) or passed
            unreached += MINUTE
        if passed:
            slots.append(instant_ms)
    return slots


@pytest.mark.parametrize(("key", "day"), PLACES)
def test_slots_are_those_of_brute_force(
    key: str, day: str, rules_of: Callable[[str], ZoneInfo]
) -> None:
    """
    Forwards, backwards and counted, the slots around a change are exactly those of the rules.
    """
    rules = rules_of(key)
    middle = datetime.fromisoformat(day).replace(tzinfo=UTC)
    start, end = middle - timedelta(days=1), middle + timedelta(days=2)
    start_ms, end_ms = int(start.timestamp()) * 1000, int(end.timestamp()) * 1000
    for expression, real, matches in MEANINGS:
        # The scan begins two days early, so that it knows what the clocks had shown before.
        found = slots_by_brute_force(
            rules, start - timedelta(days=2), end, real=real, matches=matches
        )
        expected = [slot for slot in found if slot >= start_ms]
        cron = Cron(expression, key)
        forwards: list[int] = []
        at_ms = start_ms - 1
        while (slot := cron.next_slot(at_ms)) is not None and slot < end_ms:
            forwards.append(slot)
            at_ms = slot
        backwards: list[int] = []
        at_ms = end_ms - 1
        while (slot := cron.last_slot(at_ms)) is not None and slot >= start_ms:
            backwards.append(slot)
            at_ms = slot - 1

        assert expected == forwards, expression
        assert expected == backwards[::-1], expression
        assert len(expected) == cron.count_slots(start_ms - 1, end_ms), expression
        for rest, slot in enumerate(expected[-50:][::-1]):
            assert rest + 1 == cron.count_slots(slot - 1, end_ms), expression
            assert rest == cron.count_slots(slot, end_ms), expression
