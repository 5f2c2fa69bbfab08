"""
The answer to a claim on a claim-only backend, row by row.
"""

from __future__ import annotations

from typing import Any

import pytest

from anarchon.backend import AnswerReason, ClaimRequest, Verdict
from anarchon.protocol import decide_claim_only

SLOT = 1_000_000
NOW_MS = SLOT + 20_000


def said(
    holder: str | None = None,
    forgotten_until: int | None = None,
    *,
    now_ms: int | None = NOW_MS,
    **options: Any,
) -> tuple[Verdict, AnswerReason | None]:
    """
    Decide a claim by t2, and take the words of the answer.
    """
    named: dict[str, Any] = {"slot": SLOT, "token": "t2", "instance_id": "host:2"}
    request = ClaimRequest(job="job", **(named | options))
    answer = decide_claim_only(holder, forgotten_until, request, now_ms)

    assert now_ms == answer.store_now_ms
    return answer.verdict, answer.reason


def test_first_token_wins() -> None:
    """
    Nobody holds the slot, so it is granted, with or without a clock.
    """
    assert [(Verdict.WON, None)] * 2 == [said(), said(now_ms=None)]


def test_holder_wins_again_and_others_do_not() -> None:
    """
    The token that holds the slot is recognised, whatever the time.
    """
    assert (Verdict.WON, None) == said("t2", not_after_ms=0)
    assert (Verdict.TAKEN, None) == said("t1", not_after_ms=0)


@pytest.mark.parametrize(
    ("now_ms", "expected"),
    [
        (NOW_MS, (Verdict.LATE, AnswerReason.EXPIRED)),
        (NOW_MS - 1, (Verdict.WON, None)),
        (None, (Verdict.WON, None)),
    ],
)
def test_expired_claim_is_late(
    now_ms: int | None, expected: tuple[Verdict, AnswerReason | None]
) -> None:
    """
    A claim that its sender has given up is refused where the store can tell.
    """
    assert expected == said(now_ms=now_ms, not_after_ms=NOW_MS - 1)


@pytest.mark.parametrize("forgotten_until", [SLOT, SLOT + 1])
def test_forgotten_slot_is_too_old(forgotten_until: int) -> None:
    """
    What the store cannot remember may have run.
    """
    assert (Verdict.LATE, AnswerReason.TOO_OLD) == said(None, forgotten_until)


def test_remembered_slot_is_granted() -> None:
    """
    Whatever is newer than all that was forgotten has not run.
    """
    assert (Verdict.WON, None) == said(None, SLOT - 1)


def test_second_attempt_is_never_granted() -> None:
    """
    A slot is executed at most once.
    """
    assert (Verdict.NONE, None) == said(attempt=2)
    assert (Verdict.TAKEN, None) == said("t1", attempt=2)


def test_slot_of_the_future_is_early() -> None:
    """
    Where the store tells its time a fast clock runs nothing early; where it does not, it does.
    """
    assert (Verdict.EARLY, None) == said(slot=NOW_MS + 501)
    assert (Verdict.WON, None) == said(slot=NOW_MS + 500)
    assert (Verdict.WON, None) == said(slot=NOW_MS + 501, now_ms=None)
