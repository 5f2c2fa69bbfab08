"""
The table of answers to a claim, row by row; each row with the trap that it keeps out.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from anarchon.backend import AnswerReason, ClaimAnswer, ClaimRequest, RunView, Verdict
from anarchon.protocol import (
    Change,
    JobState,
    Live,
    Now,
    RecordClose,
    RecordOpen,
    Skip,
    decide_claim,
)
from anarchon.records import Reason, Status

SLOT = 1_000_000
OLDER = SLOT - 10_000
NEWER = SLOT + 10_000
LEASE_MS = 30_000
NOW = Now(SLOT + 20_000, 500_000, "boot-1")
LIVE = Live(
    slot=SLOT,
    attempt=1,
    token="t1",
    instance_id="host:1",
    lease_ms=LEASE_MS,
    lease_until_ms=NOW.lease_ms + 10_000,
    lease_clock="boot-1",
    previous_high=OLDER,
)
EXPIRED = replace(LIVE, lease_until_ms=NOW.lease_ms)
RELEASED = replace(LIVE, token=None, lease_until_ms=NOW.lease_ms)
RUNNING = JobState(high=SLOT, live=LIVE, fingerprint="f1", since_ms=7)
DEAD = replace(RUNNING, live=EXPIRED)
HANDED_OVER = replace(RUNNING, live=RELEASED)
ENDED = replace(RUNNING, live=None)


def claim(slot: int = SLOT, **options: Any) -> ClaimRequest:
    """
    Write a claim by another instance.
    """
    named: dict[str, Any] = {"token": "t2", "instance_id": "host:2", "lease_ms": LEASE_MS}
    return ClaimRequest(job="job", slot=slot, **(named | options))


def decided(state: JobState | None, slot: int = SLOT, **options: Any) -> Change[ClaimAnswer]:
    """
    Decide a claim now.
    """
    return decide_claim(state, claim(slot, **options), NOW)


def said(change: Change[ClaimAnswer]) -> tuple[Verdict, AnswerReason | None]:
    """
    Take the words of an answer.
    """
    return change.answer.verdict, change.answer.reason


def unchanged(change: Change[ClaimAnswer]) -> bool:
    """
    Say whether a decision leaves everything as it was.
    """
    return change.state is None and not change.records


def granted(change: Change[ClaimAnswer]) -> Live:
    """
    Take the run that a decision has made live.
    """
    assert change.state is not None
    assert change.state.live is not None
    return change.state.live


def closed(slot: int, attempt: int, reason: Reason) -> RecordClose:
    """
    Write the end of an interrupted attempt.
    """
    return RecordClose(
        slot=slot,
        attempt=attempt,
        status=Status.INTERRUPTED,
        reason=reason,
        finished_ms=NOW.wall_ms,
    )


def opened(slot: int, attempt: int, status: Status, reason: Reason | None = None) -> RecordOpen:
    """
    Write the record that a claim by t2 leaves.
    """
    return RecordOpen(
        slot=slot,
        attempt=attempt,
        token="t2",
        instance_id="host:2",
        status=status,
        reason=reason,
        claimed_ms=NOW.wall_ms,
    )


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
    Row 1 stands before row 2: what had been granted is told, however late.
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
    Row 2. Trap: a claim that its sender has given up starts a run that nobody executes.
    """
    change = decided(state, attempt=2, not_after_ms=NOW.wall_ms - 1)

    assert (Verdict.LATE, AnswerReason.EXPIRED) == said(change)
    assert unchanged(change)


def test_claim_is_granted_at_its_very_end() -> None:
    """
    Row 2 is about what is past not_after.
    """
    assert (Verdict.WON, None) == said(decided(None, not_after_ms=NOW.wall_ms))


def test_next_attempt_takes_an_expired_run_over() -> None:
    """
    Row 3: the old attempt is closed, and one more crash is counted.
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
    Row 3: a released run was closed before, and is no crash.
    """
    change = decided(HANDED_OVER, attempt=2)

    assert Verdict.WON == change.answer.verdict
    assert (opened(SLOT, 2, Status.RUNNING),) == change.records
    assert 0 == granted(change).crashes


