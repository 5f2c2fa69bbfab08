"""
Cron schedules as values, and at the edges of time.
"""

from __future__ import annotations

import pickle
import sys
from hashlib import sha256
from typing import Any

import pytest

from anarchon.errors import InvalidScheduleError
from anarchon.slots import Cron, Schedule

SLOT_MS_MAX = 253_402_300_799_999


def test_equal_by_value() -> None:
    """
    Equal texts and zones are equal schedules; blanks do not matter.
    """
    one, other = Cron("0 8 * * *", "Europe/Berlin"), Cron(" 0  8 * * *\t", timezone="Europe/Berlin")

    assert one == other
    assert hash(one) == hash(other)
    assert one != Cron("0 8 * * *")
    assert "UTC" == Cron("0 8 * * *").timezone


def test_says_what_it_is() -> None:
    """
    The representation can be pasted, the description read.
    """
    cron = Cron("0  8 * * *", "Europe/Berlin")

    assert "Cron('0 8 * * *', timezone='Europe/Berlin')" == repr(cron)
    assert "cron '0 8 * * *' Europe/Berlin" == cron.describe()


def test_travels_between_processes() -> None:
    """
    A schedule survives pickling, and nothing about it can be changed.
    """
    cron = Cron("0 8 * * *", "Europe/Berlin")
    copy = pickle.loads(pickle.dumps(cron))

    assert cron == copy
    assert cron.next_slot(0) == copy.next_slot(0)
    with pytest.raises(AttributeError):
        cron.timezone = "UTC"  # type: ignore[misc]  # That this is refused is what the test shows.


def test_ten_thousand_jobs_share_their_sets() -> None:
    """
    What an expression means is kept once, and a schedule itself is small.
    """
    one, other = Cron("0 8 * * *", "Europe/Berlin"), Cron("0 8 * * *", "UTC")

    assert one._pattern is other._pattern
    assert one._zone is Cron("5 5 * * *", "Europe/Berlin")._zone
    assert sys.getsizeof(one) < 100


@pytest.mark.parametrize("expression", [None, 5, b"0 8 * * *", ["0 8 * * *"]])
def test_expression_must_be_text(expression: Any) -> None:
    """
    What is no text is refused in words, not by a TypeError from deep inside.
    """
    with pytest.raises(InvalidScheduleError, match="must be a text such as '0 8"):
        Cron(expression)


@pytest.mark.parametrize("timezone", [None, 5, ["UTC"], "x" * 500])
def test_timezone_must_be_a_key(timezone: Any) -> None:
    """
    What is no key is refused in words that stay readable.
    """
    with pytest.raises(
        InvalidScheduleError, match="time zone must be the key of a place"
    ) as caught:
        Cron("0 8 * * *", timezone)

    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    "zone", ["UTC", "Pacific/Kiritimati", "Pacific/Pago_Pago", "Europe/Berlin"]
)
@pytest.mark.parametrize("expression", ["* * * * *", "0 8 * * *", "59 23 31 12 *", "0 0 29 2 *"])
def test_no_slots_outside_of_the_span(expression: str, zone: str) -> None:
    """
    Before 1970 and after 9999 there is nothing, and asking there is no error.
    """
    cron = Cron(expression, zone)
    first, last = cron.next_slot(-(10**30)), cron.last_slot(10**30)

    assert first is not None
    assert last is not None
    assert 0 <= first < last <= SLOT_MS_MAX
    assert cron.last_slot(first - 1) is None
    assert cron.last_slot(-1) is None
    assert cron.next_slot(last) is None
    assert cron.next_slot(10**30) is None
    assert first == cron.next_slot(-1)
    assert last == cron.last_slot(SLOT_MS_MAX)
    assert 2 == cron.count_slots(first - 1, cron_second(cron, first) + 1)
    assert 1 == cron.count_slots(last - 1, 10**30)


@pytest.mark.parametrize("hours", ["*", "8"])
def test_nothing_is_found_where_nothing_is(hours: str) -> None:
    """
    Before the first slot there is no last one, and an empty interval has no slots.
    """
    cron = Cron(f"0 {hours} 29 2 *")

    assert cron.last_slot(86_400_000) is None
    assert 0 == cron.count_slots(5_000, 5_000)
    assert 0 == cron.count_slots(5_000, 4_000)


