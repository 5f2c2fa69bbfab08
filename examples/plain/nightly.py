"""
A program that does nothing but run jobs: start it as often as you like, on one host, and each slot runs once.

    python examples/plain/nightly.py sqlite:///jobs.db

It ends on SIGTERM or Ctrl-C, after it has handed over what it was running.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from anarchon import HandOver, RunContext, Scheduler


@dataclass(slots=True, kw_only=True)
class Inbox:
    """
    What the jobs work on. It reaches them as `ctx.state`.
    """

    folder: Path
    seen: set[str] = field(default_factory=set)


def build(backend_url: str, folder: Path) -> Scheduler:
    """
    Make the scheduler with its jobs. `anarchon next` and `anarchon run` can call such a function, too.
    """
    scheduler = Scheduler(
        backend_url, timezone="Europe/Berlin", stop_timeout="10s", state=Inbox(folder=folder)
    )

    @scheduler.every("inbox", "1s", max_lateness="5s")
    async def inbox(ctx: RunContext) -> None:
        new = {path.name for path in ctx.state.folder.glob("*.txt")} - ctx.state.seen
        ctx.state.seen |= new
        print(f"{ctx.slot_time:%H:%M:%S} inbox: {len(new)} new, by {ctx.instance_id}", flush=True)

    @scheduler.cron("summary", "0 8 * * mon-fri", timeout="5m")
    def summary(ctx: RunContext) -> None:
        # A plain function runs in a thread. One that takes long looks up now and then.
        for number, path in enumerate(sorted(ctx.state.folder.glob("*.txt")), 1):
            ctx.check()  # Raises when another instance has taken over.
            if ctx.stopping.is_set():
                raise HandOver  # Another instance starts the next attempt at once.
            print(f"{number}. {path.name}", flush=True)

    @scheduler.once("greeting", datetime(2027, 1, 1, tzinfo=UTC))
    def greeting() -> None:
        print("A good new year.", flush=True)

    return scheduler


def main() -> None:
    """
    Run until a signal.
    """
    url = sys.argv[1] if len(sys.argv) > 1 else "sqlite:///jobs.db"
    build(url, Path.cwd()).run()


if __name__ == "__main__":
    main()
