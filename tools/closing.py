"""
Add up everything that one run of continuous integration did, and close it with one line.
"""

from __future__ import annotations

import argparse
import sqlite3
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pythons
from tally import Tally, count

from anarchon_testbed import available

REPORTS = Path(__file__).resolve().parent.parent / "reports"
COVERAGE_REPEATS_THE_SUITE = "coverage"


def total(files: list[Path], *, gates_failed: int, suite_status: int) -> Tally:
    """
    Count the files, and each gate that failed as one failure.

    The measuring of coverage runs tests of the suite once more, so its file does not count; its gate does. A suite
    that failed and shows no failed and no skipped test broke before it could count, which is a failure too.
    """
    counted = [path for path in files if path.stem != COVERAGE_REPEATS_THE_SUITE]
    tally = sum((count(path) for path in counted), Tally())
    broken = int(suite_status != 0 and not tally.failed and not tally.skipped)
    empty = int(not tally.passed)
    return replace(tally, failed=tally.failed + gates_failed + broken + empty)


def main() -> int:
    """
    Print what was run on, then the closing line. A skipped test is a failure of the run.
    """
    parser = argparse.ArgumentParser(description="Close a run of continuous integration.")
    parser.add_argument("--gates-failed", type=int, required=True)
    parser.add_argument("--suite-status", type=int, required=True)
    options = parser.parse_args()
    tally = total(
        sorted(REPORTS.glob("*.xml")),
        gates_failed=options.gates_failed,
        suite_status=options.suite_status,
    )
    found = ", ".join(f"{major}.{minor}" for major, minor in pythons.supported())
    print(f"Pythons here: {found}. SQLite {sqlite3.sqlite_version}.")
    servers = (f"{one.name} ({one.version or 'not here'})" for one in available())
    print(f"Servers for tests: {', '.join(servers)}.")
    tools = ("anarchon", "aiosqlite", "croniter", "tzdata", "pytest", "hypothesis", "mypy", "ruff")
    print(", ".join(f"{name} {version(name)}" for name in tools))
    if tally.not_applicable:
        print(
            f"{tally.not_applicable} clauses of the kit do not apply to a backend that lacks the capability."
        )
    if tally.noted:
        print(
            f"{tally.noted} clauses that a backend SHOULD keep are not kept; the certificates name them."
        )
    if tally.waived:
        print(
            f"{tally.waived} clauses are waived by a profile, with its reason; the verdicts above count them."
        )
    for skip in tally.skips:
        print(f"skipped, which fails: {skip}")
    for failure in tally.failures:
        print(f"failed: {failure}")
    print(tally.closing_line())
    return int(bool(tally.failed or tally.skipped))


if __name__ == "__main__":
    raise SystemExit(main())
