"""
Which row of the table of answers was answered: coverage, counted in the store.
"""

from __future__ import annotations

from anarchon.backend import (
    AnswerReason,
    ClaimAnswer,
    ClaimRequest,
    CloseAnswer,
    FinishRequest,
    RegisterAnswer,
    RegisterRequest,
    ReleaseRequest,
    RenewAnswer,
    RenewRequest,
    Verdict,
)
from anarchon.errors import BackendError
from anarchon.protocol import JobState, Live

__all__ = ["ROWS", "row_of"]

_Request = ClaimRequest | RenewRequest | FinishRequest | ReleaseRequest | RegisterRequest
_Answer = ClaimAnswer | RenewAnswer | CloseAnswer | RegisterAnswer | BackendError

ROWS = frozenset(
    {
        "claim: won, first",
        "claim: won again, same token",
        "claim: won, takeover of a lease that ran out",
        "claim: won, takeover of a released run",
        "claim: won, over an older run whose lease ran out",
        "claim: won, over an older run that was released",
        "claim: late, given up by its sender",
        "claim: late, given up by its sender, and names the run that is live",
        "claim: late, superseded",
        "claim: late, superseded, and names the run that is live",
        "claim: late, too old",
        "claim: done, ended",
        "claim: done, ended, and names the run that is live",
        "claim: done, given up after crashes",
        "claim: done, given up without takeover",
        "claim: running, lease holds",
        "claim: running, another attempt",
        "claim: overlap, recorded",
        "claim: overlap, repeated",
        "claim: overlap, repeated after its deadline",
        "claim: overlap, waiting",
        "claim: none",
        "claim: none, and names the run that is live",
        "claim: early",
        "claim: early, and names the run that is live",
        "renew: held",
        "renew: held, after the lease had run out",
        "renew: refused",
        "finish: accepted",
        "finish: accepted, repeated",
        "finish: refused",
        "release: accepted",
        "release: accepted, repeated",
        "release: refused",
        "register: new",
        "register: known",
        "register: another schedule",
        "register: other rules of the zone",
    }
)
"""
The rows that a sweep must have met.
"""


_REPEATED = "claim: overlap, repeated"
_NAMES = ", and names the run that is live"


def row_of(
    request: _Request,
    answer: _Answer,
    *,
    before: JobState | None,
    now_ms: int,
    lease_now_ms: int,
) -> str:
    """
    Name the row that answered *request*.

    Args:
        request: What was asked.

        answer: What was answered.

        before: The job's state before.

        now_ms: The store's wall clock.

        lease_now_ms: The store's clock that judges leases.
    """
    live = None if before is None else before.live
    if isinstance(answer, BackendError):
        return f"error: {type(answer).__name__}"
    if isinstance(request, ClaimRequest) and isinstance(answer, ClaimAnswer):
        row = _claim_row(request, answer, before, lease_now_ms)
        if row == _REPEATED and request.not_after_ms is not None and now_ms > request.not_after_ms:
            return f"{row} after its deadline"
        return row if f"{row}{_NAMES}" not in ROWS or answer.run is None else f"{row}{_NAMES}"
    if isinstance(request, RenewRequest) and isinstance(answer, RenewAnswer):
        if not answer.held:
            return "renew: refused"
        over = live is not None and live.lease_until_ms <= lease_now_ms
        return "renew: held, after the lease had run out" if over else "renew: held"
    if isinstance(answer, CloseAnswer):
        name = "finish" if isinstance(request, FinishRequest) else "release"
        if not answer.accepted:
            return f"{name}: refused"
        token = getattr(request, "token", None)
        repeated = live is None or live.token != token
        return f"{name}: accepted, repeated" if repeated else f"{name}: accepted"
    if isinstance(answer, RegisterAnswer) and isinstance(request, RegisterRequest):
        if answer.new:
            return "register: new"
        changed = answer.fingerprint not in (None, request.fingerprint)
        if changed:
            return "register: another schedule"
        differs = answer.zone_digests not in (None, request.zone_digests)
        return "register: other rules of the zone" if differs else "register: known"
    return f"unknown: {request!r}"


def _claim_row(
    request: ClaimRequest, answer: ClaimAnswer, before: JobState | None, lease_now_ms: int
) -> str:
    live = None if before is None else before.live
    match answer.verdict:
        case Verdict.WON:
            return _won_row(request, live)
        case Verdict.LATE:
            return {
                AnswerReason.EXPIRED: "claim: late, given up by its sender",
                AnswerReason.TOO_OLD: "claim: late, too old",
            }.get(answer.reason or AnswerReason.SUPERSEDED, "claim: late, superseded")
        case Verdict.DONE if answer.reason is AnswerReason.GIVEN_UP:
            if live is None or live.slot != request.slot:
                return "claim: done, ended"
            return (
                "claim: done, given up after crashes"
                if request.takeover
                else "claim: done, given up without takeover"
            )
        case Verdict.DONE:
            return "claim: done, ended"
        case Verdict.RUNNING:
            holds = (
                live is not None and live.token is not None and live.lease_until_ms > lease_now_ms
            )
            return "claim: running, lease holds" if holds else "claim: running, another attempt"
        case Verdict.OVERLAP if request.overlap == "wait":
            return "claim: overlap, waiting"
        case Verdict.OVERLAP:
            repeated = before is not None and before.high == request.slot
            return _REPEATED if repeated else "claim: overlap, recorded"
        case _:
            return f"claim: {answer.verdict}"


def _won_row(request: ClaimRequest, live: Live | None) -> str:
    if live is None:
        return "claim: won, first"
    if live.slot == request.slot:
        if live.token == request.token:
            return "claim: won again, same token"
        released = live.token is None
        return (
            "claim: won, takeover of a released run"
            if released
            else "claim: won, takeover of a lease that ran out"
        )
    if live.token is None:
        return "claim: won, over an older run that was released"
    return "claim: won, over an older run whose lease ran out"
