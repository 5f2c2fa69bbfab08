"""
What the scheduler learns about a schedule, its own or a stranger's.
"""

from __future__ import annotations

from typing import Any, cast

import pytest

from anarchon.errors import InvalidScheduleError
from anarchon.slots import Cron, Every, Once, Schedule
from anarchon.slots.facts import (
    check_schedule,
    count_between,
    describe,
    fingerprint_of,
    shortest_gap_of,
    zone_digests_of,
)


class Squares:
    """
    A user's schedule, with the two answers and nothing more.
    """

    def next_slot(self, after_ms: int) -> int | None:
        """
        Return the next square below a million.
        """
        return next((n * n for n in range(1_000) if n * n > after_ms), None)

    def last_slot(self, at_ms: int) -> int | None:
        """
        Return the last square.
        """
        return max((n * n for n in range(1_000) if n * n <= at_ms), default=None)

    def __repr__(self) -> str:
        return "Squares()"


class Odd(Squares):
    """
    A user's schedule whose further members are of the wrong kind, or raise.
    """

    fingerprint = 5
    shortest_gap_ms = "soon"
    count_slots: Any = "many"
    zone_digests: Any = None
    describe: Any = "odd"

    def __init__(self, **members: object) -> None:
        for name, value in members.items():
            setattr(self, name, value)


class Raising(Squares):
    """
    A user's schedule that raises wherever it can.
    """

    @property
    def fingerprint(self) -> str:
        """
        Raise.
        """
        raise RuntimeError

    shortest_gap_ms = fingerprint

    def count_slots(self, after_ms: int, before_ms: int) -> int:
        """
        Raise.
        """
        raise RuntimeError

    zone_digests = count_slots

    def describe(self) -> str:
        """
        Raise.
        """
        raise RuntimeError

    def __repr__(self) -> str:
        raise RuntimeError


class Broken:
    """
    A user's schedule whose answers are given by the test.
    """

    def __init__(self, *answers: object) -> None:
        self.answers = list(answers)

    def next_slot(self, after_ms: int) -> int | None:
        """
        Give the next answer, or raise it.
        """
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return cast("int | None", answer)

    def last_slot(self, at_ms: int) -> int | None:
        """
        Know nothing.
        """
        return None


STRANGERS = [Squares(), Odd(), Raising()]


@pytest.mark.parametrize("schedule", STRANGERS, ids=lambda stranger: type(stranger).__name__)
def test_stranger_is_a_schedule_like_any_other(schedule: Squares) -> None:
    """
    Two answers are enough, and odd members do no harm.
    """
    assert schedule is check_schedule(schedule)
    assert fingerprint_of(schedule) is None
    assert 3 == shortest_gap_of(schedule, 0)
    assert (3, True) == count_between(schedule, 0, 10)
    assert (2, False) == count_between(schedule, 0, 10, limit=2)
    assert {} == zone_digests_of(schedule, 0)


def test_words_for_strangers() -> None:
    """
    A description is the schedule's own, else its representation, else its class.
    """
    assert "Squares()" == describe(Squares())
    assert "Squares()" == describe(Odd())
    assert "a Raising" == describe(Raising())
    assert "a Odd" == describe(Odd(describe=lambda: 5))
    assert "a Odd" == describe(Odd(describe=lambda: ""))
    assert 200 == len(describe(Odd(describe=lambda: "x" * 1_000)))
    assert "every 10s" == describe(Every("10s"))


def test_own_schedules_answer_themselves() -> None:
    """
    Every, Cron and Once know their facts without being sampled.
    """
    every, cron, once = Every("10s"), Cron("0 8 * * *", "Europe/Berlin"), Once(5)

    assert every.fingerprint == fingerprint_of(every)
    assert 10_000 == shortest_gap_of(every, 0)
    assert (31_557_600, True) == count_between(every, -1, 315_576_000_000)
    assert {} == zone_digests_of(every, 0)
    assert 86_400_000 == shortest_gap_of(cron, 0)
    assert cron.zone_digests(0) == zone_digests_of(cron, 0)
    assert shortest_gap_of(once, 0) is None
    assert (1, True) == count_between(once, 0, 10)


@pytest.mark.parametrize("found", [None, True, -1, "3", 2.5])
def test_odd_count_is_counted_again(found: object) -> None:
    """
    A count that is no number from zero up is not believed.
    """
    assert (3, True) == count_between(Odd(count_slots=lambda after_ms, before_ms: found), 0, 10)


@pytest.mark.parametrize("found", [True, 0, -5, 2.5])
def test_odd_gap_is_sampled_instead(found: object) -> None:
    """
    A gap that is no positive number is not believed.
    """
    assert 3 == shortest_gap_of(Odd(shortest_gap_ms=found), 0)


def test_stranger_may_know_more() -> None:
    """
    A member of the right kind is taken from a stranger too.
    """
    schedule = Odd(
        fingerprint="abc",
        shortest_gap_ms=7,
        count_slots=lambda after_ms, before_ms: 9,
        zone_digests=lambda now_ms: {"2026": "d"},
        describe=lambda: "now and then",
    )

    assert "abc" == fingerprint_of(schedule)
    assert 7 == shortest_gap_of(schedule, 0)
    assert (9, True) == count_between(schedule, 0, 1)
    assert {"2026": "d"} == zone_digests_of(schedule, 0)
    assert "now and then" == describe(schedule)
    assert {} == zone_digests_of(Odd(zone_digests=lambda now_ms: 5), 0)


@pytest.mark.parametrize(
    "answers",
    [(5, RuntimeError("no")), (5, "six"), (5, 5), (5, True), (5, 4)],
    ids=["raises", "text", "same", "bool", "earlier"],
)
def test_broken_answer_ends_the_sampling(answers: tuple[object, ...]) -> None:
    """
    What came before an answer that cannot be is kept, as inexact.
    """
    assert (1, False) == count_between(Broken(*answers), 0, 100)
    assert shortest_gap_of(Broken(*answers), 0) is None


def test_sampling_is_bounded() -> None:
    """
    A schedule that goes on for ever is asked sixteen times, and no more.
    """
    endless = Broken(*range(100, 10_000, 100))

    assert 100 == shortest_gap_of(endless, 0)
    assert 16 == 99 - len(endless.answers)


@pytest.mark.parametrize(
    "schedule",
    [
        None,
        5,
        "0 8 * * *",
        Every,
        Squares,
        object(),
        type("Half", (), {"next_slot": print})(),
        Raising.fingerprint,
    ],
)
def test_what_is_no_schedule_is_refused(schedule: object) -> None:
    """
    The message says what is missing and what makes schedules.
    """
    with pytest.raises(
        InvalidScheduleError, match=r"must be an object with next_slot.*Every, Cron and Once"
    ):
        check_schedule(schedule)


def test_refusal_survives_what_cannot_be_shown() -> None:
    """
    An object that raises in repr() is refused in words all the same.
    """

    class Mute:
        def __repr__(self) -> str:
            raise RuntimeError

    with pytest.raises(InvalidScheduleError, match="not a Mute"):
        check_schedule(Mute())
    with pytest.raises(InvalidScheduleError, match=r"\.\.\."):
        check_schedule("x" * 1_000)


def test_protocol_accepts_a_stranger() -> None:
    """
    Nobody has to inherit.
    """
    schedule: Schedule = Squares()

    assert isinstance(schedule, Schedule)
    assert not isinstance(object(), Schedule)
