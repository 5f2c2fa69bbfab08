"""
A process whose wall clock is wrong, as all of its Python code sees it.
"""

from __future__ import annotations

import datetime as dt
import time
from typing import Any

__all__ = ["lie"]


def lie(offset_ms: int) -> None:
    """
    Put the wall clock of this process wrong; the clocks that never step stay true.
    """
    offset_ns = offset_ms * 1_000_000
    read, read_of = time.time_ns, time.clock_gettime_ns

    def time_ns() -> int:
        return read() + offset_ns

    def clock_gettime_ns(clock: int) -> int:
        return read_of(clock) + (offset_ns if clock == time.CLOCK_REALTIME else 0)

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
