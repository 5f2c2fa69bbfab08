"""
MODULE:SCHEDULER leads to a scheduler, or to one line that says what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from typer.testing import Result

Anarchon = Callable[..., Result]
Written = Callable[[str], str]

SCHEDULER = """
from anarchon import Scheduler

scheduler = Scheduler("memory:")
scheduler.every("sync", "10s", lambda: None)
number = 3


class Services:
    inner = scheduler


def build():
    return scheduler


def needs(what):
    return scheduler


def other():
    return 3


def fails():
    raise OSError("no disk")


async def later():
    return scheduler
"""


@pytest.mark.parametrize("attribute", ["scheduler", "build", "Services.inner"])
def test_a_scheduler_is_found(anarchon: Anarchon, written: Written, attribute: str) -> None:
    """
    An attribute, a function that returns one, and an attribute of an attribute all name a scheduler.
    """
    result = anarchon("next", f"{written(SCHEDULER)}:{attribute}")

    assert (0, "") == (result.exit_code, result.stderr)
    assert 3 == result.stdout.count("every 10s")


@pytest.mark.parametrize(
    ("attribute", "status", "said"),
    [
        ("schedular", 2, "has no attribute 'schedular'; schedulers there: scheduler"),
        (
            "number",
            2,
            "is no Scheduler and no function that returns one, but an object of type int",
        ),
        ("other", 2, "returned no Scheduler, but an object of type int"),
        ("needs", 2, "cannot be called without arguments"),
        ("later", 2, "is an async function"),
        ("fails", 1, "OSError: no disk"),
    ],
)
def test_what_is_no_scheduler_is_said(
    anarchon: Anarchon, written: Written, attribute: str, status: int, said: str
) -> None:
    """
    A wrong command line ends with 2, a program that fails with 1; both in one line, without a traceback.
    """
    result = anarchon("next", f"{written(SCHEDULER)}:{attribute}")

    assert (status, "") == (result.exit_code, result.stdout)
    assert said in result.stderr
    assert 1 == len(result.stderr.splitlines())


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("app.jobs", "'app.jobs' names no scheduler: write MODULE:SCHEDULER"),
        (":scheduler", "names no scheduler"),
        ("./app/jobs.py:scheduler", "write app.jobs:scheduler"),
        ("no_such_module_here:scheduler", "there is no module 'no_such_module_here'"),
        ("json.no_such_module_here:scheduler", "there is no module 'json.no_such_module_here'"),
    ],
)
@pytest.mark.parametrize("command", ["run", "next"])
def test_a_target_that_leads_nowhere_is_said(
    anarchon: Anarchon, command: str, target: str, said: str
) -> None:
    """
    The message names what was written and what to write, in one line, with status 2.
    """
    result = anarchon(command, target)

    assert 2 == result.exit_code
    assert said in result.stderr
    assert 1 == len(result.stderr.splitlines())


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import a_library_that_is_missing\n", "it needs 'a_library_that_is_missing'"),
        ("x = 1 / 0\n", "ZeroDivisionError: division by zero"),
        ("def broken(:\n", "SyntaxError"),
        (
            "from anarchon import Scheduler\ns = Scheduler('memory:')\ns.every('x', '-1s', print)\n",
            "interval of Every",
        ),
    ],
)
def test_a_module_that_fails_is_said(
    anarchon: Anarchon, written: Written, code: str, said: str
) -> None:
    """
    A module that is there and cannot be imported is not called missing: one line, with status 1.
    """
    result = anarchon("run", f"{written(code)}:s")

    assert 1 == result.exit_code
    assert said in result.stderr
    assert "there is no module" not in result.stderr
    assert 1 == len(result.stderr.splitlines())


def test_a_traceback_is_shown_on_demand(anarchon: Anarchon, written: Written) -> None:
    """
    With --traceback the place of the error is shown before the line.
    """
    module = written("x = 1 / 0\n")

    result = anarchon("run", f"{module}:s", "--traceback")

    assert 1 == result.exit_code
    assert f'{module}.py", line 1' in result.stderr
    assert result.stderr.splitlines()[-1].startswith("anarchon: module ")
