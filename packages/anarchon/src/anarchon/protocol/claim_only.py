"""
The answer to a claim on a claim-only backend; pure.
"""

from __future__ import annotations

from anarchon.backend import EARLY_TOLERANCE_MS, AnswerReason, ClaimAnswer, ClaimRequest, Verdict

__all__ = ["decide_claim_only"]


def decide_claim_only(
    holder: str | None, forgotten_until: int | None, request: ClaimRequest, now_ms: int | None
) -> ClaimAnswer:
    """
    Decide one claim: WON for the first token, or for the same one again.

    Args:
        holder: The token that holds the slot; None if nobody does.

        forgotten_until: The newest slot whose claim the store may have forgotten.
            A slot that is not newer is refused, since it may have run.

        request: The claim; a claim-only store grants attempt 1 alone.

        now_ms: The store's clock; None where it tells none.
    """
    if holder is not None:
        verdict = Verdict.WON if holder == request.token else Verdict.TAKEN
        return ClaimAnswer(verdict=verdict, store_now_ms=now_ms)
    if now_ms is not None and request.not_after_ms is not None and now_ms > request.not_after_ms:
        return _late(AnswerReason.EXPIRED, now_ms)
    if forgotten_until is not None and request.slot <= forgotten_until:
        return _late(AnswerReason.TOO_OLD, now_ms)
    if request.attempt > 1:
        return ClaimAnswer(verdict=Verdict.NONE, store_now_ms=now_ms)
    if now_ms is not None and request.slot - now_ms > EARLY_TOLERANCE_MS:
        return ClaimAnswer(
            verdict=Verdict.EARLY, store_now_ms=now_ms, wait_ms=request.slot - now_ms
        )
    return ClaimAnswer(verdict=Verdict.WON, store_now_ms=now_ms)


def _late(reason: AnswerReason, now_ms: int | None) -> ClaimAnswer:
    return ClaimAnswer(verdict=Verdict.LATE, reason=reason, store_now_ms=now_ms)
