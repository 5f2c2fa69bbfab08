"""
A cron expression as sets, and the readings of a clock that they match.

A reading is a whole number of seconds: the instant at which a clock in UTC
shows the same (anarchon.slots.segments).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from typing import Final

from anarchon.slots.bits import closest, highest, lowest
from anarchon.slots.days import Days
from anarchon.slots.segments import DAY_S

__all__ = ["ALL_HOURS", "Pattern"]

ALL_HOURS: Final = (1 << 24) - 1

_EPOCH: Final = date(1970, 1, 1).toordinal()


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """
    Which readings of the local clock a cron expression names.

    Args:
        seconds: Seconds, 0 to 59.

        minutes: Minutes, 0 to 59.

        hours: Hours, 0 to 23.

        days: Dates.
    """

    seconds: int
    minutes: int
    hours: int
    days: Days

    _time_first: int = field(init=False, repr=False, compare=False)
    _time_last: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        first = lowest(self.hours) * 3600 + lowest(self.minutes) * 60 + lowest(self.seconds)
        last = highest(self.hours) * 3600 + highest(self.minutes) * 60 + highest(self.seconds)
        object.__setattr__(self, "_time_first", first)
        object.__setattr__(self, "_time_last", last)

    @property
    def every_hour(self) -> bool:
        """
        Whether the hours cover the whole day, which decides what a fold does.
        """
        return self.hours == ALL_HOURS

    def first(self, reading: int) -> int | None:
        """
        Return the first matching reading from *reading* on, or None.
        """
        number, time = divmod(reading, DAY_S)
        day = number + _EPOCH
        found = self.days.first(day)
        if found is None:
            return None
        if found == day:
            if time <= self._time_last:
                return number * DAY_S + self._time_from(time)
            found = self.days.first(day + 1)
            if found is None:
                return None
        return (found - _EPOCH) * DAY_S + self._time_first

    def last(self, reading: int) -> int | None:
        """
        Return the last matching reading up to *reading*, or None.
        """
        number, time = divmod(reading, DAY_S)
        day = number + _EPOCH
        found = self.days.last(day)
        if found is None:
            return None
        if found == day:
            if time >= self._time_first:
                return number * DAY_S + self._time_to(time)
            found = self.days.last(day - 1)
            if found is None:
                return None
        return (found - _EPOCH) * DAY_S + self._time_last

    def count(self, first: int, end: int) -> int:
        """
        Count the matching readings in [first, end).
        """
        day, time = divmod(first, DAY_S)
        day_end, time_end = divmod(end, DAY_S)
        whole = self.days.count(day + _EPOCH, day_end + _EPOCH) if day < day_end else 0
        total = whole * self.times_per_day
        if time and self.days.matches(day + _EPOCH):
            total -= self._times_before(time)
        if time_end and self.days.matches(day_end + _EPOCH):
            total += self._times_before(time_end)
        return total

    @property
    def times_per_day(self) -> int:
        """
        How many readings match on a matching day.
        """
        return self.hours.bit_count() * self.minutes.bit_count() * self.seconds.bit_count()

    def shortest_gap(self) -> int:
        """
        Return the smallest distance in seconds between two matching readings.

        The distance within the finest field that has two values counts, or
        across the edge of it: from a last second to the first one a minute on.
        """
        gaps = []
        edge = 0
        for values, unit in ((self.seconds, 1), (self.minutes, 60), (self.hours, 3600)):
            distance = closest(values)
            if distance is not None:
                gaps.append(distance * unit - edge)
            edge += (highest(values) - lowest(values)) * unit
        gaps.append(self.days.shortest_gap() * DAY_S - edge)
        return min(gaps)

    def _time_from(self, time: int) -> int:
        """
        Return the first matching time of day from *time* on; there is one.
        """
        minute, second = divmod(time, 60)
        hour, minute = divmod(minute, 60)
        if self.hours >> hour & 1:
            if self.minutes >> minute & 1:
                rest = self.seconds >> second
                if rest:
                    return time + lowest(rest)
            rest = self.minutes >> (minute + 1)
            if rest:
                return hour * 3600 + (minute + 1 + lowest(rest)) * 60 + lowest(self.seconds)
        hour += 1 + lowest(self.hours >> (hour + 1))
        return hour * 3600 + lowest(self.minutes) * 60 + lowest(self.seconds)

    def _time_to(self, time: int) -> int:
        """
        Return the last matching time of day up to *time*; there is one.
        """
        minute, second = divmod(time, 60)
        hour, minute = divmod(minute, 60)
        if self.hours >> hour & 1:
            if self.minutes >> minute & 1:
                rest = self.seconds & ((2 << second) - 1)
                if rest:
                    return time - second + highest(rest)
            rest = self.minutes & ((1 << minute) - 1)
            if rest:
                return hour * 3600 + highest(rest) * 60 + highest(self.seconds)
        hour = highest(self.hours & ((1 << hour) - 1))
        return hour * 3600 + highest(self.minutes) * 60 + highest(self.seconds)

    def _times_before(self, time: int) -> int:
        """
        Count the matching times of day before *time*.
        """
        minute, second = divmod(time, 60)
        hour, minute = divmod(minute, 60)
        per_minute = self.seconds.bit_count()
        total = (self.hours & ((1 << hour) - 1)).bit_count() * self.minutes.bit_count() * per_minute
        if self.hours >> hour & 1:
            total += (self.minutes & ((1 << minute) - 1)).bit_count() * per_minute
            if self.minutes >> minute & 1:
                total += (self.seconds & ((1 << second) - 1)).bit_count()
        return total