@pytest.mark.parametrize("attempt", [1, 3])
@pytest.mark.parametrize("state", [DEAD, HANDED_OVER])
def test_other_attempts_take_nothing_over(state: JobState, attempt: int) -> None:
    """
    Row 3. Trap: "whoever claims an expired run wins it" grants a stale copy of an old claim.
    """
    change = decided(state, attempt=attempt)

    assert Verdict.RUNNING == change.answer.verdict
    assert change.answer.run is not None
    assert 0 == change.answer.run.remaining_ms
    assert unchanged(change)


def test_run_that_crashed_too_often_is_given_up() -> None:
    """
    Row 4: the crash that reaches max_crashes closes the run.
    """
    state = replace(DEAD, live=replace(EXPIRED, crashes=2))
    change = decided(state, attempt=2, max_crashes=3)

    assert (Verdict.DONE, AnswerReason.GIVEN_UP) == said(change)
    assert (closed(SLOT, 1, Reason.MAX_CRASHES),) == change.records
    assert replace(state, live=None) == change.state


def test_one_crash_less_is_taken_over() -> None:
    """
    Row 4 begins at max_crashes, not before.
    """
    state = replace(DEAD, live=replace(EXPIRED, crashes=1))

    assert 2 == granted(decided(state, attempt=2, max_crashes=3)).crashes


def test_hand_over_after_crashes_is_not_given_up() -> None:
    """
    Row 4. Trap: counting hand-overs gives a long job up after a few deploys.
    """
    state = replace(DEAD, live=replace(RELEASED, crashes=9))
    change = decided(state, attempt=2, max_crashes=3)

    assert Verdict.WON == change.answer.verdict
    assert 9 == granted(change).crashes


def test_dead_run_is_given_up_with_takeover_off() -> None:
    """
    Row 4: a job that must not be started twice is closed by whoever finds it.
    """
    change = decided(DEAD, attempt=2, takeover=False)

    assert (Verdict.DONE, AnswerReason.GIVEN_UP) == said(change)
    assert (closed(SLOT, 1, Reason.TAKEOVER_OFF),) == change.records
    assert ENDED == change.state


def test_released_run_is_given_up_with_takeover_off() -> None:
    """
    Row 4: its record was closed by the release, and stays as it is.
    """
    change = decided(HANDED_OVER, attempt=2, takeover=False)

    assert (Verdict.DONE, AnswerReason.GIVEN_UP) == said(change)
    assert () == change.records
    assert ENDED == change.state


@pytest.mark.parametrize("attempt", [1, 2, 3])
def test_live_run_is_running(attempt: int) -> None:
    """
    Row 5: the asker hears what to watch.
    """
    change = decided(RUNNING, attempt=attempt)

    assert Verdict.RUNNING == change.answer.verdict
    assert (
        RunView(slot=SLOT, attempt=1, remaining_ms=10_000, instance_id="host:1")
        == change.answer.run
    )
    assert unchanged(change)


def test_ended_slot_is_done() -> None:
    """
    Row 6: finished, given up, or registered as past.
    """
    change = decided(ENDED)

    assert (Verdict.DONE, AnswerReason.ENDED) == said(change)
    assert unchanged(change)


def test_next_attempt_of_an_ended_slot_is_done() -> None:
    """
    Row 6 stands before row 8: a backup hears that the run it watched is over.
    """
    assert (Verdict.DONE, AnswerReason.ENDED) == said(decided(ENDED, attempt=2))


