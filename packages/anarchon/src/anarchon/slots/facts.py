"""
What the scheduler asks of a schedule beyond its two questions.

Our own schedules answer; one that a user wrote may, by a member of the same
name. Whatever such members do, nothing here raises because of them.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final, TypeGuard, cast

from anarchon.errors import InvalidScheduleError
from anarchon.slots.schedule import Schedule

__all__ = [
    "check_schedule",
    "count_between",
    "describe",
    "fingerprint_of",
    "shortest_gap_of",
    "zone_digests_of",
]

_SAMPLES_MAX: Final = 16
_TEXT_LENGTH_MAX: Final = 200


def check_schedule(schedule: object) -> Schedule:
    """
    Return an object that answers the two questions of a schedule.

    Raises:
        InvalidScheduleError: It lacks next_slot or last_slot, or it is a class.
    """
    if not isinstance(schedule, type) and all(
        callable(_member(schedule, name)) for name in ("next_slot", "last_slot")
    ):
        return cast("Schedule", schedule)
    raise InvalidScheduleError(
        f"A schedule must be an object with next_slot(after_ms) and last_slot(at_ms), not {_shown(schedule)}. "
        "Every, Cron and Once make such objects.",
    )


def fingerprint_of(schedule: Schedule) -> str | None:
    """
    Return the digest of what decides the slots, or None if the schedule has none.
    """
    found = _member(schedule, "fingerprint")
    return found if isinstance(found, str) and found else None


def shortest_gap_of(schedule: Schedule, from_ms: int) -> int | None:
    """
    Return the shortest distance between slots, as far as it can be known.

    A schedule that does not say so is asked for a few slots from *from_ms* on.
    """
    found = _member(schedule, "shortest_gap_ms")
    if _is_number(found) and found > 0:
        return found
    slots, _ = _sampled(schedule, from_ms, None, _SAMPLES_MAX)
    return min((later - slot for slot, later in pairwise(slots)), default=None)


def count_between(
    schedule: Schedule, after_ms: int, before_ms: int, limit: int = 10_000
) -> tuple[int, bool]:
    """
    Count the slots strictly between two instants, and say whether that is exact.

    A schedule that does not count by itself is asked for at most *limit* slots.
    """
    counter = _member(schedule, "count_slots")
    if callable(counter):
        try:
            found = counter(after_ms, before_ms)
        except Exception:  # noqa: BLE001 - a member that need not be there must not break what works without it
            found = None
        if _is_number(found) and found >= 0:
            return found, True
    slots, ended = _sampled(schedule, after_ms, before_ms, limit)
    return len(slots), ended


def zone_digests_of(schedule: Schedule, now_ms: int) -> dict[str, str]:
    """
    Return the digests of the schedule's zone by year; empty if it has none.
    """
    digests = _member(schedule, "zone_digests")
    if not callable(digests):
        return {}
    try:
        return {str(year): str(digest) for year, digest in dict(digests(now_ms)).items()}
    except Exception:  # noqa: BLE001 - as above
        return {}


def describe(schedule: Schedule) -> str:
    """
    Say a schedule in words, or in its own representation.
    """
    words = _member(schedule, "describe")
    try:
        text = words() if callable(words) else repr(schedule)
    except Exception:  # noqa: BLE001 - as above
        text = None
    return (
        text[:_TEXT_LENGTH_MAX]
        if isinstance(text, str) and text
        else f"a {type(schedule).__name__}"
    )


def _member(schedule: object, name: str) -> object:
    try:
        return getattr(schedule, name, None)
    except Exception:  # noqa: BLE001 - a property of the user's may raise anything
        return None


def _sampled(
    schedule: Schedule, after_ms: int, before_ms: int | None, limit: int
) -> tuple[list[int], bool]:
    """
    List slots as next_slot gives them, and say whether they ended by themselves.
    """
    slots: list[int] = []
    while len(slots) < limit:
        try:
            slot: object = schedule.next_slot(slots[-1] if slots else after_ms)
        except Exception:  # noqa: BLE001 - the same answer will be asked for, and reported, where a run depends on it
            return slots, False
        if slot is None or (_is_number(slot) and before_ms is not None and slot >= before_ms):
            return slots, True
        if not _is_number(slot) or slot <= (slots[-1] if slots else after_ms):
            return slots, False
        slots.append(slot)
    return slots, False


def _is_number(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _shown(value: object) -> str:
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - as above
        text = f"a {type(value).__name__}"
    return text if len(text) <= 80 else f"{text[:77]}..."
