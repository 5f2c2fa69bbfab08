"""
Properties of cron slots over all zones, for any expression and any instant.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import datetime
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import assume, given, reject
from hypothesis import strategies as st

from anarchon.errors import InvalidScheduleError
from anarchon.slots import Cron, search
from anarchon.slots.parse import parse
from anarchon.slots.pattern import Pattern
from anarchon.slots.segments import Zone
from anarchon.slots.zones import zone, zone_keys

KEYS = sorted(zone_keys())
YEAR_MS = 31_556_952_000
INSTANTS = st.integers(0, 80 * YEAR_MS)


def fields(low: int, high: int) -> st.SearchStrategy[str]:
    """
    Draw what may stand in one field.
    """
    values = st.integers(low, high)
    ranges = (
        st.tuples(values, values)
        .filter(lambda pair: pair[0] < pair[1])
        .map(lambda pair: f"{pair[0]}-{pair[1]}")
    )
    return st.one_of(
        st.just("*"),
        values.map(str),
        st.integers(2, 7).map(lambda step: f"*/{step}"),
        ranges,
        st.lists(values, min_size=1, max_size=4).map(lambda listed: ",".join(map(str, listed))),
    )


WEEKDAYS = st.one_of(
    st.just("*"), st.just("*"), fields(0, 6), st.sampled_from(["1#1", "5#5", "L3", "0#2,L6"])
)
MONTH_DAYS = st.one_of(st.just("*"), st.just("*"), fields(1, 31), st.sampled_from(["L", "1,L"]))
FIVE = st.tuples(
    fields(0, 59), fields(0, 23), MONTH_DAYS, st.one_of(st.just("*"), fields(1, 12)), WEEKDAYS
)
SIX = st.tuples(fields(0, 59), FIVE).map(lambda pair: (pair[0], *pair[1]))


@st.composite
def crons(draw: st.DrawFn) -> Cron:
    """
    Draw a cron schedule in any zone.
    """
    try:
        return Cron(" ".join(draw(st.one_of(FIVE, SIX))), draw(st.sampled_from(KEYS)))
    except InvalidScheduleError as error:
        # Dates that never come are refused; nothing else may be.
        if "can never fire" not in str(error):
            raise
        reject()


@st.composite
def around_changes(draw: st.DrawFn) -> tuple[Cron, int]:
    """
    Draw a schedule and an instant, most often one near a change of the clocks.
    """
    cron, at_ms = draw(crons()), draw(INSTANTS)
    changes = [
        change for change, _ in cron._zone.changes(at_ms // 1000, at_ms // 1000 + 366 * 86_400)
    ]
    near = draw(st.booleans())
    if changes and near:
        at_ms = changes[0] * 1000 + draw(st.integers(-3 * 86_400_000, 3 * 86_400_000))
    return cron, max(0, at_ms)


@given(around_changes(), st.floats(0, 1))
def test_two_starts_agree(drawn: tuple[Cron, int], part: float) -> None:
    """
    From wherever between two slots an instance starts, the next slot is the same one.
    """
    cron, early_ms = drawn
    slot_ms = cron.next_slot(early_ms)
    assume(slot_ms is not None)
    assert slot_ms is not None
    late_ms = early_ms + int((slot_ms - 1 - early_ms) * part)

    assert slot_ms > early_ms
    assert slot_ms == cron.next_slot(late_ms)


@given(around_changes())
def test_next_and_last_mirror_each_other(drawn: tuple[Cron, int]) -> None:
    """
    What is next from before a slot is last from it on, and there is nothing between the two.
    """
    cron, at_ms = drawn
    next_ms, last_ms = cron.next_slot(at_ms), cron.last_slot(at_ms)
    if next_ms is not None:
        assert next_ms == cron.last_slot(next_ms)
        assert last_ms == cron.last_slot(next_ms - 1)
    if last_ms is not None:
        assert last_ms <= at_ms
        assert last_ms == cron.next_slot(last_ms - 1)
        assert next_ms == cron.next_slot(last_ms)


@given(around_changes(), st.integers(0, 40))
def test_count_is_what_asking_gives(drawn: tuple[Cron, int], steps: int) -> None:
    """
    Counting and listing agree, over changes of the clocks too.
    """
    cron, after_ms = drawn
    at_ms = after_ms
    for _ in range(steps):
        slot_ms = cron.next_slot(at_ms)
        assume(slot_ms is not None)
        assert slot_ms is not None
        at_ms = slot_ms

    assert steps == cron.count_slots(after_ms, at_ms + 1)
    assert max(0, steps - 1) == cron.count_slots(after_ms, at_ms)


@given(crons(), INSTANTS)
def test_shortest_gap_is_kept_where_the_clocks_stay(cron: Cron, at_ms: int) -> None:
    """
    No two slots are nearer than the shortest gap, unless the clocks change around them.
    """
    first = cron.next_slot(at_ms)
    second = None if first is None else cron.next_slot(first)
    if first is None or second is None:
        return
    # A slot from a gap is at the change; what was shown before a fold may be two days old.
    changes = list(cron._zone.changes(first // 1000 - 2 * 86_400, second // 1000 + 1))

    assert changes or second - first >= cron.shortest_gap_ms


@given(st.sampled_from(KEYS), st.integers(0, 100 * YEAR_MS // 1000))
def test_segments_are_what_the_zone_says(key: str, instant: int) -> None:
    """
    A segment holds the instant that was asked for, and has its offset from its first to its last second.
    """
    rules = ZoneInfo(key)
    found, fresh = zone(key).at(instant), Zone(zone(key)._offset_at).at(instant)

    assert found == fresh
    assert found.start <= instant < found.end
    for second in (found.start, instant, found.end - 1):
        assert found.offset == zone(key)._offset_at(second)
    assert rules.key == key


@pytest.mark.slow
def test_slots_do_not_depend_on_what_was_asked_before() -> None:
    """
    Two instances with different pasts give equal answers to 100,000 random questions.
    """
    rng = random.Random(20261130)
    patterns = [parse(text) for text in random_expressions(rng, 300)]
    keys = rng.sample(KEYS, 40)
    questions = [
        (rng.choice(patterns), rng.choice(keys), rng.randrange(60 * YEAR_MS // 1000))
        for _ in range(100_000)
    ]
    one = answers({key: Zone(zone(key)._offset_at) for key in keys}, questions)
    other = answers({key: Zone(zone(key)._offset_at) for key in keys}, questions[::-1])

    assert one == other[::-1]


def answers(zones: dict[str, Zone], questions: list[tuple[Pattern, str, int]]) -> list[int | None]:
    """
    Answer questions with zones that know nothing yet.
    """
    return [search.first_slot(pattern, zones[key], instant) for pattern, key, instant in questions]


def random_expressions(rng: random.Random, count: int) -> list[str]:
    """
    Make expressions of all kinds.
    """
    minutes = ["*", "*/20", "30", "0,15,30,45", "59"]
    hours = ["*", "0", "1-3", "*/2", "2", "23"]
    days = ["* * *", "* * 0", "1 * *", "13 * 5", "29 2 *", "* 3,10,11 *", "L * *", "* 2 1#5"]
    return [f"{rng.choice(minutes)} {rng.choice(hours)} {rng.choice(days)}" for _ in range(count)]


@pytest.mark.slow
def test_no_change_of_the_clocks_is_missed(rules_of: Callable[[str], ZoneInfo]) -> None:
    """
    Looking every hour finds the changes of ten years that looking once a day finds.
    """
    rng = random.Random(1970)
    for key in [*rng.sample(KEYS, 12), "Europe/Berlin", "Africa/Casablanca", "Australia/Lord_Howe"]:
        rules = rules_of(key)
        start = 86_400 * rng.randrange(365, 365 * 50)
        end = start + 10 * 365 * 86_400
        offsets = [
            datetime.fromtimestamp(at, rules).utcoffset() for at in range(start, end + 1, 3_600)
        ]
        expected = sum(before != after for before, after in pairwise(offsets))

        assert expected == len(list(zone(key).changes(start + 1, end + 1))), key
