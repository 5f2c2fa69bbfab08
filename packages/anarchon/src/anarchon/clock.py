"""
The clocks: the only module of the core that reads one.
"""

from __future__ import annotations

import time
from typing import Protocol

__all__ = ["Clock", "SystemClock"]

# CLOCK_BOOTTIME counts the time that a machine sleeps, which is when a lease goes
# on running out. On macOS CLOCK_MONOTONIC counts it; elsewhere this is the best there is.
_SUSPEND_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", -1))


class Clock(Protocol):
    """
    What anarchon needs to know of time, beside an event loop's own timers.
    """

    def wall_ms(self) -> int:
        """
        Milliseconds since 1970, by the instance's wall clock: it gives slots.
        """

    def suspend_ms(self) -> int:
        """
        Milliseconds of a clock that never steps and counts suspended time: it judges leases.
        """


class SystemClock:
    """
    This machine's clocks.
    """

    __slots__ = ()

    def wall_ms(self) -> int:
        """
        Read the wall clock, in integers: floats lose milliseconds.
        """
        return time.time_ns() // 1_000_000

    def suspend_ms(self) -> int:
        """
        Read the clock that counts suspended time.
        """
        if _SUSPEND_CLOCK < 0:
            return time.monotonic_ns() // 1_000_000
        return time.clock_gettime_ns(_SUSPEND_CLOCK) // 1_000_000
