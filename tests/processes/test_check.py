"""
The checker finds what is wrong with a history: for each rule a forged one that breaks it, and it alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from instances import Mark, Told, check

from anarchon import RunRecord, Status

S = 1_000_000_000


def mark(
    what: str, at_s: float, *, slot: int = 1_000, attempt: int = 1, pid: int = 1, job: str = "sync"
) -> Mark:
    """
    Forge a line; the clocks agree that slot 1000 is due after one second.
    """
    return Mark(
        what=what,
        job=job,
        slot=slot,
        attempt=attempt,
        instance=f"host:{pid}",
        pid=pid,
        at_ns=int(at_s * S),
        wall_ms=int(at_s * 1_000),
    )


def record(status: Status, *, slot: int = 1_000, attempt: int = 1) -> RunRecord:
    """
    Forge a record of the job.
    """
    return RunRecord(
        job="sync",
        slot=slot,
        attempt=attempt,
        instance_id="host:1",
        status=status,
        claimed_at=datetime(2027, 1, 1, tzinfo=UTC),
    )


def miss(first_slot: int, last_slot: int) -> Told:
    """
    Forge a miss.
    """
    detail = {"job": "sync", "first_slot": first_slot, "last_slot": last_slot}
    return Told(type="miss", instance="host:1", pid=1, at_ns=0, detail=detail)


SOUND = [
    mark("start", 1.1),
    mark("step", 1.2),
    mark("end", 1.3),
    mark("start", 2.1, slot=2_000, pid=2),
    mark("step", 2.2, slot=2_000, pid=2),
    mark("start", 5.5, slot=2_000, attempt=2),
    mark("cleanup", 5.6, slot=2_000, pid=2),
    mark("end", 5.7, slot=2_000, attempt=2),
]


def test_a_sound_history_is_clean() -> None:
    """
    A run, and one that was taken over while its first runner still cleaned up, are as they should be.
    """
    assert [] == check.wrong(SOUND)
    assert [] == list(
        check.unaccounted(check.bodies(SOUND), [], [], [("sync", 1_000), ("sync", 2_000)])
    )


@pytest.mark.parametrize(
    ("rule", "more"),
    [
        pytest.param("too", [mark("start", 6.1, pid=3)], id="an attempt starts twice"),
        pytest.param(
            "last sign of",
            [mark("step", 5.6, slot=2_000, pid=2)],
            id="a thawed body takes a step beside attempt 2",
        ),
        pytest.param(
            "started after attempt 2",
            [mark("start", 6.1, slot=3_000, attempt=2), mark("start", 6.2, slot=3_000, pid=3)],
            id="attempt 1 starts after attempt 2",
        ),
        pytest.param(
            "although attempt",
            [mark("start", 6.1, slot=2_000, attempt=3)],
            id="a finished run starts again",
        ),
        pytest.param(
            "started after slot", [mark("start", 6.1, slot=1_500)], id="an older slot starts"
        ),
        pytest.param(
            "ms early", [mark("start", 6.1, slot=6_200)], id="a slot starts before it is due"
        ),
    ],
)
def test_each_rule_finds_its_breach(rule: str, more: Sequence[Mark]) -> None:
    """
    One forged line too many is found by the rule that forbids it.
    """
    troubles = check.wrong([*SOUND, *more])

    assert [rule] == sorted({rule for trouble in troubles if rule in trouble}), troubles


def test_a_body_lasts_until_its_process_dies() -> None:
    """
    A killed handler wrote nothing when it died, so that its death counts as its last sign.
    """
    history = [
        mark("start", 1.1),
        mark("start", 4.0, attempt=2, pid=2),
        mark("end", 4.1, attempt=2, pid=2),
    ]

    assert [] == check.wrong(history, {1: 3 * S})
    assert 1 == len(check.wrong(history, {1: 5 * S}))


@pytest.mark.parametrize(
    "history",
    [
        pytest.param([], id="never"),
        pytest.param([mark("start", 1.1)], id="begun and not ended"),
        pytest.param([mark("start", 1.1, attempt=2), mark("end", 1.2, attempt=2)], id="attempt 2"),
        pytest.param([*SOUND[:3], mark("start", 2.1, pid=2)], id="twice"),
    ],
)
def test_a_slot_that_did_not_run_once_is_found(history: Sequence[Mark]) -> None:
    """
    Exactly once means one start, in attempt 1, with its end.
    """
    assert [] == list(check.not_run_once(check.bodies(SOUND), [("sync", 1_000)]))
    assert 1 == len(list(check.not_run_once(check.bodies(history), [("sync", 1_000)])))


SKIPPED = record(Status.SKIPPED, slot=3_000)


@pytest.mark.parametrize(
    ("misses", "records", "expected"),
    [
        pytest.param([], [], 3_000, id="lost"),
        pytest.param([miss(3_000, 3_000), miss(2_500, 3_500)], [], 3_000, id="told twice"),
        pytest.param([miss(1_000, 3_000)], [], 1_000, id="run, and told as missed"),
        pytest.param([miss(3_000, 3_000)], [SKIPPED], 3_000, id="skipped, and told as missed"),
    ],
)
def test_a_slot_that_is_lost_is_found(
    misses: Sequence[Told], records: Sequence[RunRecord], expected: int
) -> None:
    """
    A slot ends in some attempt, is told as missed once, or stands in the history as skipped or interrupted.
    """
    found = check.bodies(SOUND)
    slot = [("sync", 3_000)]

    assert [] == list(check.unaccounted(found, [miss(3_000, 4_000)], [], slot))
    assert [] == list(check.unaccounted(found, [], [SKIPPED], slot))
    assert [] == list(check.unaccounted(found, [], [record(Status.INTERRUPTED, slot=3_000)], slot))
    assert 1 == len(list(check.unaccounted(found, misses, records, [("sync", expected)])))


def test_a_history_that_differs_from_the_evidence_is_found() -> None:
    """
    Each started attempt has one record, and a success was written by a handler.
    """
    found = check.bodies(SOUND)
    records = [
        record(Status.SUCCESS),
        record(Status.INTERRUPTED, slot=2_000),
        record(Status.SUCCESS, slot=2_000, attempt=2),
    ]

    assert [] == list(check.against_history(found, records))
    for forged in (
        records[:2],
        [*records, records[0]],
        [replace(records[0], status=Status.FAILED), *records[1:]],
        [*records, record(Status.SUCCESS, slot=3_000)],
    ):
        assert 1 == len(list(check.against_history(found, forged))), forged
