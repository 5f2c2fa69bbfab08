"""
From an allowed cron expression to its sets.

The parser is croniter, as a parser and nothing more: its own search depends
on where it starts, and never runs here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from anarchon.errors import InvalidScheduleError
from anarchon.slots.bits import mask_of
from anarchon.slots.days import ALL_MONTH_DAYS, ALL_MONTHS, ALL_WEEKDAYS, LAST_NTH, Days
from anarchon.slots.expression import checked_fields
from anarchon.slots.pattern import ALL_HOURS, Pattern

__all__ = ["expanded", "parse"]

_ALL_SIXTY = (1 << 60) - 1


def parse(expression: object) -> Pattern:
    """
    Return what a cron expression matches.

    Raises:
        InvalidScheduleError: The expression is no text, is not allowed, or
            has no date that ever matches it.
    """
    if not isinstance(expression, str):
        raise InvalidScheduleError(
            f"A cron expression must be a text such as '0 8 * * *', not {expression!r:.80}."
        )
    return _parse(expression)


@lru_cache(maxsize=4_096)
def _parse(expression: str) -> Pattern:
    pattern = expanded(" ".join(checked_fields(expression)))
    if not pattern.days.possible():
        raise InvalidScheduleError(
            f"The cron expression {expression!r} can never fire: none of its months has any of its days of month. "
            "Name a day that one of the months has, or L for the last one.",
        )
    return pattern


def expanded(text: str) -> Pattern:
    """
    Let the parser expand an expression that has passed the gate.

    Raises:
        InvalidScheduleError: The parser refuses the expression after all, or
            reads something in it that these rules do not have.
    """
    # Importing it takes tens of milliseconds, which those who have no cron schedule need not spend.
    import croniter  # type: ignore[import-untyped]  # noqa: PLC0415 - the reason stands above

    try:
        parsed = croniter.croniter(text, 0.0, second_at_beginning=True)
    except croniter.CroniterError as error:
        raise InvalidScheduleError(
            f"The cron expression {text!r} cannot be read: {error}."
        ) from error
    if parsed.nearest_weekday:
        raise InvalidScheduleError(
            f"The cron expression {text!r} asks for the nearest weekday, which is not offered."
        )
    minutes, hours, month_days, months, weekdays, *seconds = parsed.expanded
    nth = _nth(parsed.nth_weekday_of_month)
    all_month_days = _mask(month_days, ALL_MONTH_DAYS)
    return Pattern(
        seconds=_mask(seconds[0], _ALL_SIXTY) if seconds else 1,
        minutes=_mask(minutes, _ALL_SIXTY),
        hours=_mask(hours, ALL_HOURS),
        days=Days(
            month_days=all_month_days,
            # Every day includes the last one.
            last_day="l" in month_days and all_month_days != ALL_MONTH_DAYS,
            months=_mask(months, ALL_MONTHS),
            weekdays=0 if nth else _mask(weekdays, ALL_WEEKDAYS),
            nth=nth,
        ),
    )


def _mask(values: Sequence[int | str], everything: int) -> int:
    if "*" in values:
        return everything
    return mask_of(value for value in values if isinstance(value, int))


def _nth(found: Mapping[int, set[int | str]]) -> tuple[tuple[int, int], ...]:
    pairs = ((weekday, which) for weekday, named in found.items() for which in named)
    return tuple(
        sorted((weekday, LAST_NTH if which == "l" else int(which)) for weekday, which in pairs)
    )