def cron_second(cron: Cron, first: int) -> int:
    """
    Return the slot after the first one.
    """
    second = cron.next_slot(first)
    assert second is not None
    return second


def test_rare_date_is_found_at_once() -> None:
    """
    Five Mondays in February come every 28 years, or after 40 where a century lies between.
    """
    cron = Cron("0 0 * 2 1#5", "Europe/Berlin")
    slots = [slot for slot in [cron.next_slot(0)] if slot is not None]
    while len(slots) < 6:
        slots.append(cron_second(cron, slots[-1]))
    years = [1970 + slot // 31_556_952_000 for slot in slots]

    assert [1988, 2016, 2044, 2072, 2112, 2140] == years


def test_fingerprint_is_of_the_sets_and_the_key() -> None:
    """
    Two ways to write one set are one definition; another set or another zone is another.
    """
    digest = Cron("0 0-23 * * 1-5", "Europe/Berlin").fingerprint

    assert digest == Cron("0 * * * mon-fri", "Europe/Berlin").fingerprint
    assert digest == Cron("0 0 */1 ? * 1,2,3,4,5", "Europe/Berlin").fingerprint
    assert digest != Cron("0 * * * mon-fri", "Europe/Vienna").fingerprint
    assert digest != Cron("0 * * * mon-sat", "Europe/Berlin").fingerprint
    assert digest != Cron("1 * * * mon-fri", "Europe/Berlin").fingerprint


def test_fingerprint_stays() -> None:
    """
    The digest is in people's stores: another value means that the rules have a new version.
    """
    months = "1,2,3,4,5,6,7,8,9,10,11,12"
    days = f"{months},13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31"
    text = (
        f'{{"hours":[8],"kind":"cron","last_day":false,"minutes":[0],"month_days":[{days}],"months":[{months}],'
        '"nth":[[5,2]],"rules":1,"seconds":[0],"timezone":"Europe/Berlin","weekdays":[]}'
    )

    assert sha256(text.encode()).hexdigest() == Cron("0 8 * * fri#2", "Europe/Berlin").fingerprint


@pytest.mark.parametrize(
    ("expression", "gap_s"),
    [
        ("* * * * * *", 1),
        ("*/10 * * * * *", 10),
        ("0,7 * * * * *", 7),
        ("5,55 * * * * *", 10),
        ("* * * * *", 60),
        ("*/7 * * * *", 4 * 60),
        ("30,50 59 * * * *", 20),
        ("0,59 0 * * *", 59 * 60),
        ("0 22,23,0 * * *", 3600),
        ("0 0,23 * * *", 3600),
        ("0 0,23 * * 1", 23 * 3600),
        ("0 8 * * *", 86_400),
        ("0 8 * * 1-5", 86_400),
        ("0 8 * * 1", 7 * 86_400),
        ("0 8 * * 1,3", 2 * 86_400),
        ("0 8 1 * *", 28 * 86_400),
        ("0 8 1,L * *", 86_400),
        ("0 8 1 1 *", 365 * 86_400),
        ("0 8 31 * *", 31 * 86_400),
        ("0 8 29 2 *", 1_461 * 86_400),
        ("0 8 * 2 1#5", 4_382 * 86_400),
        ("0 8 * * 1#1", 28 * 86_400),
        ("0 8 * * L5", 28 * 86_400),
        ("0 8 13 * 5", 86_400),
    ],
)
def test_shortest_gap_comes_from_the_sets(expression: str, gap_s: int) -> None:
    """
    The smallest distance of two slots is known without listing them.
    """
    assert gap_s * 1000 == Cron(expression, "Europe/Berlin").shortest_gap_ms


def test_schedules_are_schedules() -> None:
    """
    The type checker and a run-time check agree about the protocol.
    """
    schedule: Schedule = Cron("0 8 * * *")

    assert isinstance(schedule, Schedule)
