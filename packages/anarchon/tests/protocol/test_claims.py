"""
The table of answers, rows 1 to 6: claims for the run that is live, or that nobody knows.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from tables import (
    DEAD,
    ENDED,
    EXPIRED,
    HANDED_OVER,
    LEASE_MS,
    NEWER,
    NOW,
    OLDER,
    RELEASED,
    RUNNING,
    SLOT,
    closed,
    decided,
    granted,
    opened,
    said,
    unchanged,
)

from anarchon.backend import AnswerReason, RunView, Verdict
from anarchon.protocol import JobState
from anarchon.records import Reason, Status


def test_first_claim_of_an_unknown_job_is_won() -> None:
    """
    A job that nobody registered is granted all the same, with nothing before it.
    """
    change = decided(None)

    assert (Verdict.WON, None) == said(change)
    assert (SLOT, None) == (change.answer.high, change.answer.previous_high)
    assert (opened(SLOT, 1, Status.RUNNING),) == change.records
    assert NOW.lease_ms + LEASE_MS == granted(change).lease_until_ms


def test_new_slot_is_won_and_becomes_high() -> None:
    """
    Row "otherwise": the winner hears the high that stood before.
    """
    change = decided(ENDED, NEWER)

    assert (Verdict.WON, SLOT) == (change.answer.verdict, change.answer.previous_high)
    assert NEWER == change.answer.high
    assert ("t2", 0, SLOT) == (
        granted(change).token,
        granted(change).crashes,
        granted(change).previous_high,
    )


def test_same_token_is_won_again_with_a_whole_lease() -> None:
    """
    Row 1: an answer that got lost costs nothing, and the previous high is the first one.
    """
    change = decided(DEAD, token="t1")

    assert (Verdict.WON, OLDER) == (change.answer.verdict, change.answer.previous_high)
    assert () == change.records
    assert NOW.lease_ms + LEASE_MS == granted(change).lease_until_ms


def test_same_token_is_won_even_after_its_end() -> None:
    """
    Row 1 stands before row 3: what had been granted is told, however late.
    """
    change = decided(RUNNING, token="t1", not_after_ms=NOW.wall_ms - 1)

    assert Verdict.WON == change.answer.verdict


def test_token_of_another_attempt_is_no_repetition() -> None:
    """
    A token belongs to one attempt.
    """
    change = decided(RUNNING, token="t1", attempt=2)

    assert Verdict.RUNNING == change.answer.verdict


@pytest.mark.parametrize("state", [None, ENDED, RUNNING, DEAD, HANDED_OVER])
def test_expired_claim_is_late(state: JobState | None) -> None:
    """
    Row 3. Trap: a claim that its sender has given up starts a run that nobody executes.
    """
    change = decided(state, attempt=2, not_after_ms=NOW.wall_ms - 1)

    assert (Verdict.LATE, AnswerReason.EXPIRED) == said(change)
    assert unchanged(change)


def test_claim_is_granted_at_its_very_end() -> None:
    """
    Row 3 is about what is past not_after.
    """
    assert (Verdict.WON, None) == said(decided(None, not_after_ms=NOW.wall_ms))


def test_next_attempt_takes_an_expired_run_over() -> None:
    """
    Row 4: the old attempt is closed, and one more crash is counted.
    """
    change = decided(DEAD, attempt=2)

    assert (Verdict.WON, OLDER) == (change.answer.verdict, change.answer.previous_high)
    assert (
        closed(SLOT, 1, Reason.LEASE_EXPIRED),
        opened(SLOT, 2, Status.RUNNING),
    ) == change.records
    assert (2, "t2", 1, OLDER) == (
        granted(change).attempt,
        granted(change).token,
        granted(change).crashes,
        granted(change).previous_high,
    )


def test_next_attempt_takes_a_released_run_over() -> None:
    """
    Row 4: a released run was closed before, and is no crash.
    """
    change = decided(HANDED_OVER, attempt=2)

    assert Verdict.WON == change.answer.verdict
    assert (opened(SLOT, 2, Status.RUNNING),) == change.records
    assert 0 == granted(change).crashes


@pytest.mark.parametrize("attempt", [1, 3])
@pytest.mark.parametrize("state", [DEAD, HANDED_OVER])
def test_other_attempts_take_nothing_over(state: JobState, attempt: int) -> None:
    """
    Row 4. Trap: "whoever claims an expired run wins it" grants a stale copy of an old claim.
    """
    change = decided(state, attempt=attempt)

    assert Verdict.RUNNING == change.answer.verdict
    assert change.answer.run is not None
    assert 0 == change.answer.run.remaining_ms
    assert unchanged(change)


def test_run_that_crashed_too_often_is_given_up() -> None:
    """
    Row 5: the crash that reaches max_crashes closes the run.
    """
    state = replace(DEAD, live=replace(EXPIRED, crashes=2))
    change = decided(state, attempt=2, max_crashes=3)

    assert (Verdict.DONE, AnswerReason.GIVEN_UP) == said(change)
    assert (closed(SLOT, 1, Reason.MAX_CRASHES),) == change.records
    assert replace(state, live=None) == change.state


def test_one_crash_less_is_taken_over() -> None:
    """
    Row 5 begins at max_crashes, not before.
    """
    state = replace(DEAD, live=replace(EXPIRED, crashes=1))

    assert 2 == granted(decided(state, attempt=2, max_crashes=3)).crashes


def test_hand_over_after_crashes_is_not_given_up() -> None:
    """
    Row 5. Trap: counting hand-overs gives a long job up after a few deploys.
    """
    state = replace(DEAD, live=replace(RELEASED, crashes=9))
    change = decided(state, attempt=2, max_crashes=3)

    assert Verdict.WON == change.answer.verdict
    assert 9 == granted(change).crashes


def test_dead_run_is_given_up_with_takeover_off() -> None:
    """
    Row 5: a job that must not be started twice is closed by whoever finds it.
    """
    change = decided(DEAD, attempt=2, takeover=False)

    assert (Verdict.DONE, AnswerReason.GIVEN_UP) == said(change)
    assert (closed(SLOT, 1, Reason.TAKEOVER_OFF),) == change.records
    assert ENDED == change.state


def test_released_run_is_given_up_with_takeover_off() -> None:
    """
    Row 5: its record was closed by the release, and stays as it is.
    """
    change = decided(HANDED_OVER, attempt=2, takeover=False)

    assert (Verdict.DONE, AnswerReason.GIVEN_UP) == said(change)
    assert () == change.records
    assert ENDED == change.state


@pytest.mark.parametrize("attempt", [1, 2, 3])
def test_live_run_is_running(attempt: int) -> None:
    """
    Row 6: the asker hears what to watch.
    """
    change = decided(RUNNING, attempt=attempt)

    assert Verdict.RUNNING == change.answer.verdict
    assert (
        RunView(slot=SLOT, attempt=1, remaining_ms=10_000, instance_id="host:1")
        == change.answer.run
    )
    assert unchanged(change)
