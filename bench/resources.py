"""
What jobs cost while nothing is due: memory a job, and the CPU of an idle process.

Each figure comes from a process of its own. The share of a core is taken between
two points after start(), so that starting up is not in it.

    python -m bench.resources [--seconds N] [--json PATH]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
import tracemalloc
from pathlib import Path
from typing import Any

from anarchon import Scheduler
from anarchon_sqlite import SqliteBackend


def handler() -> None:
    """
    Be what a daily job calls; it is not due while this runs.
    """


def scheduler_of(path: Path, jobs: int) -> Scheduler:
    """
    Define daily jobs, spread over the day but for the hour around now.
    """
    scheduler = Scheduler(SqliteBackend(path), heartbeat="10s")
    hour = (time.gmtime().tm_hour + 12) % 24
    for number in range(jobs):
        scheduler.cron(
            f"daily-{number}", f"{number % 60} {(hour + number // 60 % 3) % 24} * * *", handler
        )
    return scheduler


async def idle(path: Path, jobs: int, seconds: float) -> dict[str, Any]:
    """
    Measure the CPU of a process whose jobs are not due.
    """
    scheduler = scheduler_of(path, jobs)
    async with scheduler:
        await asyncio.sleep(
            1
        )  # What starting up leaves to do must not be in the figure, and tells nobody when it is done.
        before, begun = resource.getrusage(resource.RUSAGE_SELF), time.monotonic()
        await asyncio.sleep(seconds)
        after = resource.getrusage(resource.RUSAGE_SELF)
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return {
            "share_percent": used / (time.monotonic() - begun) * 100,
            "wakes": after.ru_nvcsw - before.ru_nvcsw,
            "seconds": seconds,
        }


async def memory(path: Path, jobs: int) -> dict[str, Any]:
    """
    Measure what the jobs of a running scheduler hold.
    """
    async with scheduler_of(path.with_name("few.db"), 1):
        pass
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    async with scheduler_of(path, jobs):
        after, _ = tracemalloc.get_traced_memory()
    return {"bytes_per_job": (after - before) / jobs}


def measure(what: str, jobs: int, seconds: float) -> dict[str, Any]:
    """
    Measure in a process of its own.
    """
    command = [
        sys.executable,
        __file__,
        "--worker",
        what,
        "--jobs",
        str(jobs),
        "--seconds",
        str(seconds),
    ]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def main() -> None:
    """
    Measure, print, and write the figures down if asked.
    """
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--jobs", type=int, default=1_000)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--worker", choices=["idle", "memory"], help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "jobs.db"
            body = (
                idle(path, arguments.jobs, arguments.seconds)
                if arguments.worker == "idle"
                else memory(path, arguments.jobs)
            )
            json.dump(asyncio.run(body), sys.stdout)
        return
    held = measure("memory", 10 * arguments.jobs, arguments.seconds)
    print(f"memory a job (of {10 * arguments.jobs} daily ones): {held['bytes_per_job']:.0f} bytes")
    share = measure("idle", arguments.jobs, arguments.seconds)
    print(
        f"idle with {arguments.jobs} daily jobs for {arguments.seconds:g} s: {share['share_percent']:.3f} % of a core,"
        f" {share['wakes']} wakes"
    )
    if arguments.json:
        arguments.json.write_text(json.dumps({"memory": held, "idle": share}, indent=2))


if __name__ == "__main__":
    main()
