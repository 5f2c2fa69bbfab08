"""
The span of time in which slots exist.
"""

from __future__ import annotations

from typing import Final

__all__ = ["SECOND_END", "SLOT_MS_MAX", "within_span"]

SECOND_END: Final = 253_402_300_800
"""
10000-01-01T00:00:00Z in seconds since 1970: the first instant without slots.
"""

SLOT_MS_MAX: Final = SECOND_END * 1000 - 1
"""
The last millisecond of the year 9999, in UTC.
"""


def within_span(instant_ms: int) -> int:
    """
    Move an instant to the nearest one from which every slot can be asked for.

    That is -1 to the end of the span: from -1 the slot 0 is still to come.
    """
    return max(-1, min(instant_ms, SLOT_MS_MAX))
