"""
One instance of the demo: a process with the same two jobs as the others, on the same SQLite file.

Each event goes to standard output as a line of JSON, for run.py to tell. Each handler also appends what it does to a
file that all instances share: evidence that does not come from the scheduler.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import threading
import time
from pathlib import Path

from anarchon import HandOver, RunContext, Scheduler
from anarchon.events import Event
from anarchon_sqlite import SqliteBackend

WORK_S = 6
TOLD = (
    "scheduler_started",
    "start",
    "finish",
    "takeover",
    "handover",
    "lost",
    "miss",
    "outage",
    "error",
)


def tell(event: Event) -> None:
    """
    Write an event as a line of JSON.
    """
    names = ("job", "slot", "attempt", "status", "from_instance", "reason")
    told = {name: getattr(event, name) for name in names if getattr(event, name, None) is not None}
    line = {"type": event.type, "instance": event.instance, "at_ms": time.time_ns() // 1_000_000}
    print(json.dumps({**line, **told}), flush=True)


def note(evidence: Path, ctx: RunContext, what: str) -> None:
    """
    Append a line to the evidence, in one write, so that lines of several processes never mix.
    """
    mark = {
        "what": what,
        "job": ctx.job,
        "slot": ctx.slot,
        "attempt": ctx.attempt,
        "instance": ctx.instance_id,
        "at_ms": time.time_ns() // 1_000_000,
    }
    file = os.open(evidence, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, f"{json.dumps(mark)}\n".encode())
    finally:
        os.close(file)


def build(name: str, store: Path, evidence: Path, offset_ms: int) -> Scheduler:
    """
    Make the scheduler and its jobs. Nothing here differs between instances but the name.
    """
    scheduler = Scheduler(
        SqliteBackend(store), instance_id=name, heartbeat="1s", lease="3s", stop_timeout="5s"
    )

    @scheduler.every("tick", "1s")
    def tick(ctx: RunContext) -> None:
        note(evidence, ctx, "begin")

    @scheduler.every("report", "20s", offset=f"{offset_ms}ms", jitter="200ms")
    async def report(ctx: RunContext) -> None:
        note(evidence, ctx, "begin")
        try:
            async with asyncio.timeout(
                WORK_S
            ):  # The work: it takes its time, unless it is asked to stop.
                await ctx.stopping.wait()
        except TimeoutError:
            note(evidence, ctx, "end")
        else:
            raise HandOver  # Another instance goes on.

    for event_type in TOLD:
        scheduler.on(event_type, tell)
    return scheduler


def stop_with_parent() -> None:
    """
    Stop when run.py is gone, however it went: then this end of its pipe reads nothing more.
    """
    while os.read(
        0, 1
    ):  # Past the buffer of sys.stdin, which must be free when the interpreter ends.
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def main() -> None:
    """
    Run one instance until SIGTERM.
    """
    parser = argparse.ArgumentParser(description="Run one instance of the demo.")
    parser.add_argument("name")
    parser.add_argument("store", type=Path)
    parser.add_argument("evidence", type=Path)
    parser.add_argument("offset_ms", type=int)
    options = parser.parse_args()
    threading.Thread(target=stop_with_parent, daemon=True).start()
    build(options.name, options.store, options.evidence, options.offset_ms).run()


if __name__ == "__main__":
    main()
