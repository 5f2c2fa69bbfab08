"""
The guides' programs do what the guides say, under the servers that they name.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import prose
import pytest
import repository

from anarchon import Scheduler

GUIDES = repository.ROOT / "docs/guides"
LINES = 6
TIMEOUT_S = 300  # A guard against a program that never ends, and no measure of how long one takes.
SYNCED = re.compile(r"(?P<by>\S+) (?:syncs|cleans up) (?P<slot>\d\d:\d\d:\d\d)")


def lay_out(page: Path, folder: Path) -> None:
    """
    Write the named files of a guide.
    """
    for block in prose.blocks(page, page.read_text(encoding="utf-8")):
        name = block.remarks.get("file")
        if name is not None:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(block.code, encoding="utf-8")


@contextmanager
def running(command: list[str], folder: Path) -> Iterator[subprocess.Popen[str]]:
    """
    Run a program of the guide, whose output can be read, and end it if the test has not.
    """
    environment = {**os.environ, "PYTHONPATH": str(folder), "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        limit = threading.Timer(
            TIMEOUT_S, process.kill
        )  # A program that says nothing must not hold the test.
        limit.start()
        try:
            yield process
        finally:
            limit.cancel()
            if process.poll() is None:
                process.kill()


def synced(process: subprocess.Popen[str]) -> Iterator[re.Match[str]]:
    """
    Give the lines in which a handler says that it ran.
    """
    assert process.stdout is not None
    for line in process.stdout:
        if found := SYNCED.search(line):
            yield found


def stop(process: subprocess.Popen[str]) -> int:
    """
    Send SIGTERM and wait for the end.
    """
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=TIMEOUT_S)
    return process.returncode


@pytest.mark.slow
@pytest.mark.timeout(2 * TIMEOUT_S)
@pytest.mark.parametrize("guide", ["fastapi", "litestar"])
def test_four_workers_run_each_slot_once(guide: str, tmp_path: Path) -> None:
    """
    Under uvicorn with four workers each slot is run by one of them, and SIGTERM ends all.
    """
    lay_out(GUIDES / f"{guide}.md", tmp_path)
    command = [sys.executable, "-m", "uvicorn", "service:app", "--workers", "4", "--port", "0"]

    with running(command, tmp_path) as server:
        seen = [found for found, _ in zip(synced(server), range(LINES), strict=False)]
        status = stop(server)

    assert LINES == len(seen)
    assert {1} == set(Counter(found["slot"] for found in seen).values())
    assert status in (0, -signal.SIGTERM)


@pytest.mark.slow
@pytest.mark.timeout(2 * TIMEOUT_S)
def test_two_django_commands_run_each_slot_once(tmp_path: Path) -> None:
    """
    The management command runs beside another one, and ends with 0 after SIGTERM.
    """
    lay_out(GUIDES / "django.md", tmp_path)
    command = [sys.executable, "-W", "error", "manage.py", "runjobs"]

    with ExitStack() as stack:
        both = [stack.enter_context(running(command, tmp_path)) for _ in range(2)]
        # One that has not won a slot may not have come to where SIGTERM is heard.
        ran = [next(synced(process), None) for process in both]
        outputs = []
        for process in both:
            process.send_signal(signal.SIGTERM)
            outputs.append(process.communicate(timeout=TIMEOUT_S)[0])

    assert None not in ran
    assert [0, 0] == [process.returncode for process in both], "\n".join(outputs)


@pytest.mark.slow
@pytest.mark.timeout(2 * TIMEOUT_S)
def test_the_first_program_survives_the_death_of_an_instance(tmp_path: Path) -> None:
    """
    What the first page promises: one winner a slot, a takeover after SIGKILL, and a history that tells.
    """
    lay_out(GUIDES.parent / "start.md", tmp_path)
    anarchon = [sys.executable, "-m", "anarchon_cli"]
    command = [*anarchon, "run", "jobs:scheduler"]

    with running(command, tmp_path) as first, running(command, tmp_path) as second:
        assert first.stdout is not None
        assert second.stdout is not None
        ticked = next(line for line in first.stdout if " tick of " in line)
        first.kill()
        first.wait()
        went_on = next(line for line in second.stdout if " tick of " in line)
        status = stop(second)
    history = subprocess.run(
        [*anarchon, "history", "tick", "--backend", "sqlite:///jobs.db", "--json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=True,
    ).stdout

    assert ticked.partition(": tick")[0] != went_on.partition(": tick")[0]
    assert 0 == status
    records = [json.loads(line) for line in history.splitlines()]
    assert len(records) == len({(record["slot"], record["attempt"]) for record in records})


def test_the_first_program_hands_over_on_ctrl_c() -> None:
    """
    The first page's report takes longer than handlers get to end, so that Ctrl-C hands it over, as the page says.
    """
    text = (GUIDES.parent / "start.md").read_text(encoding="utf-8")
    stop_s, report_s = (
        re.search(pattern, text)
        for pattern in (r'stop_timeout="(\d+)s"', r"asyncio\.sleep\((\d+)\)")
    )

    assert stop_s is not None
    assert report_s is not None
    assert int(stop_s[1]) + 5 < int(report_s[1])


def test_platforms_wait_longer_than_a_hand_over_takes() -> None:
    """
    What the guide tells a platform to wait is more than the default stop timeout and what stop() may take beyond it.
    """
    text = (GUIDES / "deploying.md").read_text(encoding="utf-8")
    waits_s = [
        int(number)
        for number in re.findall(r"(?:TimeoutStopSec=|terminationGracePeriodSeconds: )(\d+)", text)
    ]
    default_s = inspect.signature(Scheduler).parameters["stop_timeout"].default

    assert 2 == len(waits_s)
    assert default_s + 2 < min(waits_s)


def test_units_are_well_formed(tmp_path: Path) -> None:
    """
    The unit files of the guide pass systemd's own check, where systemd is.
    """
    units = [
        block
        for block in prose.blocks(
            GUIDES / "deploying.md", (GUIDES / "deploying.md").read_text(encoding="utf-8")
        )
        if block.language == "ini"
    ]
    analyze = shutil.which("systemd-analyze")
    for block in units:
        path = tmp_path / block.remarks["file"]
        text = re.sub(
            r"^ExecStart=\S+", f"ExecStart={sys.executable}", block.code, flags=re.MULTILINE
        )
        path.write_text(text, encoding="utf-8")
        if analyze is not None:
            checked = subprocess.run(
                [analyze, "verify", "--man=no", path], capture_output=True, text=True, check=False
            )

            assert (0, "") == (checked.returncode, checked.stderr)

    assert units
