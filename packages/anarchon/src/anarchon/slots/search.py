"""
Slots of a pattern in a zone: the two rules of cron, and nothing else.

All times are whole seconds. Nothing here remembers an earlier answer, and no
answer depends on where a search began.

A pattern whose hours cover the whole day has a slot at every instant at which
the local clock matches. Any other has one slot for each matching reading: the
earliest instant at which the clock shows that reading or a later one.
"""

from __future__ import annotations

from anarchon.slots.pattern import Pattern
from anarchon.slots.segments import DAY_S, Segment, Zone
from anarchon.slots.span import SECOND_END

__all__ = ["count", "first_slot", "last_slot"]

# Two offsets differ by less than two days, so that a clock shows nothing twice that is further apart.
_HORIZON_S = 2 * DAY_S


def first_slot(pattern: Pattern, zone: Zone, instant: int) -> int | None:
    """
    Return the first slot at or after an instant, which is 0 or later.
    """
    if pattern.every_hour:
        slot = _first_shown(pattern, zone, instant)
    else:
        reading = pattern.first(_unreached(zone.at(instant), instant))
        slot = None if reading is None else _reached(zone, reading)
    return slot if slot is not None and slot < SECOND_END else None


def last_slot(pattern: Pattern, zone: Zone, instant: int) -> int | None:
    """
    Return the last slot at or before an instant, which is 0 or later.
    """
    if pattern.every_hour:
        slot = _last_shown(pattern, zone, instant)
    else:
        reading = pattern.last(_unreached(zone.at(instant + 1), instant + 1) - 1)
        slot = None if reading is None else _reached(zone, reading)
    return slot if slot is not None and slot >= 0 else None


def count(pattern: Pattern, zone: Zone, first: int, end: int) -> int:
    """
    Count the slots in [first, end), from instants between 0 and the end of the span.
    """
    if first >= end:
        return 0
    if pattern.every_hour:
        return sum(
            pattern.count(
                max(segment.start, first) + segment.offset, min(segment.end, end) + segment.offset
            )
            for segment in zone.between(first, end)
        )
    total = pattern.count(_unreached(zone.at(first), first), _unreached(zone.at(end), end))
    for segment in zone.between(first, end):
        after = segment.start + segment.offset
        if segment.start >= first and segment.peak < after:
            # What the clocks left out has one slot together with the first reading that they show again.
            total -= max(0, pattern.count(segment.peak, after + 1) - 1)
    return total


def _unreached(segment: Segment, instant: int) -> int:
    """
    Return the lowest reading that the clocks have not shown or passed before an instant of a segment.
    """
    if instant == segment.start:
        return segment.peak
    return max(segment.peak, instant + segment.offset)


def _reached(zone: Zone, reading: int) -> int:
    """
    Return the earliest instant at which the clocks show a reading or a later one.
    """
    segment = zone.reaching(reading)
    return max(segment.start, reading - segment.offset)


def _first_shown(pattern: Pattern, zone: Zone, instant: int) -> int | None:
    while True:
        segment = zone.at(instant)
        reading = pattern.first(instant + segment.offset)
        if reading is None:
            return None
        if reading - segment.offset < segment.end:
            return reading - segment.offset
        # The clocks show the reading near its own number, and nothing that matches until then; only within the
        # horizon might they go back to readings before this search.
        near = segment.end - instant < _HORIZON_S
        instant = segment.end if near else max(segment.end, reading - _HORIZON_S)


def _last_shown(pattern: Pattern, zone: Zone, instant: int) -> int | None:
    while True:
        segment = zone.at(instant)
        reading = pattern.last(instant + segment.offset)
        if reading is None:
            return None
        if reading - segment.offset >= segment.start:
            return reading - segment.offset
        near = instant - segment.start < _HORIZON_S
        instant = segment.start - 1 if near else min(segment.start - 1, reading + _HORIZON_S)
