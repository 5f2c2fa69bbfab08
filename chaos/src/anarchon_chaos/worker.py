"""
The program of an instance: `python -m anarchon_chaos.worker NAME FOLDER`.

It tells "ready" once everything is imported, reads its plan from standard input, and runs it until SIGTERM. After the
plan it takes commands, a line each: `clock MS` puts its wall clock wrong by so much. When standard input ends, so does
the process: whoever watches over it is gone, however that went.
"""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from anarchon_chaos.evidence import append_told, open_log
from anarchon_chaos.lying import Liar

__all__ = ["main"]

_PR_SET_PDEATHSIG = 1
_DETAILS = (
    "job",
    "slot",
    "attempt",
    "reason",
    "status",
    "from_instance",
    "late_ms",
    "duration_ms",
    "first_slot",
    "last_slot",
    "count",
    "which",
    "step_ms",
    "message",
    "unfinished",
)
_TOLD = (
    "scheduler_started",
    "scheduler_stopped",
    "claim",
    "skip",
    "miss",
    "takeover",
    "handover",
    "lost",
    "block",
    "outage",
    "recovered",
    "clock",
    "error",
)

_Tell = Callable[[str, dict[str, Any]], None]


def main() -> None:
    """
    Run one instance.
    """
    if sys.platform == "linux":
        # A stopped process reads no end of its standard input; the kernel ends it all the same.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    name, folder = sys.argv[1], Path(sys.argv[2])
    events, marks = open_log(folder / "events"), open_log(folder / "marks")
    lines = _lines()
    liar = Liar()

    def tell(kind: str, detail: dict[str, Any]) -> None:
        append_told(events, kind, name, detail)

    # The clocks of this process lie from here on, and what is imported now reads them.
    from anarchon import Scheduler, backend_from_url  # noqa: PLC0415 - see the line above
    from anarchon_chaos.handlers import handler_for  # noqa: PLC0415 - the same
    from anarchon_chaos.plans import WorkerPlan  # noqa: PLC0415 - the same

    gc.freeze()
    tell("ready", {})
    first = next(lines)
    while first.startswith("clock "):
        liar.offset_ms = int(first.split()[1])
        first = next(lines)
    plan = WorkerPlan.load(first)
    threading.Thread(target=_obey, args=(lines, liar, tell), daemon=True).start()
    scheduler = Scheduler(backend_from_url(plan.url), instance_id=name, **plan.options)
    for job in plan.jobs:
        handler: Any = handler_for(marks, job)
        offset = f"{job.offset_ms}ms"
        scheduler.every(job.name, f"{job.every_ms}ms", handler, offset=offset, **job.options)
    for kind in _TOLD:
        scheduler.on(kind, partial(_tell_event, tell))
    scheduler.run()


def _tell_event(tell: _Tell, event: Any) -> None:
    detail = {name: getattr(event, name) for name in _DETAILS if hasattr(event, name)}
    error = getattr(event, "error", None)
    if error is not None:
        detail["error"] = f"{type(error).__name__}: {error}"
        if error.__cause__ is not None:
            detail["cause"] = f"{type(error.__cause__).__name__}: {error.__cause__}"
    tell(event.type, detail)


def _obey(lines: Iterator[str], liar: Liar, tell: _Tell) -> None:
    for line in lines:
        command, _, argument = line.partition(" ")
        assert command == "clock"
        liar.offset_ms = int(argument)
        tell("clock_set", {"offset_ms": liar.offset_ms})
    os.kill(os.getpid(), signal.SIGKILL)


def _lines() -> Iterator[str]:
    # Past the buffer of sys.stdin, which must be free when the interpreter ends.
    kept = b""
    while chunk := os.read(0, 65_536):
        kept += chunk
        *whole, kept = kept.split(b"\n")
        yield from (line.decode() for line in whole)


if __name__ == "__main__":
    main()
