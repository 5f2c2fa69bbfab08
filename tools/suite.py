"""
Run the whole suite: the quick tests in parallel, then the slow ones folder by folder, then the kit on every backend.

Slow tests wait more than they compute (for leases, servers, processes), so that a few
folders run at a time, each in a process of its own; the same holds for the kit's backends.
What measures the machine, or fills it by itself, runs alone before them.

Every step runs, whatever became of those before it. The last line has the form
`N passed, N failed, N skipped`; a step that ended badly without a failed test counts as one
failure, and under CI=true a skipped test counts as a failure too.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import entry_points, version
from pathlib import Path

from tally import Tally, count, note_failure

ROOT = Path(__file__).resolve().parent.parent
REPORTS = ROOT / "reports"
NO_TEST_COLLECTED = 5
PATIENCE = "--timeout=400"
"""
How long a test may take that shares two cores with other folders: one that hangs still ends the run.
"""
BESIDE = 3
ALONE = {"load": ("tests/processes/test_load.py", "tests/test_bench.py"), "chaos": ("chaos/tests",)}
"""
What runs with the whole machine to itself, by the name of its step.
"""
LONGEST = ("simulation", "repository", "redis", "rabbitmq", "processes", "postgres", "nats")
"""
The folders that are begun first, so that none of them is left alone at the end.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """
    One run of pytest.

    `may_be_empty` is for a step of which a selection (`-k`) may leave nothing;
    `beside_others` for one that mostly waits, and runs while others of its kind do.
    """

    name: str
    arguments: tuple[str, ...]
    may_be_empty: bool = False
    beside_others: bool = False

    @property
    def junit(self) -> Path:
        """
        Where this step's outcomes go.
        """
        return REPORTS / f"{self.name}.xml"


def steps(only: str | None, extra: Sequence[str]) -> Iterator[Step]:
    """
    Name the runs, in their order.
    """
    selection = bool(extra)
    if only in (None, "quick"):
        yield Step(
            name="quick",
            arguments=("-n", "auto", "--dist", "worksteal", "-m", "not slow", *extra),
            may_be_empty=selection,
        )
    if only in (None, "slow"):
        for name, paths in ALONE.items():
            yield Step(
                name=f"slow-{name}",
                arguments=("-m", "slow", PATIENCE, *paths, *extra),
                may_be_empty=selection,
            )
        for name, paths in slow_folders():
            yield Step(
                name=f"slow-{name}",
                arguments=("-m", "slow", PATIENCE, *paths, *extra),
                may_be_empty=True,
                beside_others=True,
            )
    if only == "kit" or (only is None and not selection):
        for backend in sorted({point.name for point in entry_points(group="anarchon.conformance")}):
            yield Step(
                name=f"kit-{backend}",
                arguments=(
                    "--pyargs",
                    "anarchon_conformance",
                    PATIENCE,
                    f"--anarchon-backend={backend}",
                    *extra,
                ),
                may_be_empty=selection,
                beside_others=True,
            )


def slow_folders() -> Iterator[tuple[str, tuple[str, ...]]]:
    """
    Name the folders of tests, those that take longest first.
    """
    found: dict[str, tuple[str, ...]] = {
        path.parent.name.removeprefix("anarchon-"): (str(path.relative_to(ROOT)),)
        for path in (*ROOT.glob("packages/*/tests"), *ROOT.glob("*/tests"))
    }
    alone = [f"--ignore={path}" for paths in ALONE.values() for path in paths]
    processes = "tests/processes"
    found["processes"] = (processes, *alone)
    found["repository"] = ("tests", f"--ignore={processes}", *alone)
    del found["chaos"]
    order = [name for name in LONGEST if name in found]
    for name in (*order, *sorted(found.keys() - set(order))):
        yield name, found[name]


def run(step: Step) -> Tally:
    """
    Run one step in a process of its own, with its output in plain sight.
    """
    command = [sys.executable, "-m", "pytest", f"--junitxml={step.junit}", *step.arguments]
    print(f"\n--- {step.name}: pytest {' '.join(step.arguments)}", flush=True)
    begun = time.monotonic()
    ended = subprocess.run(
        command,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE if step.beside_others else None,
        stderr=subprocess.STDOUT if step.beside_others else None,
        text=True,
        check=False,
    )
    status = ended.returncode
    if ended.stdout:
        print(ended.stdout, flush=True)
    tally = count(step.junit)
    if status == NO_TEST_COLLECTED and step.may_be_empty:
        status = 0
    if status and not tally.failed:
        print(f"{step.name} ended with status {status} though no test failed: one failure.")
        tally += note_failure(
            REPORTS / f"{step.name}-status.xml", f"{step.name} ended with {status}"
        )
    print(
        f"--- {step.name}: {tally.closing_line()} in {time.monotonic() - begun:.0f} s", flush=True
    )
    return tally


def main() -> int:
    """
    Run the steps, add up, and end with 1 if anything failed.
    """
    parser = argparse.ArgumentParser(description="Run the whole suite.")
    parser.add_argument("--only", choices=("quick", "slow", "kit"), help="run one part alone")
    options, extra = parser.parse_known_args()
    print(
        f"anarchon {version('anarchon')} on Python {platform.python_version()}, "
        f"{platform.system()} {platform.machine()}, SQLite {sqlite3.sqlite_version}, pytest {version('pytest')}",
        flush=True,
    )
    shutil.rmtree(REPORTS, ignore_errors=True)
    planned = list(steps(options.only, extra))
    results = {step.name: run(step) for step in planned if not step.beside_others}
    with ThreadPoolExecutor(BESIDE) as pool:
        beside = [step for step in planned if step.beside_others]
        results.update(zip((step.name for step in beside), pool.map(run, beside), strict=True))
    total = sum(results.values(), Tally())
    print()
    for name, tally in results.items():
        apart = f", {tally.not_applicable} not applicable" if tally.not_applicable else ""
        apart += f", {tally.noted} noted" if tally.noted else ""
        apart += f", {tally.waived} waived" if tally.waived else ""
        print(f"{name:18} {tally.closing_line()}{apart}")
    for skip in total.skips:
        print(f"skipped: {skip}")
    if total.skipped and os.environ.get("CI") == "true":
        print("A skipped test proves nothing, so it fails here (CI=true).")
    for failure in total.failures:
        print(f"failed: {failure}")
    print(total.closing_line())
    return int(bool(total.failed) or (bool(total.skipped) and os.environ.get("CI") == "true"))


if __name__ == "__main__":
    raise SystemExit(main())