def test_repeated_skip_is_overlap_again() -> None:
    """
    Row 6. Trap: answered done, the range that was missed is never reported.
    """
    state = replace(ENDED, skip=Skip(slot=SLOT, token="t2", previous_high=OLDER))
    change = decided(state)

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
    Row 6: only the one who was told the range reports it.
    """
    assert (Verdict.DONE, AnswerReason.ENDED) == said(decided(replace(ENDED, skip=skip)))


@pytest.mark.parametrize("state", [ENDED, RUNNING])
@pytest.mark.parametrize("attempt", [1, 2])
def test_older_slot_is_superseded(state: JobState, attempt: int) -> None:
    """
    Row 7. Trap: without high an instance that lags runs an old slot again.
    """
    change = decided(state, OLDER, attempt=attempt)

    assert (Verdict.LATE, AnswerReason.SUPERSEDED) == said(change)
    assert unchanged(change)


@pytest.mark.parametrize("state", [None, JobState(), ENDED])
def test_takeover_of_an_unknown_run_is_none(state: JobState | None) -> None:
    """
    Row 8: a store that knows nothing of the run starts nothing.
    """
    change = decided(state, NEWER, attempt=2)

    assert Verdict.NONE == change.answer.verdict
    assert unchanged(change)


def test_slot_of_the_future_is_early() -> None:
    """
    Row 9. Trap: one bad clock moves high into the future and stops the job for everyone.
    """
    change = decided(ENDED, NOW.wall_ms + 501)

    assert (Verdict.EARLY, 501) == (change.answer.verdict, change.answer.wait_ms)
    assert unchanged(change)


def test_slot_within_the_tolerance_is_granted() -> None:
    """
    Row 9 leaves what honest clocks differ by.
    """
    assert Verdict.WON == decided(ENDED, NOW.wall_ms + 500).answer.verdict


def test_too_old_slot_is_late() -> None:
    """
    Row 10: judged by the store's clock, and nothing moves.
    """
    change = decided(None, max_lateness_ms=NOW.wall_ms - SLOT - 1)

    assert (Verdict.LATE, AnswerReason.TOO_OLD) == said(change)
    assert unchanged(change)


def test_slot_at_max_lateness_is_granted() -> None:
    """
    Row 10 begins beyond max_lateness.
    """
    assert Verdict.WON == decided(None, max_lateness_ms=NOW.wall_ms - SLOT).answer.verdict


@pytest.mark.parametrize("state", [RUNNING, DEAD, HANDED_OVER])
def test_waiting_slot_hears_the_run_in_the_way(state: JobState) -> None:
    """
    Row 11. Trap: without the run, who never saw the dead one hears overlap for ever.
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
    Row 11 needs a run in the way.
    """
    assert Verdict.WON == decided(ENDED, NEWER, overlap="wait").answer.verdict


def test_overlapping_slot_is_skipped() -> None:
    """
    Row 12. Trap: a skip that leaves high behind is claimed again and again.
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
    Row 13: a run whose lease has run out is not still going.
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
    Row 13: its record was closed by the release.
    """
    change = decided(HANDED_OVER, NEWER)

    assert Verdict.WON == change.answer.verdict
    assert (opened(NEWER, 1, Status.RUNNING),) == change.records


def test_takeover_of_a_superseded_run_is_late() -> None:
    """
    Row 13: the backup of the older run hears that its time is over.
    """
    state = decided(DEAD, NEWER).state

    assert (Verdict.LATE, AnswerReason.SUPERSEDED) == said(decided(state, attempt=2))


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


def test_lease_of_another_boot_is_whole_again() -> None:
    """
    Trap: "another boot id: every lease is over" lets two machines take each other's runs without end.
    """
    foreign = replace(DEAD, live=replace(EXPIRED, lease_clock="boot-0", lease_until_ms=1))
    change = decided(foreign, attempt=2)

    assert Verdict.RUNNING == change.answer.verdict
    assert change.answer.run is not None
    assert LEASE_MS == change.answer.run.remaining_ms
    assert ("boot-1", NOW.lease_ms + LEASE_MS) == (
        granted(change).lease_clock,
        granted(change).lease_until_ms,
    )


def test_lease_of_another_boot_is_rewritten_by_other_answers_too() -> None:
    """
    A decision that changes something keeps the lease that it saw.
    """
    foreign = replace(RUNNING, live=replace(LIVE, lease_clock="boot-0"))
    change = decided(foreign, NEWER)

    assert Verdict.OVERLAP == change.answer.verdict
    assert "boot-1" == granted(change).lease_clock


def test_released_run_of_another_boot_is_taken_at_once() -> None:
    """
    A run that was handed over has no lease that a clock could judge.
    """
    foreign = replace(HANDED_OVER, live=replace(RELEASED, lease_clock="boot-0"))

    assert Verdict.WON == decided(foreign, attempt=2).answer.verdict
