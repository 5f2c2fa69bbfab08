"""
Wrong input is an error of the constructor or of the definition, naming what is wrong and what is allowed.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from anarchon import (
    AnarchonError,
    Cron,
    DefinitionError,
    DuplicateJobError,
    Every,
    InvalidDurationError,
    InvalidJobError,
    InvalidScheduleError,
    Jobs,
    MemoryBackend,
    Once,
    Scheduler,
)

Case = tuple[str, Callable[[], object], type[AnarchonError], list[str]]


def scheduler(**options: Any) -> Scheduler:
    """
    Make a scheduler on memory.
    """
    return Scheduler(MemoryBackend(), **options)


def define(
    name: Any = "job", interval: Any = "10s", handler: Any = print, **options: Any
) -> object:
    """
    Define a job on a fresh scheduler.
    """
    return scheduler().every(name, interval, handler, **options)


def define_twice() -> object:
    """
    Define two jobs of one name.
    """
    twice = scheduler()
    twice.every("job", "1s", print)
    return twice.cron("job", "* * * * *", print)


class Unready:
    """
    A schedule that cannot look back.
    """

    def next_slot(self, after_ms: int) -> int | None:
        """
        Nothing to come.
        """
        return None


CASES: list[Case] = [
    # Names.
    ("an empty name", lambda: define(""), InvalidJobError, ["at least one character", "''"]),
    ("no name", lambda: define(None), InvalidJobError, ["a job's name is a text", "None"]),
    ("a surrogate", lambda: define("\ud800"), InvalidJobError, ["lone surrogate", "no store"]),
    ("a NUL", lambda: define("a\x00b"), InvalidJobError, ["'a\\x00b'", "NUL"]),
    (
        "an oversized name",
        lambda: define("n" * 256),
        InvalidJobError,
        ["256 bytes", "MemoryBackend holds at most 255", "never cut"],
    ),
    (
        "a name oversized in bytes",
        lambda: define("ü" * 128),
        InvalidJobError,
        ["256 bytes", "at most 255"],
    ),
    ("a duplicate name", define_twice, DuplicateJobError, ["job 'job' is defined twice"]),
    # Schedules.
    ("an unreadable cron", lambda: Cron("nonsense"), InvalidScheduleError, ["nonsense"]),
    ("an impossible cron", lambda: Cron("0 0 31 2 *"), InvalidScheduleError, ["0 0 31 2 *"]),
    (
        "an impossible cron on a scheduler",
        lambda: scheduler().cron("job", "0 0 31 2 *", print),
        InvalidScheduleError,
        ["0 0 31 2 *"],
    ),
    (
        "an unreadable cron in a collection",
        lambda: Jobs().cron("job", "61 * * * *"),
        InvalidScheduleError,
        ["61 * * * *"],
    ),
    (
        "an unknown time zone",
        lambda: Cron("0 8 * * *", timezone="Mars/Olympus"),
        InvalidScheduleError,
        ["Mars/Olympus"],
    ),
    (
        "an unknown default time zone",
        lambda: scheduler(timezone="Mars/Olympus"),
        InvalidScheduleError,
        ["Mars/Olympus"],
    ),
    (
        "an unknown time zone of a job",
        lambda: scheduler().cron("job", "0 8 * * *", print, timezone="Mars/Olympus"),
        InvalidScheduleError,
        ["Mars/Olympus"],
    ),
    (
        "a naive datetime",
        lambda: Once(datetime(2027, 1, 1)),  # noqa: DTZ001 - that is what fails
        InvalidScheduleError,
        ["aware"],
    ),
    (
        "a naive datetime of a job",
        lambda: scheduler().once("job", datetime(2027, 1, 1), print),  # noqa: DTZ001 - that is what fails
        InvalidScheduleError,
        ["aware"],
    ),
    (
        "half a schedule",
        lambda: scheduler().job("job", Unready(), print),  # type: ignore[call-overload]  # that is what fails
        InvalidScheduleError,
        ["last_slot"],
    ),
    (
        "a schedule's class",
        lambda: scheduler().job("job", Every, print),  # type: ignore[call-overload]  # that is what fails
        InvalidScheduleError,
        ["object"],
    ),
    # Durations.
    ("a zero interval", lambda: Every(0), InvalidDurationError, ["100ms", "0"]),
    ("a negative interval", lambda: Every("-1s"), InvalidDurationError, ["100ms", "-1s"]),
    ("an interval under 100 ms", lambda: Every("99ms"), InvalidDurationError, ["100ms", "99ms"]),
    ("an interval of no duration", lambda: define(interval="soon"), InvalidDurationError, ["soon"]),
    (
        "an offset as long as the interval",
        lambda: Every("1s", offset="1s"),
        InvalidDurationError,
        ["offset", "1s"],
    ),
    ("a negative offset", lambda: Every("1s", offset=-1), InvalidDurationError, ["offset", "-1"]),
    (
        "a zero timeout",
        lambda: define(timeout=0),
        InvalidDurationError,
        ["job 'job': timeout", "1ms"],
    ),
    (
        "a negative timeout",
        lambda: define(timeout=timedelta(seconds=-5)),
        InvalidDurationError,
        ["job 'job': timeout", "1ms"],
    ),
    (
        "a negative window",
        lambda: define(catch_up_window=-1),
        InvalidDurationError,
        ["job 'job': catch_up_window", "-1"],
    ),
    (
        "a zero lateness",
        lambda: define(max_lateness="0s"),
        InvalidDurationError,
        ["job 'job': max_lateness", "0s"],
    ),
    (
        "a negative jitter",
        lambda: define(jitter=-1),
        InvalidDurationError,
        ["job 'job': jitter", "-1"],
    ),
    (
        "a negative default jitter",
        lambda: scheduler(jitter="-1s"),
        InvalidDurationError,
        ["jitter", "-1s"],
    ),
    ("a zero heartbeat", lambda: scheduler(heartbeat=0), InvalidDurationError, ["heartbeat"]),
    ("a negative lease", lambda: scheduler(lease=-3), InvalidDurationError, ["lease"]),
    (
        "a zero start timeout",
        lambda: scheduler(start_timeout=0),
        InvalidDurationError,
        ["start_timeout"],
    ),
    (
        "a negative stop timeout",
        lambda: scheduler(stop_timeout=-1),
        InvalidDurationError,
        ["stop_timeout"],
    ),
]


@pytest.mark.parametrize(
    ("action", "error", "words"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_wrong_input_is_refused_with_a_sentence(
    action: Callable[[], object], error: type[AnarchonError], words: list[str]
) -> None:
    """
    The error is the type that the reference names, and its message says what is wrong and what is allowed.
    """
    with pytest.raises(error) as raised:
        action()
    message = str(raised.value)

    assert [] == [word for word in words if word not in message], message
    assert isinstance(raised.value, AnarchonError)


def test_input_errors_are_value_errors_too() -> None:
    """
    A caller who knows nothing of anarchon's errors catches them all the same.
    """
    with pytest.raises(ValueError, match="100ms"):
        Every(0)
    assert issubclass(DefinitionError, ValueError)
