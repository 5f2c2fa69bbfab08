"""
`anarchon run` is a program of its own: started, signalled and ended as an operating system does it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from typer.testing import Result

Anarchon = Callable[..., Result]
Written = Callable[[str], str]

TIMEOUT_S = 60

JOBS = """
from anarchon import Scheduler

scheduler = Scheduler("sqlite:///own.db", instance_id="ours", stop_timeout=40)


@scheduler.every("tick", "1s")
def tick(ctx):
    print("ran", ctx.attempt, flush=True)


stubborn = Scheduler("memory:", stop_timeout=40)


@stubborn.every("slow", "1s")
async def slow(ctx):
    print("ran", flush=True)
    await ctx.stopping.wait()
    print("asked to stop", flush=True)
    await ctx.lost.wait()
"""


@contextmanager
def running(*arguments: str, cwd: Path) -> Iterator[subprocess.Popen[str]]:
    """
    Start the command in a process of its own, which does not outlive the test.
    """
    command = [sys.executable, "-W", "error", "-m", "anarchon_cli", *arguments]
    with subprocess.Popen(
        command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def read_until(process: subprocess.Popen[str], said: str) -> None:
    """
    Read the program's output up to a line.
    """
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(said):
            return
    pytest.fail(f"the program ended without saying {said!r}")


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_after_the_hand_over(
    anarchon: Anarchon, written: Written, folder: Path, number: signal.Signals
) -> None:
    """
    The module is found in the current folder, --backend replaces the scheduler's store, and a signal ends it with 0.
    """
    target = f"{written(JOBS)}:scheduler"
    with running("run", target, "--backend", "sqlite:///jobs.db", cwd=folder) as process:
        read_until(process, "ran 1")
        process.send_signal(number)
        _, log = process.communicate(timeout=TIMEOUT_S)

    history = anarchon("history", "--backend", "sqlite:///jobs.db", "--json")
    records = [json.loads(line) for line in history.stdout.splitlines()]

    assert 0 == process.returncode, log
    assert "INFO anarchon: scheduler_started" in log
    assert {("tick", "ours")} == {(record["job"], record["instance_id"]) for record in records}
    assert "success" in {record["status"] for record in records}
    # What was claimed as the signal came is handed over.
    assert {record["status"] for record in records} <= {"success", "interrupted"}
    assert not (folder / "own.db").exists()


@pytest.mark.slow
def test_a_second_signal_ends_it_at_once(written: Written, folder: Path) -> None:
    """
    A handler that will not stop holds the hand-over up; the second signal waits for nothing.
    """
    with running("run", f"{written(JOBS)}:stubborn", "--log-level", "error", cwd=folder) as process:
        read_until(process, "ran")
        process.send_signal(signal.SIGTERM)
        read_until(process, "asked to stop")
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=TIMEOUT_S)

    assert (-signal.SIGTERM, "") == (process.returncode, log)


@pytest.mark.slow
def test_a_store_that_cannot_be_opened_is_one_line(written: Written, folder: Path) -> None:
    """
    An error of anarchon's ends the program with 1 and its message; --traceback shows where it came from.
    """
    (folder / "jobs.db").write_bytes(b"This is no database. " * 100)
    target = f"{written(JOBS)}:scheduler"
    options = ("run", target, "--backend", "sqlite:///jobs.db", "--log-level", "error")
    with running(*options, cwd=folder) as process:
        output, log = process.communicate(timeout=TIMEOUT_S)
    with running(*options, "--traceback", cwd=folder) as shown:
        _, long_log = shown.communicate(timeout=TIMEOUT_S)

    assert (1, "", 1) == (process.returncode, output, len(log.splitlines()))
    assert "jobs.db" in log
    assert 1 == shown.returncode
    assert "Traceback" in long_log
    assert log.splitlines()[-1] == long_log.splitlines()[-1]


def test_a_backend_that_a_job_cannot_use_is_said(anarchon: Anarchon, written: Written) -> None:
    """
    --backend is checked against the jobs before anything starts: the option, the job and the backend are named.
    """
    code = "from anarchon import Scheduler\ns = Scheduler('memory:')\ns.every('x', '1s', print, catch_up='all')\n"

    result = anarchon("run", f"{written(code)}:s", "--backend", "memory-claim:")

    assert 1 == result.exit_code
    assert "job 'x': the option catch_up='all' needs a backend with leases" in result.stderr
    assert 1 == len(result.stderr.splitlines())


def test_a_wrong_log_level_is_a_wrong_command_line(anarchon: Anarchon) -> None:
    """
    Only the levels of logging are taken.
    """
    assert 2 == anarchon("run", "x:y", "--log-level", "loud").exit_code


@pytest.mark.slow
def test_a_terminal_gets_what_a_pipe_gets(folder: Path) -> None:
    """
    On a terminal that is wide enough every cell is whole, and the header stands out.
    """
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "anarchon_cli", "backends"]
    wide = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "200"}
    wide.pop("NO_COLOR", None)
    with subprocess.Popen(command, cwd=folder, stdout=theirs, env=wide) as process:
        os.close(theirs)
        shown = b""
        try:
            while block := os.read(ours, 65_536):
                shown += block
        except OSError:
            pass  # Linux says so when the other end is closed.
        finally:
            os.close(ours)

    assert 0 == process.returncode
    assert b"anarchon.memory.MemoryClaimBackend  anarchon " in shown
    assert b"\x1b[1m" in shown
