"""
The examples do what they say, and the demo's checks can fail.
"""

from __future__ import annotations

import dataclasses
import importlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import repository

from anarchon import Reason, RunRecord, Status
from anarchon.records import datetime_of

EXAMPLES = repository.ROOT / "examples"
T = 1_000_000
TIMEOUT_S = 300  # A guard against a program that never ends, and no measure of how long one takes.


@pytest.fixture
def evidence(monkeypatch: pytest.MonkeyPatch) -> Any:
    """
    Import the demo's module of checks, which is no part of a package.
    """
    monkeypatch.syspath_prepend(EXAMPLES / "demo")
    return importlib.import_module("evidence")


def record(job: str, slot: int, attempt: int, instance: str, **fields: Any) -> RunRecord:
    """
    Make a record that was claimed at its slot and has succeeded, save for *fields*.
    """
    known: dict[str, Any] = {
        "status": Status.SUCCESS,
        "claimed_at": datetime_of(slot),
        "finished_at": datetime_of(slot + 10),
    }
    return RunRecord(
        job=job, slot=slot, attempt=attempt, instance_id=instance, **{**known, **fields}
    )


@pytest.fixture
def case(evidence: Any) -> Any:
    """
    Forge a demo that went well: A is killed, B takes over and is stopped, C goes on.
    """
    ticks = range(T, T + 15_000, 1_000)
    dead = {"status": Status.INTERRUPTED, "reason": Reason.LEASE_EXPIRED}
    released = {"status": Status.INTERRUPTED, "reason": Reason.HANDED_OVER}
    at = datetime_of
    report = [
        record("report", T, 1, "A", **dead),
        record(
            "report", T, 2, "B", claimed_at=at(T + 5_000), finished_at=at(T + 7_000), **released
        ),
        record("report", T, 3, "C", claimed_at=at(T + 7_100), finished_at=at(T + 13_000)),
    ]
    marks = [
        *(("begin", "tick", slot, 1, "C") for slot in ticks),
        *(("begin", "report", T, number, name) for number, name in ((1, "A"), (2, "B"), (3, "C"))),
        ("end", "report", T, 3, "C"),
    ]
    names = ("what", "job", "slot", "attempt", "instance")
    return evidence.Case(
        marks=[evidence.Mark(**dict(zip(names, mark, strict=True)), at_ms=0) for mark in marks],
        records=[*(record("tick", slot, 1, "C") for slot in ticks), *report],
        story=evidence.Story(
            slot=T,
            killed="A",
            killed_ms=T + 2_000,
            stopped="B",
            last="C",
            lease_ms=3_000,
            heartbeat_ms=1_000,
            exits={"A": -9, "B": 0, "C": 0},
        ),
    )


def test_a_demo_that_went_well_is_believed(evidence: Any, case: Any) -> None:
    """
    Five sentences, and nothing contradicts them.
    """
    assert [None] * 5 == [finding.wrong for finding in evidence.examine(case)]


def doubled(case: Any) -> Any:
    """
    Let a handler run twice for one slot.
    """
    return dataclasses.replace(case, marks=[*case.marks, case.marks[5]])


def left_out(case: Any) -> Any:
    """
    Let a slot be run by nobody.
    """
    gone = case.marks[5].slot
    return dataclasses.replace(
        case,
        marks=[mark for mark in case.marks if mark.slot != gone],
        records=[kept for kept in case.records if kept.slot != gone],
    )


def late(case: Any) -> Any:
    """
    Let the takeover come too late.
    """
    story = dataclasses.replace(case.story, killed_ms=T - 1)
    return dataclasses.replace(case, story=story)


def not_recorded(case: Any) -> Any:
    """
    Let the history lose the killed attempt.
    """
    return dataclasses.replace(
        case, records=[kept for kept in case.records if kept.instance_id != "A"]
    )


def slow_hand_over(case: Any) -> Any:
    """
    Let the hand-over take as long as a lease.
    """
    third = dataclasses.replace(case.records[-1], claimed_at=datetime_of(T + 10_000))
    return dataclasses.replace(case, records=[*case.records[:-1], third])


