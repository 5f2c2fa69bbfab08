"""
What a schedule is: the two questions that the scheduler asks.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

__all__ = ["Schedule"]


@runtime_checkable
class Schedule(Protocol):
    """
    A set of slots, each a whole number of milliseconds since 1970-01-01 UTC.

    Implementations need not inherit from this class. Both answers are pure
    functions of the argument, so that every instance computes the same slots;
    an answer that depends on when or where it is asked makes runs double.

    More is welcome and never required: anarchon.slots.facts tells which other
    members are looked for, and what is done where they are missing.
    """

    def next_slot(self, after_ms: int) -> int | None:
        """
        Return the first slot strictly later than *after_ms*, or None.
        """
        ...

    def last_slot(self, at_ms: int) -> int | None:
        """
        Return the last slot at or before *at_ms*, or None.
        """
        ...
