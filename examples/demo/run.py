"""
Show three processes that share a schedule in one SQLite file, one of them killed in the middle of a run.

It takes about half a minute, ends by itself, and checks what it says: exit status 1 if anything was not as promised.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from evidence import Case, Story, examine, read_marks
from fleet import DemoError, Fleet, Told, now_ms
from rich.console import Console
from rich.table import Table

from anarchon import RunRecord, backend_from_url

NAMES = ("A", "B", "C")
HEARTBEAT_MS = 1_000
LEASE_MS = 3_000
INTERVAL_MS = 20_000
LEAD_MS = 6_000
LIMIT_S = 50
BEGUN = time.monotonic()


def say(text: str) -> None:
    """
    Print a sentence with the seconds since the beginning.
    """
    print(f"{time.monotonic() - BEGUN:5.1f} s  {text}", flush=True)


def clock_of(slot: int) -> str:
    """
    Write a slot as people read a clock, in UTC.
    """
    return f"{datetime.fromtimestamp(slot / 1_000, UTC):%H:%M:%S}"


def heard(told: Told) -> None:
    """
    Say in words what an instance tells.
    """
    name, kind = told["instance"], told["type"]
    if kind == "scheduler_started":
        say(f"{name} is up.")
    elif kind == "takeover":
        say(
            f"{name} takes the report over from {told['from_instance']}: attempt {told['attempt']}."
        )
    elif kind == "handover":
        say(f"{name} hands the report over.")
    elif kind == "finish" and told["job"] == "tick":
        say(f"tick of {clock_of(told['slot'])}: {name} won and ran it.")
    elif kind == "finish":
        say(f"{name} has finished the report: {told['status']}.")
    elif kind != "start":
        say(f"{name}: {told}")


async def show(fleet: Fleet, folder: Path) -> Story:
    """
    Start the instances, kill one, stop the others, and say what was done.

    Raises:
        DemoError: An instance ended by itself.
    """
    offset_ms = (now_ms() + LEAD_MS) // 1_000 * 1_000 % INTERVAL_MS
    for name in NAMES:
        await fleet.start(name, folder / "jobs.db", folder / "evidence", str(offset_ms))
    say(
        f"Started {', '.join(f'{name} (process {fleet.pid(name)})' for name in NAMES)} on one SQLite file."
    )
    await fleet.up()
    up_ms = now_ms()
    first = await fleet.seen(lambda told: _begins(told, 1, at_least=up_ms))
    slot = first["slot"]
    killed = first["instance"]
    others = [name for name in fleet.alive if name != killed]
    say(
        f"report of {clock_of(slot)}: {killed} won and works for 6 s."
        f" {' and '.join(others)} lost: as backups they watch its lease."
    )
    await _two_ticks(fleet, first)
    await fleet.quiet()
    killed_ms = fleet.signal(killed, signal.SIGKILL)
    say(f"Killed {killed} with SIGKILL in the middle of the report. Its lease of 3 s runs out now.")
    second = await fleet.seen(lambda told: _begins(told, 2, at_least=slot))
    stopped = second["instance"]
    say(f"{stopped} runs attempt 2, {(second['at_ms'] - killed_ms) / 1_000:.1f} s after the kill.")
    await _two_ticks(fleet, second)
    await fleet.quiet()
    fleet.signal(stopped, signal.SIGTERM)
    say(f"Asked {stopped} to stop with SIGTERM, in the middle of attempt 2.")
    third = await fleet.seen(lambda told: _begins(told, 3, at_least=slot))
    last = third["instance"]
    await fleet.ended(stopped)
    say(f"{stopped} has ended. {last} is alone, runs attempt 3 and every tick.")
    await fleet.seen(
        lambda told: told["type"] == "finish" and (told["job"], told["slot"]) == ("report", slot)
    )
    await fleet.quiet()
    fleet.signal(last, signal.SIGTERM)
    say(f"Asked {last} to stop with SIGTERM; it runs nothing now.")
    await fleet.ended(last)
    say(f"{last} has ended.")
    return Story(
        slot=slot,
        killed=killed,
        killed_ms=killed_ms,
        stopped=stopped,
        last=last,
        lease_ms=LEASE_MS,
        heartbeat_ms=HEARTBEAT_MS,
        exits=dict(fleet.exits),
    )


async def read_history(store: Path) -> Sequence[RunRecord]:
    """
    Read every record as anyone can: by the URL, without the jobs.
    """
    backend = backend_from_url(f"sqlite:///{store}")
    try:
        await backend.open(timeout_ms=10_000)
        return await backend.history(None, limit=1_000, timeout_ms=10_000)
    finally:
        await backend.close()


def print_history(records: Sequence[RunRecord]) -> None:
    """
    Print the records as a table, oldest first.
    """
    table = Table(
        "job", "slot", "attempt", "instance", "status", "claimed", "started", "finished", box=None
    )
    for record in reversed(records):
        times = (record.claimed_at, record.started_at, record.finished_at)
        table.add_row(
            record.job,
            clock_of(record.slot),
            str(record.attempt),
            record.instance_id,
            f"{record.status}, {record.reason.replace('_', ' ')}"
            if record.reason
            else record.status,
            *(
                "" if time is None else f"{time:%H:%M:%S}.{time.microsecond // 1_000:03}"
                for time in times
            ),
            style="bold" if record.job == "report" else None,
        )
    console = Console()
    # Rich takes 80 columns where there is no terminal; the table must not be cut there.
    console.width = max(console.width, 110)
    console.print(table)


def conclude(records: Sequence[RunRecord], evidence: str, story: Story) -> int:
    """
    Say what was shown, and return the exit status.
    """
    findings = examine(Case(marks=read_marks(evidence), records=records, story=story))
    print("\nThe history, read from the file after all of them had ended (times in UTC):\n")
    print_history(records)
    print(
        "\nWhat was shown, checked against a file that the handlers append to and against the history:\n"
    )
    for finding in findings:
        print(f"  {'NOT TRUE: ' if finding.wrong else ''}{finding.sentence}")
        if finding.wrong:
            print(f"    {finding.wrong}")
    return int(any(finding.wrong for finding in findings))


async def demo() -> int:
    """
    Run the demo within its time, and leave no process behind.
    """
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, task.cancel)
    with tempfile.TemporaryDirectory(prefix="anarchon-demo-") as name:
        folder = Path(name)
        try:
            async with asyncio.timeout(LIMIT_S), Fleet(heard) as fleet:
                story = await show(fleet, folder)
        except TimeoutError:
            print(f"The demo did not come to its end within {LIMIT_S} s.", file=sys.stderr)
            return 1
        except DemoError as error:
            print(f"The demo could not go on: {error}.", file=sys.stderr)
            return 1
        records = await read_history(folder / "jobs.db")
        return conclude(records, (folder / "evidence").read_text(encoding="utf-8"), story)


def main() -> int:
    """
    Return the exit status of the demo.
    """
    try:
        return asyncio.run(demo())
    except (KeyboardInterrupt, asyncio.CancelledError):
        print("The demo was interrupted.", file=sys.stderr)
        return 130


async def _two_ticks(fleet: Fleet, since: Told) -> None:
    """
    Let two slots of the one-second job go by, for whoever reads along.
    """
    await fleet.seen(
        lambda told: (
            (told["type"], told.get("job")) == ("finish", "tick")
            and told["slot"] > since["at_ms"] + 1_000
        )
    )


def _begins(told: Told, attempt: int, *, at_least: int) -> bool:
    kind = (told["type"], told.get("job"), told.get("attempt"))
    return kind == ("start", "report", attempt) and told["slot"] >= at_least


if __name__ == "__main__":
    raise SystemExit(main())
