"""
The program of an instance: `python -m instances.worker NAME FOLDER CLOCK_OFFSET_MS`.

It tells "ready" once everything is imported, reads its plan from standard input, and runs it until SIGTERM. After the
plan it takes commands, a line each: ``cpu`` tells the processor time used, ``limit BYTES`` bounds the size of files
that it writes. When standard input ends, so does the process: the stage is gone, however it went.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

# Bound before the clocks lie.
from time import process_time_ns, time_ns
from typing import Any

from anarchon import Runtime, Scheduler
from anarchon.events import Event
from anarchon.runtime import on_handlers_loop
from anarchon_chaos.evidence import append_told, open_log
from anarchon_chaos.lying import Liar
from anarchon_sqlite import SqliteBackend
from instances.handlers import handler_for
from instances.plan import TOLD, InstancePlan

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

Tell = Callable[[str, dict[str, Any]], None]


def main() -> None:
    """
    Run one instance.
    """
    if sys.platform == "linux":
        # A stopped process reads no end of its standard input; the kernel ends it all the same.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    name, folder, offset_ms = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    if offset_ms:
        Liar().offset_ms = offset_ms
    events, marks = open_log(folder / "events"), open_log(folder / "marks")
    lines = read_lines()

    def tell(kind: str, detail: dict[str, Any]) -> None:
        append_told(events, kind, name, detail)

    tell("ready", {})
    plan = InstancePlan.load(next(lines))
    threading.Thread(target=obey, args=(lines, tell), daemon=True).start()
    scheduler = build(plan, name, folder / "store" / "jobs.db", marks, tell)
    if plan.stop_at_ms is not None:
        threading.Thread(target=stop_at, args=(plan.stop_at_ms,), daemon=True).start()
    if plan.start_at_ms is not None:
        wait_until(plan.start_at_ms)
    scheduler.run()


def build(plan: InstancePlan, name: str, store: Path, marks: int, tell: Tell) -> Scheduler:
    """
    Make the scheduler that a plan describes.
    """
    runtime = Runtime(start_loop=on_handlers_loop) if plan.on_handlers_loop else None
    scheduler = Scheduler(
        SqliteBackend(store),
        instance_id=plan.instance_id or name,
        runtime=runtime,
        **plan.options,
    )
    for job in plan.jobs:
        handler: Any = handler_for(marks, job)
        if job.every_ms is None:
            scheduler.once(job.name, job.offset_ms, handler, **job.options)
        else:
            offset = f"{job.offset_ms}ms"
            scheduler.every(job.name, f"{job.every_ms}ms", handler, offset=offset, **job.options)
    for kind in (*TOLD, *plan.tell):
        scheduler.on(kind, partial(tell_event, tell))
    return scheduler


def tell_event(tell: Tell, event: Event) -> None:
    """
    Tell what an event carries.
    """
    detail = {name: getattr(event, name) for name in _DETAILS if hasattr(event, name)}
    error = getattr(event, "error", None)
    if error is not None:
        detail["error"] = f"{type(error).__name__}: {error}"
    tell(event.type, detail)


def obey(lines: Iterator[str], tell: Tell) -> None:
    """
    Carry out the stage's commands.
    """
    for line in lines:
        command, _, argument = line.partition(" ")
        if command == "cpu":
            tell("cpu", {"cpu_ns": process_time_ns()})
        elif command == "limit":
            _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
            soft = hard if argument == "none" else int(argument)
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
            tell("limit", {})
    os.kill(os.getpid(), signal.SIGKILL)


def read_lines() -> Iterator[str]:
    """
    Read standard input, past the buffer of sys.stdin, which must be free when the interpreter ends.
    """
    kept = b""
    while chunk := os.read(0, 65_536):
        kept += chunk
        *whole, kept = kept.split(b"\n")
        yield from (line.decode() for line in whole)


def stop_at(instant_ms: int) -> None:
    """
    Send SIGTERM to this process at an instant.
    """
    wait_until(instant_ms)
    os.kill(os.getpid(), signal.SIGTERM)


def wait_until(instant_ms: int) -> None:
    """
    Return at an instant of the true wall clock.
    """
    while (left_ms := instant_ms - time_ns() // 1_000_000) > 0:
        time.sleep(min(left_ms, 50) / 1_000)  # The instant itself is what is waited for.


if __name__ == "__main__":
    main()
