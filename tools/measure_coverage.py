"""
Measure the branch coverage of the core by its own tests, and fail below the bound.

`coverage run -m pytest` is used, not a plug-in: the kit's plug-in is imported by pytest before another plug-in could
start to measure. Processes that the tests start are measured too.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CORE = "packages/anarchon/src/anarchon/*"
PERCENT_MIN = 100.0


def main() -> int:
    """
    Run the core's tests, add up what the processes wrote, and report.
    """
    percent_min = float(os.environ.get("ANARCHON_COVERAGE_MIN", PERCENT_MIN))
    junit = ROOT / "reports/coverage.xml"
    coverage = [sys.executable, "-m", "coverage"]
    subprocess.run([*coverage, "erase"], cwd=ROOT, check=True)
    tests = ["-n", "auto", "--dist", "worksteal", f"--junitxml={junit}", "packages/anarchon/tests"]
    tested = subprocess.run(
        [*coverage, "run", "-m", "pytest", *tests, *sys.argv[1:]], cwd=ROOT, check=False
    )
    subprocess.run([*coverage, "combine", "--quiet"], cwd=ROOT, check=True)
    report = ["report", f"--include={CORE}", f"--fail-under={percent_min}", "--precision=2"]
    measured = subprocess.run([*coverage, *report], cwd=ROOT, check=False)
    return tested.returncode or measured.returncode


if __name__ == "__main__":
    raise SystemExit(main())
