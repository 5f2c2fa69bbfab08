"""
The clocks of a machine: wrong, drifting, stepped, and suspended.

True time is the kernel's, in microseconds. All clocks are integers, so that a year of
drift loses nothing.
"""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["START_MS", "MachineClock"]

START_MS = 1_767_225_600_000
"""
2026-01-01T00:00:00Z: where virtual time begins, unless something else is said.
"""

_MILLION = 1_000_000


class MachineClock:
    """
    A wall clock, a monotonic clock, and one that also counts suspended time.

    It is the `Clock` of a scheduler.

    Args:
        true_us: Tells the true time.

        start_ms: The true wall time at which the world began.

        offset_ms: How far the wall clock is ahead.

        drift_ppm: By how many millionths all clocks run fast.
    """

    def __init__(
        self,
        true_us: Callable[[], int],
        *,
        start_ms: int = START_MS,
        offset_ms: int = 0,
        drift_ppm: int = 0,
    ) -> None:
        self._true_us = true_us
        self._began_us = true_us()
        self._rate = _MILLION + drift_ppm
        self._wall_us = (start_ms + offset_ms) * 1_000 + self._began_us
        self._overslept_us = 0
        self._asleep_at_us: int | None = None

    # As a scheduler reads them.

    def wall_ms(self) -> int:
        """
        Read the wall clock.
        """
        return (self._wall_us + self.boot_us()) // 1_000

    def suspend_ms(self) -> int:
        """
        Read the clock that counts suspended time.
        """
        return self.boot_us() // 1_000

    # As a loop, or the world, reads and moves them.

    def boot_us(self) -> int:
        """
        Read the clock that counts suspended time, since this machine is there.
        """
        return (self._true_us() - self._began_us) * self._rate // _MILLION

    def monotonic_us(self) -> int:
        """
        Read the clock of loops, which may have missed a suspend.
        """
        now_us = self.boot_us() if self._asleep_at_us is None else self._asleep_at_us
        return now_us - self._overslept_us

    def true_us_of(self, monotonic_us: int) -> int:
        """
        Say when in true time the monotonic clock will have got there, unless it is suspended.
        """
        passed_us = monotonic_us + self._overslept_us
        return self._began_us - (-passed_us * _MILLION // self._rate)

    @property
    def asleep(self) -> bool:
        """
        Whether the monotonic clock stands.
        """
        return self._asleep_at_us is not None

    def step(self, duration_ms: int) -> None:
        """
        Step the wall clock alone.
        """
        self._wall_us += duration_ms * 1_000

    def fall_asleep(self) -> None:
        """
        Let the monotonic clock stand: the machine is suspended.
        """
        if self._asleep_at_us is None:
            self._asleep_at_us = self.boot_us()

    def wake_up(self) -> None:
        """
        Let it go on from where it stood.
        """
        if self._asleep_at_us is not None:
            self._overslept_us += self.boot_us() - self._asleep_at_us
            self._asleep_at_us = None
