"""
Cron expressions in a time zone.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from anarchon.slots import search
from anarchon.slots.bits import values_of
from anarchon.slots.digests import zone_digests
from anarchon.slots.fingerprint import fingerprint
from anarchon.slots.parse import parse
from anarchon.slots.pattern import Pattern
from anarchon.slots.segments import Zone
from anarchon.slots.span import within_span
from anarchon.slots.zones import check_key, zone

__all__ = ["Cron"]


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Cron:
    """
    The slots of a cron expression, by the clocks of a time zone.

    Five fields are minute, hour, day of month, month and day of week; six
    begin with the second. If both day fields are restricted, either may match.

    Where the clocks go back, a time that is shown twice has one slot, the
    first; where they go forward, a time that is left out has its slot at the
    instant of the change. So a daily job runs once on every day. An expression
    whose hours cover the whole day follows the real hours instead: it has
    slots in both passes, and none for what is left out.

    Args:
        expression: Five or six fields, or an alias such as "@daily".

        timezone: A key of the IANA database, such as "Europe/Berlin".

    Raises:
        InvalidScheduleError: The expression is unreadable, means different
            things to different readers, or can never fire; or the time zone
            is unknown.
    """

    expression: str
    timezone: str
    _pattern: Pattern = field(compare=False)
    _zone: Zone = field(compare=False)

    def __init__(self, expression: str, timezone: str = "UTC") -> None:
        pattern = parse(expression)
        object.__setattr__(self, "timezone", check_key(timezone))
        object.__setattr__(self, "expression", " ".join(expression.split()))
        object.__setattr__(self, "_pattern", pattern)
        object.__setattr__(self, "_zone", zone(timezone))

    def next_slot(self, after_ms: int) -> int | None:
        """
        Return the first slot strictly later than *after_ms*.
        """
        slot = search.first_slot(self._pattern, self._zone, within_span(after_ms) // 1000 + 1)
        return None if slot is None else slot * 1000

    def last_slot(self, at_ms: int) -> int | None:
        """
        Return the last slot at or before *at_ms*.
        """
        if at_ms < 0:
            return None
        slot = search.last_slot(self._pattern, self._zone, within_span(at_ms) // 1000)
        return None if slot is None else slot * 1000

    def count_slots(self, after_ms: int, before_ms: int) -> int:
        """
        Count the slots strictly between two instants, without listing them.
        """
        first = within_span(after_ms) // 1000 + 1
        end = within_span(before_ms - 1) // 1000 + 1
        return search.count(self._pattern, self._zone, first, end)

    @property
    def shortest_gap_ms(self) -> int:
        """
        The smallest distance between two slots where the clocks do not change.
        """
        return self._pattern.shortest_gap() * 1000

    @property
    def fingerprint(self) -> str:
        """
        A digest that is equal where the sets and the time zone's key are.

        The rules of the zone are apart from it: see zone_digests().
        """
        pattern, days = self._pattern, self._pattern.days
        return fingerprint(
            "cron",
            seconds=values_of(pattern.seconds),
            minutes=values_of(pattern.minutes),
            hours=values_of(pattern.hours),
            month_days=values_of(days.month_days),
            last_day=days.last_day,
            months=values_of(days.months),
            weekdays=values_of(days.weekdays),
            nth=days.nth,
            timezone=self.timezone,
        )

    def zone_digests(self, now_ms: int) -> dict[str, str]:
        """
        Digest the zone's rules for this UTC calendar year and the next one.

        The keys are the years. UTC has no rules, and an empty answer.
        """
        return zone_digests(self.timezone, self._zone, within_span(now_ms))

    def describe(self) -> str:
        """
        Say the schedule in words.
        """
        return f"cron {self.expression!r} {self.timezone}"

    def __repr__(self) -> str:
        return f"Cron({self.expression!r}, timezone={self.timezone!r})"

    def __reduce__(self) -> tuple[type[Cron], tuple[str, str]]:
        # The sets and the zone are found again where the schedule arrives, by the rules that hold there.
        return (Cron, (self.expression, self.timezone))
