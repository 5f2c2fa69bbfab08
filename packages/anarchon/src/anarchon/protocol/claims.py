"""
The table of answers to a claim on a lease backend: the first row that fits decides.

The rows stand in `specs/backend.md`, each with the trap that it keeps out. This
module is pure: (state, request, now) → answer, next state, records.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from anarchon.backend import EARLY_TOLERANCE_MS, AnswerReason, ClaimAnswer, ClaimRequest, Verdict
from anarchon.protocol.state import (
    Change,
    JobState,
    Live,
    Now,
    RecordClose,
    RecordOpen,
    Skip,
    lease_end_ms,
    rebase,
    renewed,
    view,
)
from anarchon.records import Reason, Status

__all__ = ["decide_claim"]


def decide_claim(state: JobState | None, request: ClaimRequest, now: Now) -> Change[ClaimAnswer]:
    """
    Decide one claim.

    Args:
        state: What the store keeps for the job; None if it does not know it.

        request: The claim.

        now: The store's clocks.

    Returns:
        The answer, the state to keep and the records to write. ``state`` None in
        the result says that nothing changes.
    """
    before = state or JobState()
    known = rebase(before, now)
    change = _decide(known, request, now)
    if known is not before and change.state is None:
        return Change(change.answer, known, change.records)
    return change


def _decide(state: JobState, request: ClaimRequest, now: Now) -> Change[ClaimAnswer]:
    live = state.live
    same_run = live is not None and live.slot == request.slot
    if (
        live is not None
        and same_run
        and live.attempt == request.attempt
        and live.token == request.token
    ):
        return _won_again(state, live, request, now)
    skip = state.skip
    if skip is not None and skip.slot == request.slot == state.high and skip.token == request.token:
        return Change(_skipped(state, now, skip.previous_high))
    if request.not_after_ms is not None and now.wall_ms > request.not_after_ms:
        return _plain(state, now, Verdict.LATE, AnswerReason.EXPIRED)
    if live is not None and same_run:
        return _same_run(state, live, request, now)
    if state.high is not None and request.slot <= state.high:
        if request.slot == state.high:
            return _plain(state, now, Verdict.DONE, AnswerReason.ENDED)
        return _plain(state, now, Verdict.LATE, AnswerReason.SUPERSEDED)
    if request.attempt > 1:
        return _plain(state, now, Verdict.NONE)
    return _new_slot(state, live, request, now)


def _plain(
    state: JobState,
    now: Now,
    verdict: Verdict,
    reason: AnswerReason | None = None,
    *,
    wait_ms: int = 0,
) -> Change[ClaimAnswer]:
    """
    Answer without changing anything, and name the run that is live.

    Whoever loses a claim becomes a backup of that run, whatever it lost by: else
    one that was late for the last slot would let a dead run lie.
    """
    return Change(
        ClaimAnswer(
            verdict=verdict,
            reason=reason,
            store_now_ms=now.wall_ms,
            high=state.high,
            since_ms=state.since_ms,
            run=None if state.live is None else view(state.live, now),
            wait_ms=wait_ms,
        )
    )


def _won_again(state: JobState, live: Live, request: ClaimRequest, now: Now) -> Change[ClaimAnswer]:
    """
    Repeat a grant whose answer got lost; the lease is whole again.
    """
    whole = renewed(live, request.lease_ms, now)
    return Change(_won(state, now, live.previous_high), replace(state, live=whole))


def _won(state: JobState, now: Now, previous_high: int | None) -> ClaimAnswer:
    return ClaimAnswer(
        verdict=Verdict.WON,
        store_now_ms=now.wall_ms,
        high=state.high,
        previous_high=previous_high,
        since_ms=state.since_ms,
    )


def _same_run(state: JobState, live: Live, request: ClaimRequest, now: Now) -> Change[ClaimAnswer]:
    """
    Answer a claim for the very run that is unfinished: a backup's check.
    """
    over = live.token is None or lease_end_ms(live, now) <= now.lease_ms
    if not over or request.attempt != live.attempt + 1:
        return _plain(state, now, Verdict.RUNNING)
    released = live.token is None
    crashes = live.crashes if released else live.crashes + 1
    if not request.takeover:
        return _given_up(state, live, now, Reason.TAKEOVER_OFF)
    if not released and crashes >= request.max_crashes:
        return _given_up(state, live, now, Reason.MAX_CRASHES)
    granted = _grant(request, now, crashes=crashes, previous_high=live.previous_high)
    after = _after(state, request, now, live=granted)
    records: tuple[RecordOpen | RecordClose, ...] = (
        *_close(live, now, Reason.LEASE_EXPIRED),
        _open(request, now, Status.RUNNING, None),
    )
    return Change(_won(after, now, live.previous_high), after, records)


def _given_up(state: JobState, live: Live, now: Now, reason: Reason) -> Change[ClaimAnswer]:
    """
    Close a dead run without starting another attempt.
    """
    answer = ClaimAnswer(
        verdict=Verdict.DONE,
        reason=AnswerReason.GIVEN_UP,
        store_now_ms=now.wall_ms,
        high=state.high,
        since_ms=state.since_ms,
    )
    return Change(answer, replace(state, live=None), _close(live, now, reason))


def _skipped(state: JobState, now: Now, previous_high: int | None) -> ClaimAnswer:
    return ClaimAnswer(
        verdict=Verdict.OVERLAP,
        store_now_ms=now.wall_ms,
        high=state.high,
        previous_high=previous_high,
        since_ms=state.since_ms,
        recorded=True,
        run=None if state.live is None else view(state.live, now),
    )


def _new_slot(
    state: JobState, live: Live | None, request: ClaimRequest, now: Now
) -> Change[ClaimAnswer]:
    """
    Answer the first claim for a slot that is newer than all the store knows.
    """
    ahead_ms = request.slot - now.wall_ms
    if ahead_ms > EARLY_TOLERANCE_MS:
        return _plain(state, now, Verdict.EARLY, wait_ms=ahead_ms)
    if request.max_lateness_ms is not None and -ahead_ms > request.max_lateness_ms:
        return _plain(state, now, Verdict.LATE, AnswerReason.TOO_OLD)
    if live is not None and request.overlap == "wait":
        return _plain(state, now, Verdict.OVERLAP)
    if live is not None and live.token is not None and lease_end_ms(live, now) > now.lease_ms:
        skip = Skip(slot=request.slot, token=request.token, previous_high=state.high)
        after = _after(state, request, now, high=request.slot, skip=skip)
        record = _open(request, now, Status.SKIPPED, Reason.OVERLAP)
        return Change(_skipped(after, now, state.high), after, (record,))
    granted = _grant(request, now, crashes=0, previous_high=state.high)
    after = _after(state, request, now, high=request.slot, live=granted)
    opened = _open(request, now, Status.RUNNING, None)
    records: tuple[RecordOpen | RecordClose, ...] = (
        (opened,) if live is None else (*_close(live, now, Reason.SUPERSEDED), opened)
    )
    return Change(_won(after, now, state.high), after, records)


def _grant(request: ClaimRequest, now: Now, *, crashes: int, previous_high: int | None) -> Live:
    return Live(
        slot=request.slot,
        attempt=request.attempt,
        token=request.token,
        instance_id=request.instance_id,
        lease_ms=request.lease_ms,
        lease_until_ms=now.lease_ms + request.lease_ms,
        lease_clock=now.lease_clock,
        crashes=crashes,
        previous_high=previous_high,
    )


def _after(state: JobState, request: ClaimRequest, now: Now, **changes: Any) -> JobState:
    """
    Return the state after a grant or a recorded skip, with the schedule of whoever got it.
    """
    if request.fingerprint is None:
        return replace(state, **changes)
    changed = state.fingerprint is not None and state.fingerprint != request.fingerprint
    return replace(
        state,
        fingerprint=request.fingerprint,
        zone_digests=request.zone_digests,
        since_ms=now.wall_ms if changed else state.since_ms,
        **changes,
    )


def _open(request: ClaimRequest, now: Now, status: Status, reason: Reason | None) -> RecordOpen:
    return RecordOpen(
        slot=request.slot,
        attempt=request.attempt,
        token=request.token,
        instance_id=request.instance_id,
        status=status,
        reason=reason,
        claimed_ms=now.wall_ms,
    )


def _close(live: Live, now: Now, reason: Reason) -> tuple[RecordOpen | RecordClose, ...]:
    """
    Close the record of an attempt that died; a released one was closed when it was released.
    """
    if live.token is None:
        return ()
    return (
        RecordClose(
            slot=live.slot,
            attempt=live.attempt,
            status=Status.INTERRUPTED,
            reason=reason,
            finished_ms=now.wall_ms,
        ),
    )