def two_ends(case: Any) -> Any:
    """
    Let the stopped instance do its work to the end, too.
    """
    return dataclasses.replace(
        case, marks=[*case.marks, dataclasses.replace(case.marks[-1], attempt=2)]
    )


def crashed(case: Any) -> Any:
    """
    Let an instance end badly after SIGTERM.
    """
    return dataclasses.replace(
        case, story=dataclasses.replace(case.story, exits={"A": -9, "B": 1, "C": 0})
    )


@pytest.mark.parametrize(
    ("spoil", "wrong"),
    [
        (doubled, 0),
        (left_out, 0),
        (late, 1),
        (not_recorded, 1),
        (slow_hand_over, 2),
        (two_ends, 3),
        (crashed, 4),
    ],
)
def test_a_sentence_that_is_not_true_is_found(
    evidence: Any, case: Any, spoil: Callable[[Any], Any], wrong: int
) -> None:
    """
    Each sentence can fail: forged evidence against it contradicts it.
    """
    findings = evidence.examine(spoil(case))

    assert findings[wrong].wrong


def alive(pid: int) -> bool:
    """
    Tell whether a process of that number runs. One that has ended may still wait to be reaped, by whoever inherits it.
    """
    told = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return bool(told.stdout.strip()) and not told.stdout.strip().startswith("Z")


def left(pids: list[int]) -> list[int]:
    """
    Give those that do not end. They close their pipes first, and are gone a moment later.
    """
    end = time.monotonic() + TIMEOUT_S
    while (found := [pid for pid in pids if alive(pid)]) and time.monotonic() < end:
        time.sleep(0.05)  # Nobody tells that the process of another one has ended.
    return found


@pytest.mark.slow
@pytest.mark.timeout(2 * TIMEOUT_S)
def test_the_demo_shows_what_it_says() -> None:
    """
    `make demo` ends by itself, with 0, having shown and checked all of it, and leaves no process behind.
    """
    result = subprocess.run(
        [sys.executable, EXAMPLES / "demo/run.py"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    pids = [
        int(part.split(")")[0]) for part in result.stdout.splitlines()[0].split("(process ")[1:]
    ]

    assert (0, "") == (result.returncode, result.stderr), result.stdout
    assert "with SIGKILL in the middle of the report" in result.stdout
    assert "takes the report over" in result.stdout
    assert "lease expired" in result.stdout
    assert "was run exactly once" in result.stdout
    assert "NOT TRUE" not in result.stdout
    assert 3 == len(pids)
    assert [] == left(pids)


@pytest.mark.slow
@pytest.mark.timeout(2 * TIMEOUT_S)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_demo_takes_its_processes_along(number: signal.Signals) -> None:
    """
    Whoever interrupts the demo is left with no process of it: their end closes the pipe that they wrote to.
    """
    command: list[str | Path] = [sys.executable, EXAMPLES / "demo/run.py"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        started = process.stdout.readline()
        pids = [int(part.split(")")[0]) for part in started.split("(process ")[1:]]
        process.send_signal(number)
        process.communicate(timeout=TIMEOUT_S)

    assert process.returncode not in (0, 1)
    assert 3 == len(pids)
    assert [] == left(pids)


@pytest.mark.slow
@pytest.mark.timeout(2 * TIMEOUT_S)
def test_the_plain_program_runs_until_a_signal(tmp_path: Path) -> None:
    """
    A program of its own runs its jobs, and ends with 0 after SIGTERM.
    """
    (tmp_path / "letter.txt").write_text("hello", encoding="utf-8")
    command: list[str | Path] = [
        sys.executable,
        "-W",
        "error",
        EXAMPLES / "plain/nightly.py",
        "sqlite:///jobs.db",
    ]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        process.terminate()
        _, errors = process.communicate(timeout=TIMEOUT_S)

    assert "inbox: 1 new, by " in line
    assert (0, "") == (process.returncode, errors)
