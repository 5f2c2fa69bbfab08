"""
Intervals on a grid that is counted from 1970.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from anarchon.durations import Duration, duration_ms, format_ms
from anarchon.errors import InvalidDurationError
from anarchon.slots.fingerprint import fingerprint
from anarchon.slots.span import SLOT_MS_MAX, within_span

__all__ = ["INTERVAL_MS_MIN", "Every"]

INTERVAL_MS_MIN: Final = 100
"""
The shortest interval: below it, claims cost more than the work they share out.
"""


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Every:
    """
    A slot at each multiple of an interval since 1970-01-01T00:00:00Z.

    Local time plays no part: "1d" is midnight UTC, and "1w" is Thursday
    midnight UTC, since 1970 began on a Thursday. An offset moves the whole
    grid later by less than one interval.

    Args:
        interval: The distance between slots, at least 100 ms.

        offset: How far the grid is moved, from zero to less than *interval*.

    Raises:
        InvalidDurationError: The interval or the offset is not allowed.
    """

    interval_ms: int
    offset_ms: int

    def __init__(self, interval: Duration, *, offset: Duration = 0) -> None:
        interval_ms = duration_ms(
            interval, what="The interval of Every", minimum_ms=INTERVAL_MS_MIN
        )
        offset_ms = duration_ms(offset, what="The offset of Every", minimum_ms=0)
        if offset_ms >= interval_ms:
            raise InvalidDurationError(
                f"The offset of Every must be shorter than its interval ({format_ms(interval_ms)}), not {offset!r}.",
            )
        object.__setattr__(self, "interval_ms", interval_ms)
        object.__setattr__(self, "offset_ms", offset_ms)

    def next_slot(self, after_ms: int) -> int | None:
        """
        Return the first slot strictly later than *after_ms*.
        """
        step = (within_span(after_ms) - self.offset_ms) // self.interval_ms + 1
        slot_ms = step * self.interval_ms + self.offset_ms
        return slot_ms if slot_ms <= SLOT_MS_MAX else None

    def last_slot(self, at_ms: int) -> int | None:
        """
        Return the last slot at or before *at_ms*.
        """
        step = (within_span(at_ms) - self.offset_ms) // self.interval_ms
        return step * self.interval_ms + self.offset_ms if step >= 0 else None

    def count_slots(self, after_ms: int, before_ms: int) -> int:
        """
        Count the slots strictly between two instants.
        """
        first = (within_span(after_ms) - self.offset_ms) // self.interval_ms
        last = (within_span(before_ms - 1) - self.offset_ms) // self.interval_ms
        return max(0, last - first)

    @property
    def shortest_gap_ms(self) -> int:
        """
        The interval.
        """
        return self.interval_ms

    @property
    def fingerprint(self) -> str:
        """
        A digest that is equal where the slots are defined equally.
        """
        return fingerprint("every", interval_ms=self.interval_ms, offset_ms=self.offset_ms)

    def describe(self) -> str:
        """
        Say the schedule in words.
        """
        offset = f", offset {format_ms(self.offset_ms)}" if self.offset_ms else ""
        return f"every {format_ms(self.interval_ms)}{offset}"

    def __repr__(self) -> str:
        offset = f", offset={format_ms(self.offset_ms)!r}" if self.offset_ms else ""
        return f"Every({format_ms(self.interval_ms)!r}{offset})"
