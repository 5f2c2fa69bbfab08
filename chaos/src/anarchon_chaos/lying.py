"""
A process whose wall clock is wrong, as all of its Python code sees it.
"""

from __future__ import annotations

import datetime as dt
import time
from typing import Any

__all__ = ["Liar"]


class Liar:
    """
    Puts the wall clock of this process wrong, by an offset that may change; clocks that never step stay true.

    It has to be made before whoever reads the clock is imported.
    """

    def __init__(self) -> None:
        self.offset_ms = 0
        read_of = time.clock_gettime_ns

        def clock_gettime_ns(clock: int) -> int:
            return read_of(clock) + (
                self.offset_ms * 1_000_000 if clock == time.CLOCK_REALTIME else 0
            )

        def time_ns() -> int:
            return clock_gettime_ns(time.CLOCK_REALTIME)

        class LyingDatetime(dt.datetime):
            @classmethod
            def now(cls, tz: dt.tzinfo | None = None) -> LyingDatetime:
                return cls.fromtimestamp(time_ns() / 1e9, tz)

        lies: dict[str, Any] = {
            "time": lambda: time_ns() / 1e9,
            "time_ns": time_ns,
            "clock_gettime": lambda clock: clock_gettime_ns(clock) / 1e9,
            "clock_gettime_ns": clock_gettime_ns,
        }
        vars(time).update(lies)
        vars(dt)["datetime"] = LyingDatetime
