"""
The testbed in pytest: which servers a run used, logs of those whose test failed, and skips where one cannot be had.

Every run of pytest on a machine loads this, so it imports the testbed only once a test has.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from types import ModuleType

import pytest

__all__ = [
    "pytest_report_header",
    "pytest_runtest_call",
    "pytest_runtest_makereport",
    "pytest_runtest_setup",
    "pytest_terminal_summary",
]

_LOG_LINES = 40


def pytest_report_header() -> str | None:
    """
    Name the servers that the environment gives by URL; the ones started are named at the end, with their versions.
    """
    given = sorted(
        name for name in os.environ if name.startswith("ANARCHON_TEST_") and name.endswith("_URL")
    )
    return f"anarchon testbed: servers given by {', '.join(given)}" if given else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup() -> Generator[None, None, None]:
    """
    A fixture that asks for a server which cannot be had skips its tests, and fails them where CI=true.
    """
    yield from _skipping()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, None, None]:
    """
    A test that asks for a server which cannot be had is skipped, and fails where CI=true.
    """
    yield from _skipping()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """
    A failed test shows the end of the log of each server that runs, and each report says what was used so far.
    """
    report = yield
    server = _module("server")
    if server is not None:
        if report.failed:
            for one in server.running():
                last = "\n".join(one.log.strip().splitlines()[-_LOG_LINES:])
                report.sections.append((f"log of {one.name}, its end", last))
        report.user_properties += [("anarchon_testbed", line) for line in server.used()]
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """
    Name the servers that the run used, with their versions and where they came from.
    """
    reports = (one for some in terminalreporter.stats.values() for one in some)
    used = {
        value
        for report in reports
        for name, value in getattr(report, "user_properties", ())
        if name == "anarchon_testbed"
    }
    if used:
        terminalreporter.write_line(f"anarchon testbed: used {', '.join(sorted(used))}")


def _skipping() -> Generator[None, None, None]:
    try:
        return (yield)
    except Exception as error:
        errors = _module("errors")
        if errors is None or not isinstance(error, errors.ServerUnavailableError):
            raise
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(error))  # The machine lacks the server: a laptop may, and it is said.


def _module(name: str) -> ModuleType | None:
    return sys.modules.get(f"anarchon_testbed.{name}")
