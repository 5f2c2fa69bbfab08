"""
An instance's clocks, or a store's, on the time of a virtual loop.
"""

from __future__ import annotations

from virtual.loop import VirtualLoop

__all__ = ["START_MS", "VirtualClock"]

START_MS = 1_767_225_600_000
"""
2026-01-01T00:00:00Z: where virtual time begins.
"""


class VirtualClock:
    """
    Both clocks follow the loop's time; the wall clock may be wrong, and may step.

    Args:
        loop: Gives the time.

        offset_ms: How far the wall clock is ahead of the true time.
    """

    def __init__(self, loop: VirtualLoop, *, offset_ms: int = 0) -> None:
        self._loop = loop
        self._offset_ms = offset_ms
        self._overslept_ms = 0

    def wall_ms(self) -> int:
        """
        Read the wall clock.
        """
        return START_MS + self._passed_ms() + self._offset_ms

    def suspend_ms(self) -> int:
        """
        Read the clock that never steps.
        """
        return self._passed_ms() + self._overslept_ms

    def step(self, duration_ms: int) -> None:
        """
        Step the wall clock alone.
        """
        self._offset_ms += duration_ms

    def oversleep(self, duration_ms: int) -> None:
        """
        Count a suspend that the loop's own clock does not see.
        """
        self._overslept_ms += duration_ms

    def _passed_ms(self) -> int:
        # A sum of floats may fall short of a whole millisecond by a hair.
        return int(self._loop.time() * 1_000 + 1e-3)
