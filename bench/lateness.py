"""
How late runs start, and what they cost, beside a floor in the same run.

The floor is the least that any scheduler on a store has to do: three asyncio
processes that wake at each slot and race for it, all jobs of an instant in one round
trip; no lease, no history, no takeover (stores.py). Both do the same slots in turn,
so that a noisy machine disturbs both alike. Figures are ratios.

    python -m bench.lateness [--store sqlite|redis|postgres] [--rounds N] [--only one|burst] [--json PATH]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anarchon import RunContext, Scheduler
from bench.stores import STORES, apart, racer, url_of

PROCESSES = 3

# From when all processes are ready to the first slot that counts, at the least.
READY_S = 0.7
ROOT = Path(__file__).parent.parent


def cpu_s() -> float:
    """
    Return the CPU time of this process in seconds.
    """
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """
    Which slots are run, by how many jobs, on which store.
    """

    url: str
    jobs: int
    interval_ms: int
    slots: int

    def arguments(self) -> list[str]:
        """
        Hand the plan to a worker.
        """
        return [
            *("--url", self.url, "--jobs", str(self.jobs)),
            *("--interval-ms", str(self.interval_ms), "--slots", str(self.slots)),
        ]

    async def agreed(self) -> range:
        """
        Say that this process is ready, and hear which slots count.
        """
        print("ready", flush=True)
        first = int(await asyncio.to_thread(sys.stdin.readline))
        return range(first, first + self.slots * self.interval_ms, self.interval_ms)


class Log:
    """
    What a worker saw: each start with its lateness in microseconds.
    """

    def __init__(self) -> None:
        self.starts: list[tuple[str, int, int]] = []

    def start(self, job: str, slot: int) -> None:
        """
        Note that the run of *slot* begins now.
        """
        self.starts.append((job, slot, time.time_ns() // 1_000 - slot * 1_000))


async def floor(plan: Plan, log: Log) -> float:
    """
    Race the bare claims; returns the CPU seconds that the slots cost.
    """
    race = await racer(plan.url)
    loop = asyncio.get_running_loop()
    names = [f"job-{number}" for number in range(plan.jobs)]
    slots = await plan.agreed()
    begun = cpu_s()
    for slot in slots:
        due: asyncio.Future[None] = loop.create_future()
        loop.call_at(loop.time() + slot / 1_000 - time.time(), due.set_result, None)
        await due
        for name in await race(names, slot):
            log.start(name, slot)
    return cpu_s() - begun


async def anarchon(plan: Plan, log: Log) -> float:
    """
    Run the same slots with a scheduler; returns the CPU seconds that they cost.
    """
    scheduler = Scheduler(plan.url, jitter=0)

    async def handler(ctx: RunContext) -> None:
        log.start(ctx.job, ctx.slot)

    for number in range(plan.jobs):
        scheduler.every(f"job-{number}", plan.interval_ms / 1_000, handler)
    async with scheduler:
        slots = await plan.agreed()
        await asyncio.sleep(max(0, slots[0] / 1_000 - time.time() - 0.3))
        begun = cpu_s()
        await asyncio.sleep(slots[-1] / 1_000 - time.time() + plan.interval_ms / 2_000)
        used = cpu_s() - begun
    log.starts = [start for start in log.starts if start[1] in slots]
    return used


def work(arguments: argparse.Namespace) -> None:
    """
    Be one of the three processes.
    """
    # Slots before the first that counts may be missed while the others start.
    logging.getLogger("anarchon").setLevel(logging.ERROR)
    log = Log()
    bodies: dict[str, Callable[[Plan, Log], Any]] = {"floor": floor, "anarchon": anarchon}
    plan = Plan(
        url=arguments.url,
        jobs=arguments.jobs,
        interval_ms=arguments.interval_ms,
        slots=arguments.slots,
    )
    used = asyncio.run(bodies[arguments.worker](plan, log))
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_024
    json.dump(
        {"starts": log.starts, "cpu_s": used, "peak_mb": peak_mb, "pid": os.getpid()}, sys.stdout
    )


@contextmanager
def workers(who: str, plan: Plan) -> Iterator[list[Any]]:
    """
    Start the three processes, and kill whatever is left of them at the end.
    """
    command = [sys.executable, "-m", "bench.lateness", "--worker", who, *plan.arguments()]
    processes = [
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
        )
        for _ in range(PROCESSES)
    ]
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.wait()


def measure(who: str, url: str, jobs: int, interval_ms: int, slots: int) -> dict[str, Any]:
    """
    Run one phase and sum it up.
    """
    place = apart(url, f"{who}_{time.time_ns() // 1_000_000}")
    plan = Plan(url=place, jobs=jobs, interval_ms=interval_ms, slots=slots)
    with workers(who, plan) as processes:
        for process in processes:
            assert process.stdout.readline() == "ready\n", f"a process of {who} did not start"
        start_ms = int((time.time() + READY_S) * 1_000)
        first = f"{start_ms // interval_ms * interval_ms + interval_ms}\n"
        for process in processes:
            process.stdin.write(first)
            process.stdin.flush()
        reports = [json.loads(process.communicate()[0]) for process in processes]
    starts = [tuple(start) for report in reports for start in report["starts"]]
    per_run = Counter((job, slot) for job, slot, _ in starts)
    late_ms = sorted(late / 1_000 for _, _, late in starts)
    return {
        "who": who,
        "runs": len(per_run),
        "expected": jobs * slots,
        "extra": len(starts) - len(per_run),
        "p50_ms": statistics.median(late_ms),
        "p99_ms": late_ms[min(len(late_ms) - 1, int(len(late_ms) * 0.99))],
        "cpu_s_per_1000": sum(report["cpu_s"] for report in reports) / len(starts) * 1_000,
        "peak_mb": max(report["peak_mb"] for report in reports),
    }


def compare(
    title: str, url: str, *, jobs: int, interval_ms: int, slots: int, rounds: int
) -> dict[str, Any]:
    """
    Alternate both, and print them beside each other.
    """
    phases = [
        (who, measure(who, url, jobs, interval_ms, slots))
        for _ in range(rounds)
        for who in ("floor", "anarchon")
    ]
    summary: dict[str, Any] = {"title": title}
    print(f"\n{title} ({PROCESSES} processes, {rounds} rounds in turn)")
    print(
        f"{'':10} {'runs':>12} {'extra':>6} {'p50 ms':>9} {'p99 ms':>9} {'CPU s/1000':>11} {'peak MB':>8}"
    )
    for who in ("floor", "anarchon"):
        mine = [phase for name, phase in phases if name == who]
        figures = {
            key: statistics.median(phase[key] for phase in mine)
            for key in ("p50_ms", "p99_ms", "cpu_s_per_1000", "peak_mb")
        }
        figures["runs"] = sum(phase["runs"] for phase in mine)
        figures["expected"] = sum(phase["expected"] for phase in mine)
        figures["extra"] = sum(phase["extra"] for phase in mine)
        summary[who] = figures
        print(
            f"{who:10} {figures['runs']:>5}/{figures['expected']:<6} {figures['extra']:>6} {figures['p50_ms']:>9.2f}"
            f" {figures['p99_ms']:>9.2f} {figures['cpu_s_per_1000']:>11.3f} {figures['peak_mb']:>8.1f}"
        )
    ratios = {
        key: summary["anarchon"][key] / max(1e-9, summary["floor"][key])
        for key in ("p50_ms", "p99_ms", "cpu_s_per_1000")
    }
    summary["ratios"] = ratios
    print("ratio      " + "  ".join(f"{key} {value:.2f}" for key, value in ratios.items()))
    return summary


def main() -> None:
    """
    Measure, print, and write the figures down if asked.
    """
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    parser.add_argument("--store", choices=STORES, default="sqlite")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", choices=["one", "burst"])
    parser.add_argument("--jobs", type=int, help="how many are due at one instant")
    parser.add_argument("--worker", choices=["floor", "anarchon"], help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    for hidden in ("--interval-ms", "--slots"):
        parser.add_argument(hidden, type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        work(arguments)
        return
    results = []
    with tempfile.TemporaryDirectory() as name:
        url = url_of(arguments.store, Path(name))
        if arguments.only != "burst":
            results.append(
                compare(
                    f"{arguments.store}: one job every second",
                    url,
                    jobs=1,
                    interval_ms=1_000,
                    slots=8,
                    rounds=arguments.rounds,
                )
            )
        if arguments.only != "one":
            results.append(
                compare(
                    f"{arguments.store}: {arguments.jobs or 1_000} jobs due at one instant",
                    url,
                    jobs=arguments.jobs or 1_000,
                    interval_ms=arguments.interval_ms or 4_000,
                    slots=arguments.slots or 3,
                    rounds=arguments.rounds,
                )
            )
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
