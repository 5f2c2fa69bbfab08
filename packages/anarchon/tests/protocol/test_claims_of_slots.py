"""
The table of answers, rows 2 and 7 to 14: slots that are known, late, early, overlapping, or new.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from tables import (
    DEAD,
    ENDED,
    EXPIRED,
    HANDED_OVER,
    LIVE,
    NEWER,
    NOW,
    OLDER,
    RUNNING,
    SLOT,
    closed,
    decided,
    granted,
    opened,
    said,
    unchanged,
)

from anarchon.backend import AnswerReason, Verdict
from anarchon.protocol import JobState, Skip
from anarchon.records import Reason, Status


def test_ended_slot_is_done() -> None:
    """
    Row 7: finished, given up, or registered as past.
    """
    change = decided(ENDED)

    assert (Verdict.DONE, AnswerReason.ENDED) == said(change)
    assert unchanged(change)


def test_next_attempt_of_an_ended_slot_is_done() -> None:
    """
    Row 7 stands before row 9: a backup hears that the run it watched is over.
    """
    assert (Verdict.DONE, AnswerReason.ENDED) == said(decided(ENDED, attempt=2))


@pytest.mark.parametrize("not_after_ms", [None, NOW.wall_ms, NOW.wall_ms - 1])
def test_repeated_skip_is_overlap_again(not_after_ms: int | None) -> None:
    """
    Row 2 stands before row 3. Trap: answered done, the range that was missed is never reported.
    """
    state = replace(ENDED, skip=Skip(slot=SLOT, token="t2", previous_high=OLDER))
    change = decided(state, not_after_ms=not_after_ms)

    assert (Verdict.OVERLAP, True, OLDER) == (
        change.answer.verdict,
        change.answer.recorded,
        change.answer.previous_high,
    )
    assert change.answer.run is None
    assert unchanged(change)


@pytest.mark.parametrize(
    "skip",
    [
        Skip(slot=SLOT, token="t1", previous_high=OLDER),
        Skip(slot=OLDER, token="t2", previous_high=None),
    ],
)
def test_other_skips_are_nobody_elses(skip: Skip) -> None:
    """
    Row 2: only the one who was told the range reports it.
    """
    assert (Verdict.DONE, AnswerReason.ENDED) == said(decided(replace(ENDED, skip=skip)))


@pytest.mark.parametrize("state", [ENDED, RUNNING])
@pytest.mark.parametrize("attempt", [1, 2])
def test_older_slot_is_superseded(state: JobState, attempt: int) -> None:
    """
    Row 8. Trap: without high an instance that lags runs an old slot again.
    """
    change = decided(state, OLDER, attempt=attempt)

    assert (Verdict.LATE, AnswerReason.SUPERSEDED) == said(change)
    assert unchanged(change)


@pytest.mark.parametrize("state", [None, JobState(), ENDED])
def test_takeover_of_an_unknown_run_is_none(state: JobState | None) -> None:
    """
    Row 9: a store that knows nothing of the run starts nothing.
    """
    change = decided(state, NEWER, attempt=2)

    assert Verdict.NONE == change.answer.verdict
    assert unchanged(change)


def test_slot_of_the_future_is_early() -> None:
    """
    Row 10. Trap: one bad clock moves high into the future and stops the job for everyone.
    """
    change = decided(ENDED, NOW.wall_ms + 501)

    assert (Verdict.EARLY, 501) == (change.answer.verdict, change.answer.wait_ms)
    assert unchanged(change)


def test_slot_within_the_tolerance_is_granted() -> None:
    """
    Row 10 leaves what honest clocks differ by.
    """
    assert Verdict.WON == decided(ENDED, NOW.wall_ms + 500).answer.verdict


def test_too_old_slot_is_late() -> None:
    """
    Row 11: judged by the store's clock, and nothing moves.
    """
    change = decided(None, max_lateness_ms=NOW.wall_ms - SLOT - 1)

    assert (Verdict.LATE, AnswerReason.TOO_OLD) == said(change)
    assert unchanged(change)


def test_slot_at_max_lateness_is_granted() -> None:
    """
    Row 11 begins beyond max_lateness.
    """
    assert Verdict.WON == decided(None, max_lateness_ms=NOW.wall_ms - SLOT).answer.verdict


@pytest.mark.parametrize("state", [RUNNING, DEAD, HANDED_OVER])
def test_waiting_slot_hears_the_run_in_the_way(state: JobState) -> None:
    """
    Row 12. Trap: without the run, who never saw the dead one hears overlap for ever.
    """
    change = decided(state, NEWER, overlap="wait")

    assert (Verdict.OVERLAP, False) == (change.answer.verdict, change.answer.recorded)
    assert change.answer.run is not None
    assert (SLOT, 1) == (change.answer.run.slot, change.answer.run.attempt)
    assert (state is RUNNING) == (change.answer.run.remaining_ms > 0)
    assert change.answer.previous_high is None
    assert unchanged(change)


def test_waiting_slot_is_granted_when_nothing_is_live() -> None:
    """
    Row 12 needs a run in the way.
    """
    assert Verdict.WON == decided(ENDED, NEWER, overlap="wait").answer.verdict


def test_overlapping_slot_is_skipped() -> None:
    """
    Row 13. Trap: a skip that leaves high behind is claimed again and again.
    """
    change = decided(RUNNING, NEWER)

    assert (Verdict.OVERLAP, True) == (change.answer.verdict, change.answer.recorded)
    assert (NEWER, SLOT) == (change.answer.high, change.answer.previous_high)
    assert (opened(NEWER, 1, Status.SKIPPED, Reason.OVERLAP),) == change.records
    assert change.state is not None
    assert (NEWER, LIVE) == (change.state.high, change.state.live)
    assert Skip(slot=NEWER, token="t2", previous_high=SLOT) == change.state.skip


def test_dead_run_is_superseded() -> None:
    """
    Row 14: a run whose lease has run out is not still going.
    """
    change = decided(replace(DEAD, live=replace(EXPIRED, crashes=2)), NEWER)

    assert (Verdict.WON, SLOT) == (change.answer.verdict, change.answer.previous_high)
    assert (
        closed(SLOT, 1, Reason.SUPERSEDED),
        opened(NEWER, 1, Status.RUNNING),
    ) == change.records
    assert 0 == granted(change).crashes


def test_released_run_is_superseded() -> None:
    """
    Row 14: its record was closed by the release.
    """
    change = decided(HANDED_OVER, NEWER)

    assert Verdict.WON == change.answer.verdict
    assert (opened(NEWER, 1, Status.RUNNING),) == change.records


def test_takeover_of_a_superseded_run_is_late() -> None:
    """
    Row 14: the backup of the older run hears that its time is over.
    """
    state = decided(DEAD, NEWER).state

    assert (Verdict.LATE, AnswerReason.SUPERSEDED) == said(decided(state, attempt=2))


def test_skip_before_a_newer_slot_is_superseded() -> None:
    """
    Row 2 is about the newest slot: the range before an older one was told by somebody else.
    """
    state = replace(ENDED, skip=Skip(slot=OLDER, token="t2", previous_high=None))

    assert (Verdict.LATE, AnswerReason.SUPERSEDED) == said(decided(state, OLDER))


def test_older_live_run_is_taken_over_beside_newer_skips() -> None:
    """
    A run that goes on while newer slots are skipped is still a run: its slot is below high.
    """
    state = replace(DEAD, high=NEWER, skip=Skip(slot=NEWER, token="t9", previous_high=SLOT))
    change = decided(state, attempt=2)

    assert Verdict.WON == change.answer.verdict
    assert change.state is not None
    assert NEWER == change.state.high


def test_repeated_skip_shows_the_run_in_the_way() -> None:
    """
    Whoever asks again is told what to watch, as the first time.
    """
    state = replace(RUNNING, high=NEWER, skip=Skip(slot=NEWER, token="t2", previous_high=SLOT))
    change = decided(state, NEWER)

    assert change.answer.run is not None
    assert (SLOT, 10_000) == (change.answer.run.slot, change.answer.run.remaining_ms)
