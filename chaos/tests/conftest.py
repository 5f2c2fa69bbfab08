"""
Forged histories: evidence that nobody has left, each breaking one rule.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from forging import MS, SLOT

from anarchon import Reason, RunRecord, Status
from anarchon_chaos.evidence import Mark, Told
from anarchon_chaos.history import Exit, Expectation, Fault, History


def forged_mark(
    what: str,
    at_ms: int,
    *,
    instance: str = "a",
    slot: int = SLOT,
    attempt: int = 1,
    job: str = "job",
    wall_ms: int | None = None,
) -> Mark:
    """
    Forge a line of a handler; each instance is the process of its letter.
    """
    return Mark(
        what=what,
        job=job,
        slot=slot,
        attempt=attempt,
        instance=instance,
        pid=ord(instance[0]),
        at_ns=at_ms * MS,
        wall_ms=SLOT + at_ms if wall_ms is None else wall_ms,
    )


def forged_record(
    status: Status,
    *,
    slot: int = SLOT,
    attempt: int = 1,
    instance: str = "a",
    reason: Reason | None = None,
    job: str = "job",
) -> RunRecord:
    """
    Forge a record of the history.
    """
    return RunRecord(
        job=job,
        slot=slot,
        attempt=attempt,
        instance_id=instance,
        status=status,
        reason=reason,
        claimed_at=datetime(2026, 1, 1, tzinfo=UTC),
    )


def forged_fault(kind: str, since_ms: int, until_ms: int, **more: Any) -> Fault:
    """
    Forge a fault on instance a that bit once.
    """
    given = {"target": "a", "bites": 1, **more}
    return Fault(kind=kind, since_ns=since_ms * MS, until_ns=until_ms * MS, **given)


def forged_told(kind: str, at_ms: int = 0, *, by: str = "a", **detail: Any) -> Told:
    """
    Forge an event; each instance is the process of its letter.
    """
    return Told(type=kind, instance=by, pid=ord(by), at_ns=at_ms * MS, detail=detail)


def forged_history(**parts: Any) -> History:
    """
    Forge a sound history, in which a dies and b goes on 2.5 s later, with some parts replaced.
    """
    marks = (
        forged_mark("start", 100),
        forged_mark("step", 150),
        forged_mark("start", 3_500, instance="b", attempt=2),
        forged_mark("end", 3_600, instance="b", attempt=2),
    )
    sound: dict[str, Any] = {
        "scenario": "forged",
        "store": "paper",
        "leases": True,
        "lease_ms": 3_000,
        "heartbeat_ms": 1_000,
        "stop_timeout_ms": 4_000,
        "begun_ns": 0,
        "ended_ns": 10_000 * MS,
        "expect": Expectation(attempts_max=2, takeovers_min=1),
        "marks": marks,
        "records": (
            forged_record(Status.INTERRUPTED, reason=Reason.LEASE_EXPIRED),
            forged_record(Status.SUCCESS, attempt=2, instance="b"),
        ),
        "faults": (forged_fault("kill", 1_000, 1_001),),
        "deaths": {ord("a"): 1_001 * MS},
        "exits": (Exit(instance="b", status=0, took_ms=300),),
        "slots": (("job", SLOT),),
    }
    return History(**{**sound, **parts})


@pytest.fixture
def mark() -> Callable[..., Mark]:
    """
    Give the forger of lines.
    """
    return forged_mark


@pytest.fixture
def record() -> Callable[..., RunRecord]:
    """
    Give the forger of records.
    """
    return forged_record


@pytest.fixture
def fault() -> Callable[..., Fault]:
    """
    Give the forger of faults.
    """
    return forged_fault


@pytest.fixture
def told() -> Callable[..., Told]:
    """
    Give the forger of events.
    """
    return forged_told


@pytest.fixture
def history() -> Callable[..., History]:
    """
    Give the forger of histories.
    """
    return forged_history
