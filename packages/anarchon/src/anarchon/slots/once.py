"""
One instant, once.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo

from anarchon.errors import InvalidScheduleError
from anarchon.slots.fingerprint import fingerprint
from anarchon.slots.span import SLOT_MS_MAX

__all__ = ["Once"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True, init=False, repr=False)
class Once:
    """
    A single slot.

    Args:
        at: An aware datetime, or whole milliseconds since 1970-01-01 UTC. What
            a datetime has below a millisecond is dropped. A local time that a
            change of the clocks left out means the instant at which the clocks
            had passed it, as in a cron expression.

    Raises:
        InvalidScheduleError: The instant is naive, no instant at all, or
            outside the years 1970 to 9999.
    """

    at_ms: int

    def __init__(self, at: datetime | int) -> None:
        at_ms = _instant_ms(at)
        if not 0 <= at_ms <= SLOT_MS_MAX:
            raise InvalidScheduleError(
                f"Once must be in the years 1970 to 9999 (UTC), not {_shown(at)}."
            )
        object.__setattr__(self, "at_ms", at_ms)

    def next_slot(self, after_ms: int) -> int | None:
        """
        Return the instant if it is strictly later than *after_ms*.
        """
        return self.at_ms if self.at_ms > after_ms else None

    def last_slot(self, at_ms: int) -> int | None:
        """
        Return the instant if it is at or before *at_ms*.
        """
        return self.at_ms if self.at_ms <= at_ms else None

    def count_slots(self, after_ms: int, before_ms: int) -> int:
        """
        Count the slots strictly between two instants: none or one.
        """
        return int(after_ms < self.at_ms < before_ms)

    @property
    def shortest_gap_ms(self) -> None:
        """
        One slot has no gaps.
        """
        return

    @property
    def fingerprint(self) -> str:
        """
        A digest that is equal where the instant is.
        """
        return fingerprint("once", at_ms=self.at_ms)

    def describe(self) -> str:
        """
        Say the schedule in words.
        """
        at = _EPOCH + self.at_ms * _MILLISECOND
        return f"once at {at.replace(tzinfo=None).isoformat(timespec='milliseconds')}Z"

    def __repr__(self) -> str:
        return f"Once({self.at_ms})"


def _instant_ms(at: object) -> int:
    if isinstance(at, datetime):
        if at.utcoffset() is None:
            raise InvalidScheduleError(
                f"Once needs an aware datetime, and {at!r} has no time zone. "
                "Write datetime(..., tzinfo=UTC), or tzinfo=ZoneInfo('Europe/Berlin').",
            )
        return (_instant(at) - _EPOCH) // _MILLISECOND
    # True is an int to Python, and surely a slip of the pen to whoever reads it here.
    if isinstance(at, int) and not isinstance(at, bool):
        return at
    raise InvalidScheduleError(
        f"Once needs an aware datetime or whole milliseconds since 1970-01-01 UTC, not {_shown(at)}.",
    )


def _instant(at: datetime) -> datetime:
    """
    Find the earliest instant at which the clocks of a datetime's zone show it or later.

    An aware datetime names an instant, except where its local time is missing:
    there Python counts on from before the change, and this rule does not.
    """
    zone = at.tzinfo
    try:
        instant = at.astimezone(UTC)
        if zone is None or instant.astimezone(zone).replace(tzinfo=None) == at.replace(tzinfo=None):
            return instant
        early, late = sorted(at.replace(fold=fold).astimezone(UTC) for fold in (0, 1))
    except OverflowError:
        raise InvalidScheduleError(
            f"Once must be in the years 1970 to 9999 (UTC), not {at!r}."
        ) from None
    return _end_of_gap(zone, early, late)


def _end_of_gap(zone: tzinfo, early: datetime, late: datetime) -> datetime:
    after = late.astimezone(zone).utcoffset()
    while late - early > _MILLISECOND:
        middle = early + (late - early) / 2
        if middle.astimezone(zone).utcoffset() == after:
            late = middle
        else:
            early = middle
    # The change is less than a millisecond earlier, on a whole second: dropping the rest gives it exactly.
    return late


def _shown(at: object) -> str:
    if isinstance(at, int) and abs(at) > 10**18:
        return "a number beyond all bounds"
    text = repr(at)
    return text if len(text) <= 80 else f"{text[:77]}..."
