"""
A job in every state of the table of answers, and claims by another instance.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from anarchon.backend import AnswerReason, ClaimAnswer, ClaimRequest, Verdict
from anarchon.protocol import (
    Change,
    JobState,
    Live,
    Now,
    RecordClose,
    RecordOpen,
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
