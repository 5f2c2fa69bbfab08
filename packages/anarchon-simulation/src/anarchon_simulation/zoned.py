"""
A schedule with the rules of a time zone, of which there are editions.
"""

from __future__ import annotations

from anarchon.slots import Every

__all__ = ["ZonedEvery"]

_YEARS = (2026, 2027)


class ZonedEvery:
    """
    The slots of an interval, and digests of a zone's rules as cron schedules have them.

    Args:
        every_ms: The distance between slots.

        edition: Of the rules: two of them agree on the present year, and differ in the next one.
    """

    def __init__(self, every_ms: int, *, edition: int) -> None:
        self._every = Every(every_ms / 1_000)
        self._edition = edition

    @property
    def fingerprint(self) -> str:
        """
        What decides the slots; the zone's rules are not in it.
        """
        return self._every.fingerprint

    def next_slot(self, after_ms: int) -> int | None:
        """
        Return the first slot later than *after_ms*.
        """
        return self._every.next_slot(after_ms)

    def last_slot(self, at_ms: int) -> int | None:
        """
        Return the last slot at or before *at_ms*.
        """
        return self._every.last_slot(at_ms)

    def zone_digests(self, now_ms: int) -> dict[int, str]:  # noqa: ARG002 - the world is younger than a year
        """
        Return the digests of this year's and the next year's rules.
        """
        this, following = _YEARS
        return {this: "rules", following: f"rules, edition {self._edition}"}
