"""
An instance in a process of its own: what the kit starts, with a clock that may lie.

``python -m anarchon_conformance.child`` reads one line of JSON, opens the backend, writes
``ready``, waits for a line, does what it was told, and writes what it saw as one line.
"""

from __future__ import annotations

import datetime as dt
import json
import sys
import time
from typing import Any

__all__ = ["main"]


def _lie(offset_ms: int) -> None:
    """
    Put every wall clock of this process wrong; what counts suspended time stays true.

    It has to happen before anything else takes a reference to these functions.
    """
    true_time, true_time_ns = time.time, time.time_ns
    true_get, true_get_ns = time.clock_gettime, time.clock_gettime_ns
    true_gmtime, true_localtime = time.gmtime, time.localtime
    offset_ns = offset_ms * 1_000_000
    wall = getattr(time, "CLOCK_REALTIME", None)

    def lying_time() -> float:
        return true_time() + offset_ms / 1_000

    def lying_time_ns() -> int:
        return true_time_ns() + offset_ns

    def lying_get(clock: int) -> float:
        return true_get(clock) + (offset_ms / 1_000 if clock == wall else 0)

    def lying_get_ns(clock: int) -> int:
        return true_get_ns(clock) + (offset_ns if clock == wall else 0)

    class LyingDatetime(dt.datetime):
        @classmethod
        def now(cls, tz: dt.tzinfo | None = None) -> LyingDatetime:
            return cls.fromtimestamp(lying_time(), tz)

        @classmethod
        def utcnow(cls) -> LyingDatetime:
            return cls.fromtimestamp(lying_time(), dt.UTC).replace(tzinfo=None)

    def lying_gmtime(seconds: float | None = None) -> time.struct_time:
        return true_gmtime(lying_time() if seconds is None else seconds)

    def lying_localtime(seconds: float | None = None) -> time.struct_time:
        return true_localtime(lying_time() if seconds is None else seconds)

    lies: dict[str, Any] = {
        "time": lying_time,
        "time_ns": lying_time_ns,
        "clock_gettime": lying_get,
        "clock_gettime_ns": lying_get_ns,
        "gmtime": lying_gmtime,
        "localtime": lying_localtime,
    }
    vars(time).update(lies)
    vars(dt)["datetime"] = LyingDatetime


def main() -> None:
    """
    Read the order and carry it out.
    """
    order: dict[str, Any] = json.loads(sys.stdin.readline())
    if order["offset_ms"]:
        _lie(order["offset_ms"])
    sys.path[:] = order["path"]
    from anarchon_conformance.errands import run  # noqa: PLC0415 - only now may anything look at a clock

    run(order)


if __name__ == "__main__":
    main()
