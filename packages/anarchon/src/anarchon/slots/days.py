"""
The day fields of a cron expression, and the dates that they match.

Days are ordinals as datetime.date counts them: 1 is 0001-01-01, a Monday.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from typing import Final

from anarchon.slots.bits import closest, highest, lowest, values_of

__all__ = ["ALL_MONTHS", "ALL_MONTH_DAYS", "ALL_WEEKDAYS", "LAST_NTH", "Days"]

ALL_MONTH_DAYS: Final = (1 << 32) - 2
ALL_MONTHS: Final = (1 << 13) - 2
ALL_WEEKDAYS: Final = (1 << 7) - 1

LAST_NTH: Final = 6
"""
Stands in Days.nth for "the last such weekday of the month".
"""

# Local clocks go up to a day beyond the span of slots on either side, as far as there are dates.
_FIRST_DAY: Final = date(1969, 12, 30).toordinal()
_LAST_DAY: Final = date.max.toordinal()

_MONTH_LENGTHS: Final = (0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_MONTH_LENGTHS_MAX: Final = (0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)

# Six weeks of Sundays: shifted, they are any weekday in any month.
_WEEKS: Final = sum(1 << 7 * week for week in range(6))


@dataclass(frozen=True, slots=True, kw_only=True)
class Days:
    """
    The days on which a cron expression has slots.

    A field is restricted if it does not cover all its values. If both the day
    of the month and the day of the week are restricted, either may match.

    Args:
        month_days: Days of the month, 1 to 31.

        last_day: Whether the last day of the month is named besides.

        months: Months, 1 to 12.

        weekdays: Days of the week, 0 (Sunday) to 6.

        nth: Pairs of a weekday and which of its kind in the month: 1 to 5, or
            LAST_NTH. Where there are pairs, *weekdays* is empty.
    """

    month_days: int
    last_day: bool
    months: int
    weekdays: int
    nth: tuple[tuple[int, int], ...]

    every_day: bool = field(init=False, repr=False, compare=False)
    _shapes: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        every_day = (ALL_MONTH_DAYS, ALL_MONTHS, ALL_WEEKDAYS) == (
            self.month_days,
            self.months,
            self.weekdays,
        )
        object.__setattr__(self, "every_day", every_day)
        shapes = tuple(self._shape(length, first) for length in range(28, 32) for first in range(7))
        object.__setattr__(self, "_shapes", shapes)

    def possible(self) -> bool:
        """
        Say whether any date matches, from the sets alone.
        """
        if self.weekdays != ALL_WEEKDAYS or self.last_day:
            return True
        earliest = lowest(self.month_days)
        return any(
            earliest <= _MONTH_LENGTHS_MAX[month]
            for month in range(1, 13)
            if self.months >> month & 1
        )

    def matches(self, day: int) -> bool:
        """
        Say whether a day is among them.
        """
        if self.every_day or day > _LAST_DAY:
            return day <= _LAST_DAY
        when = date.fromordinal(day)
        return bool(self.in_month(when.year, when.month) >> when.day & 1)

    def first(self, day: int) -> int | None:
        """
        Return the first matching day from *day* on, or None at the end of dates.
        """
        if day > _LAST_DAY:
            return None
        if self.every_day:
            return day
        when = date.fromordinal(day)
        year, month = when.year, when.month
        rest = self.in_month(year, month) >> when.day
        if rest:
            return day + lowest(rest)
        while True:
            later = self.months >> (month + 1)
            if later:
                month += 1 + lowest(later)
            else:
                year, month = year + 1, lowest(self.months)
                if year > date.max.year:
                    return None
            found = self.in_month(year, month)
            if found:
                return date(year, month, lowest(found)).toordinal()

    def last(self, day: int) -> int | None:
        """
        Return the last matching day up to *day*, or None before 1970.
        """
        if day < _FIRST_DAY:
            return None
        day = min(day, _LAST_DAY)
        if self.every_day:
            return day
        when = date.fromordinal(day)
        year, month = when.year, when.month
        rest = self.in_month(year, month) & ((2 << when.day) - 1)
        while not rest:
            month = highest(self.months & ((1 << month) - 1))
            if month < 0:
                year, month = year - 1, highest(self.months)
                if year < date.fromordinal(_FIRST_DAY).year:
                    return None
            rest = self.in_month(year, month)
        return date(year, month, highest(rest)).toordinal()

    def count(self, first: int, end: int) -> int:
        """
        Count the matching days in [first, end).
        """
        end = min(end, _LAST_DAY + 1)
        if self.every_day or first >= end:
            return max(0, end - first)
        when, until = date.fromordinal(first), date.fromordinal(end - 1)
        year, month = when.year, when.month
        total = -(self.in_month(year, month) & ((1 << when.day) - 1)).bit_count()
        while (year, month) != (until.year, until.month):
            total += self.in_month(year, month).bit_count()
            year, month = (year, month + 1) if month < 12 else (year + 1, 1)
        return total + (self.in_month(year, month) & ((2 << until.day) - 1)).bit_count()

    def shortest_gap(self) -> int:
        """
        Return the smallest distance between two matching days.

        Any two years in a row look like two of twenty-eight; only rarer days
        than that depend on the centuries, which repeat every 400 years.
        """
        gap = 1 if self.every_day else self._shortest_gap(28)
        return gap if gap <= 366 else self._shortest_gap(400)

    def _shortest_gap(self, years: int) -> int:
        gap, previous = years * 366, None
        within: dict[int, int] = {}
        for year in range(2001, 2002 + years):
            for month in values_of(self.months):
                found = self.in_month(year, month)
                if not found:
                    continue
                start = date(year, month, 1).toordinal()
                if previous is not None:
                    gap = min(gap, start + lowest(found) - 1 - previous)
                previous = start + highest(found) - 1
                if found not in within:
                    within[found] = closest(found) or gap
                gap = min(gap, within[found])
            if gap == 1:
                break
        return gap

    def in_month(self, year: int, month: int) -> int:
        """
        Return the matching days of one month, as a set of 1 to 31.
        """
        if not self.months >> month & 1:
            return 0
        leap = month == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
        length = _MONTH_LENGTHS[month] + leap
        return self._shapes[(length - 28) * 7 + date(year, month, 1).toordinal() % 7]

    def _shape(self, length: int, first: int) -> int:
        """
        Return the matching days of a month with this length and this first weekday.
        """
        month = (2 << length) - 2
        by_date = self.month_days | (1 << length if self.last_day else 0)
        by_weekday = ((self.weekdays * _WEEKS) >> first) << 1
        for weekday, nth in self.nth:
            candidates = range(1 + (weekday - first) % 7, length + 1, 7)
            if nth == LAST_NTH:
                by_weekday |= 1 << candidates[-1]
            elif nth <= len(candidates):
                by_weekday |= 1 << candidates[nth - 1]
        either = self.month_days != ALL_MONTH_DAYS and self.weekdays != ALL_WEEKDAYS
        return month & (by_date | by_weekday if either else by_date & by_weekday)
