"""
The fixture that users' tests get.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

TEST = """
from datetime import UTC, datetime

import pytest
from anarchon import Scheduler
from anarchon_simulation import stop


def test_a_deploy_at_noon_loses_nothing(simulation):
    scheduler = Scheduler("memory:", heartbeat="1m")
    scheduler.every("sync", "10m", lambda: None)

    result = simulation(
        scheduler,
        start=datetime(2026, 1, 1, tzinfo=UTC),
        until="1d",
        incidents=[stop("a", at="12h", restart="30s"), stop("b", at="12h1m", restart="30s")],
    )

    assert result.missed() == []
    assert result.seed == {seed}
    assert len(result.ran("sync")) == {count}
"""


def test_fixture_runs_a_users_scheduler(pytester: pytest.Pytester) -> None:
    """
    A test of a stranger's project asks for `simulation` and has it.
    """
    pytester.makepyfile(TEST.format(seed=0, count=143))

    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")

    result.assert_outcomes(passed=1)


def test_failing_test_shows_the_timeline(pytester: pytest.Pytester) -> None:
    """
    What the simulation did stands below a test that fails; the option gives another seed.
    """
    pytester.makepyfile(TEST.format(seed=7, count=0))

    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "--anarchon-seed=7")

    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*simulation, seed 7:*", "*scheduler_stopped*"])


def test_plugin_imports_little() -> None:
    """
    Every pytest run imports the plug-in: it brings neither the scheduler nor asyncio with it.
    """
    program = (
        "import sys, pytest; before = set(sys.modules); import anarchon_simulation.plugin;"
        " print(*sorted(name for name in set(sys.modules) - before if 'anarchon' in name or name == 'asyncio'))"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )

    assert "anarchon_simulation anarchon_simulation.plugin" == result.stdout.strip()
