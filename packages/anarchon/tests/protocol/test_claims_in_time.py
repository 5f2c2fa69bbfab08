"""
What a claim's answer tells and writes besides: clocks, high, schedules, leases of another boot.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tables import (
    DEAD,
    ENDED,
    EXPIRED,
    HANDED_OVER,
    LEASE_MS,
    LIVE,
    NEWER,
    NOW,
    OLDER,
    RELEASED,
    RUNNING,
    SLOT,
    claim,
    decided,
    granted,
    said,
    unchanged,
)

from anarchon.backend import AnswerReason, RunView, Verdict
from anarchon.protocol import JobState, Now, decide_claim

NEWEST = NEWER + 10_000


@pytest.mark.parametrize(
    ("state", "fingerprint", "since_ms", "kept"),
    [
        (None, "f2", None, "f2"),
        (ENDED, "f2", NOW.wall_ms, "f2"),
        (ENDED, "f1", 7, "f1"),
        (ENDED, None, 7, "f1"),
        (replace(ENDED, fingerprint=None), "f2", 7, "f2"),
    ],
)
def test_grant_writes_the_schedule(
    state: JobState | None, fingerprint: str | None, since_ms: int | None, kept: str
) -> None:
    """
    Only a fingerprint that replaces another sets since; none at all changes nothing.
    """
    change = decided(state, NEWER, fingerprint=fingerprint, zone_digests="2026:a")

    assert change.state is not None
    assert (since_ms, kept) == (change.state.since_ms, change.state.fingerprint)
    assert since_ms == change.answer.since_ms


@pytest.mark.parametrize(
    ("state", "slot", "options"),
    [
        (RUNNING, SLOT, {"token": "t1"}),
        (RUNNING, SLOT, {}),
        (RUNNING, SLOT, {"not_after_ms": 0}),
        (RUNNING, OLDER, {}),
        (RUNNING, NEWER, {}),
        (RUNNING, NEWER, {"overlap": "wait"}),
        (RUNNING, NEWER, {"attempt": 2}),
        (RUNNING, NOW.wall_ms + 9_000, {}),
        (ENDED, SLOT, {}),
        (DEAD, SLOT, {"attempt": 2}),
        (DEAD, SLOT, {"attempt": 2, "takeover": False}),
    ],
)
def test_every_answer_tells_clock_high_and_since(
    state: JobState, slot: int, options: dict[str, Any]
) -> None:
    """
    Whatever the answer, an instance that is behind learns it.
    """
    answer = decided(state, slot, **options).answer

    assert (NOW.wall_ms, 7) == (answer.store_now_ms, answer.since_ms)
    assert answer.high in {SLOT, NEWER}


@pytest.mark.parametrize(
    ("verdict", "reason", "slot", "options"),
    [
        (Verdict.LATE, AnswerReason.EXPIRED, SLOT, {"not_after_ms": 0}),
        (Verdict.LATE, AnswerReason.EXPIRED, NEWEST, {"not_after_ms": 0}),
        (Verdict.LATE, AnswerReason.SUPERSEDED, OLDER, {}),
        (Verdict.LATE, AnswerReason.SUPERSEDED, OLDER, {"attempt": 2}),
        (Verdict.LATE, AnswerReason.TOO_OLD, NEWEST, {"max_lateness_ms": -1}),
        (Verdict.DONE, AnswerReason.ENDED, NEWER, {}),
        (Verdict.DONE, AnswerReason.ENDED, NEWER, {"attempt": 2}),
        (Verdict.NONE, None, NEWEST, {"attempt": 2}),
        (Verdict.EARLY, None, NOW.wall_ms + 9_000, {}),
        (Verdict.RUNNING, None, SLOT, {}),
        (Verdict.OVERLAP, None, NEWEST, {"overlap": "wait"}),
        (Verdict.OVERLAP, None, NEWEST, {}),
    ],
)
def test_every_answer_but_won_names_the_run_that_is_live(
    verdict: Verdict, reason: AnswerReason | None, slot: int, options: dict[str, Any]
) -> None:
    """
    Trap: who was late for the last slot never learns of its run, and lets it lie when its runner dies.
    """
    change = decided(replace(RUNNING, high=NEWER), slot, **options)

    assert (verdict, reason) == said(change)
    assert (
        RunView(slot=SLOT, attempt=1, remaining_ms=10_000, instance_id="host:1")
        == change.answer.run
    )


@pytest.mark.parametrize(
    ("state", "slot", "options"),
    [
        (ENDED, SLOT, {}),
        (ENDED, OLDER, {}),
        (ENDED, NEWER, {"attempt": 2}),
        (ENDED, SLOT, {"not_after_ms": 0}),
        (DEAD, SLOT, {"attempt": 2, "takeover": False}),
        (RUNNING, SLOT, {"token": "t1"}),
        (DEAD, SLOT, {"attempt": 2}),
    ],
)
def test_no_answer_names_a_run_that_is_over_or_the_askers_own(
    state: JobState, slot: int, options: dict[str, Any]
) -> None:
    """
    Nobody becomes a backup of what nobody executes any more, nor of what it was just granted.
    """
    assert decided(state, slot, **options).answer.run is None


def test_lease_of_another_boot_is_whole_again() -> None:
    """
    Trap: "another boot id: every lease is over" lets two machines take each other's runs without end.
    """
    foreign = replace(DEAD, live=replace(EXPIRED, lease_clock="boot-0", lease_until_ms=1))
    change = decided(foreign, attempt=2)

    assert Verdict.RUNNING == change.answer.verdict
    assert change.answer.run is not None
    assert LEASE_MS == change.answer.run.remaining_ms
    assert (("boot-1", NOW.lease_ms + LEASE_MS),) == granted(change).elsewhere
    assert ("boot-0", 1) == (granted(change).lease_clock, granted(change).lease_until_ms)


def test_lease_of_another_boot_is_noted_by_other_answers_too() -> None:
    """
    A decision that changes something keeps the lease that it saw.
    """
    foreign = replace(RUNNING, live=replace(LIVE, lease_clock="boot-0"))
    change = decided(foreign, NEWER)

    assert Verdict.OVERLAP == change.answer.verdict
    assert (("boot-1", NOW.lease_ms + LEASE_MS),) == granted(change).elsewhere


def test_machines_that_look_by_turns_do_not_keep_a_dead_run() -> None:
    """
    Trap: one end for all clocks, and each machine's look gives the lease its whole length again.
    """
    state: JobState | None = replace(RUNNING, live=replace(LIVE, lease_clock="boot-0"))
    verdicts = []
    for turn in range(9):
        now = Now(
            NOW.wall_ms + turn * LEASE_MS // 4,
            # Their clocks count alike, and have begun at other times.
            turn * LEASE_MS // 4 + turn % 2 * 1_000_000,
            f"machine-{turn % 2}",
        )
        change = decide_claim(state, claim(attempt=2), now)
        verdicts.append(change.answer.verdict)
        state = change.state or state

    # The first machine first looked at turn 0, and its fourth quarter is over at turn 4.
    assert [Verdict.RUNNING] * 4 + [Verdict.WON] == verdicts[:5]
    assert state is not None
    assert state.live is not None
    assert () == state.live.elsewhere


@pytest.mark.parametrize("clock", ["boot-0", "boot-1", "boot-2"])
def test_look_by_a_clock_that_has_looked_before_changes_nothing(clock: str) -> None:
    """
    Each clock writes its end down once; until the next renewal it only reads it.
    """
    live = replace(
        LIVE,
        lease_clock="boot-0",
        lease_until_ms=NOW.lease_ms + 3,
        elsewhere=(("boot-1", NOW.lease_ms + 5), ("boot-2", NOW.lease_ms + 7)),
    )
    change = decide_claim(
        replace(RUNNING, live=live), claim(attempt=2), replace(NOW, lease_clock=clock)
    )

    assert unchanged(change)
    assert change.answer.run is not None
    assert {"boot-0": 3, "boot-1": 5, "boot-2": 7}[clock] == change.answer.run.remaining_ms


def test_repeated_grant_voids_what_other_clocks_had_counted() -> None:
    """
    The runner is alive: whoever looks next by another clock sees a whole lease again.
    """
    state = replace(DEAD, live=replace(EXPIRED, elsewhere=(("boot-2", 1),)))

    assert () == granted(decided(state, token="t1")).elsewhere


def test_released_run_of_another_boot_is_taken_at_once() -> None:
    """
    A run that was handed over has no lease that a clock could judge.
    """
    foreign = replace(HANDED_OVER, live=replace(RELEASED, lease_clock="boot-0"))

    change = decided(foreign, attempt=2)

    assert Verdict.WON == change.answer.verdict
    assert ("boot-1", ()) == (granted(change).lease_clock, granted(change).elsewhere)
