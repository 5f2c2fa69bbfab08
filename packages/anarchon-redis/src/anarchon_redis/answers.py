"""
Between the protocol's values and the texts that the scripts read and write.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

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
    RunView,
    Verdict,
)
from anarchon.errors import RequestError
from anarchon.records import Reason, RunRecord, Status, datetime_of, storable_error

__all__ = [
    "Told",
    "claim_answer",
    "claim_fields",
    "close_answer",
    "finish_fields",
    "only_claim_answer",
    "only_claim_fields",
    "packed",
    "record_of",
    "register_answer",
    "register_fields",
    "release_fields",
    "renew_answer",
    "renew_fields",
]

Told = Sequence[str]

_quoted = json.encoder.encode_basestring

_VERDICTS = {verdict.value: verdict for verdict in Verdict}


def packed(fields: Sequence[str]) -> str:
    """
    Write the fields of an item as a JSON array; an encoder of whole values would be made anew for each.
    """
    text = '","'.join(fields)
    # Nearly always there is nothing to escape: no control character, and no quote but our own.
    if text.isprintable() and "\\" not in text and text.count('"') == 2 * (len(fields) - 1):
        return f'["{text}"]'
    return f"[{','.join([_quoted(field) for field in fields])}]"


def claim_fields(request: ClaimRequest) -> list[str]:
    """
    Lay a claim out for the lease strategy.
    """
    return [
        str(request.slot),
        str(request.attempt),
        request.token,
        request.instance_id,
        str(request.lease_ms),
        _number(request.not_after_ms),
        request.overlap,
        _number(request.max_lateness_ms),
        str(request.max_crashes),
        "1" if request.takeover else "",
        _text(request.fingerprint),
        _text(request.zone_digests),
    ]


def only_claim_fields(request: ClaimRequest) -> list[str]:
    """
    Lay a claim out for a strategy without leases.
    """
    return [
        str(request.slot),
        str(request.attempt),
        request.token,
        request.instance_id,
        _number(request.not_after_ms),
    ]


def register_fields(request: RegisterRequest) -> list[str]:
    """
    Lay a registration out.
    """
    return [_number(request.slot), _text(request.fingerprint), _text(request.zone_digests)]


def renew_fields(request: RenewRequest) -> list[str]:
    """
    Lay a renewal out.
    """
    return [*_attempt(request), str(request.lease_ms), _number(request.started_ago_ms)]


def finish_fields(request: FinishRequest) -> list[str]:
    """
    Lay a finish out.
    """
    problem = None if request.error is None else storable_error(request.error)
    reason = "" if request.reason is None else request.reason.value
    return [
        *_attempt(request),
        request.status.value,
        reason,
        _text(problem),
        _number(request.started_ago_ms),
    ]


def release_fields(request: ReleaseRequest) -> list[str]:
    """
    Lay a release out.
    """
    return [
        *_attempt(request),
        "1" if request.takeover else "",
        _number(request.started_ago_ms),
    ]


def claim_answer(_request: ClaimRequest, told: Told, now_ms: int) -> ClaimAnswer:
    """
    Read the answer to a claim of the lease strategy.
    """
    verdict, reason, high, previous, since, recorded, wait, *run = told
    return ClaimAnswer(
        verdict=_VERDICTS[verdict],
        reason=AnswerReason(reason) if reason else None,
        store_now_ms=now_ms,
        high=int(high) if high else None,
        previous_high=int(previous) if previous else None,
        since_ms=int(since) if since else None,
        recorded=bool(recorded),
        wait_ms=int(wait) if wait else 0,
        run=_run(run) if run else None,
    )


def only_claim_answer(_request: ClaimRequest, told: Told, now_ms: int) -> ClaimAnswer:
    """
    Read the answer to a claim where there are no leases.
    """
    return ClaimAnswer(
        verdict=_VERDICTS[told[0]],
        reason=AnswerReason(told[1]) if told[1] else None,
        store_now_ms=now_ms,
        wait_ms=_int(told[2]) or 0,
    )


def register_answer(
    request: RegisterRequest, told: Told, now_ms: int
) -> RegisterAnswer | RequestError:
    """
    Read the answer to a registration.
    """
    if told[0] == "ahead":
        return RequestError(
            f"job {request.job!r}: slot {request.slot} is {told[1]} ms ahead of the store's clock; a"
            " registration takes the last slot at the store's own time"
        )
    return RegisterAnswer(
        new=told[0] == "new",
        store_now_ms=now_ms,
        high=_int(told[1]),
        since_ms=_int(told[2]),
        fingerprint=_read_text(told[3]),
        zone_digests=_read_text(told[4]),
        run=_run(told[5:]),
    )


def renew_answer(_request: RenewRequest, told: Told, now_ms: int) -> RenewAnswer:
    """
    Read the answer to a renewal.
    """
    return RenewAnswer(held=told[0] == "held", store_now_ms=now_ms, high=_int(told[1]))


def close_answer(
    _request: FinishRequest | ReleaseRequest,
    told: Told,
    now_ms: int,
) -> CloseAnswer:
    """
    Read the answer to a finish or a release.
    """
    return CloseAnswer(accepted=told[0] == "accepted", store_now_ms=now_ms, high=_int(told[1]))


def record_of(job: str, member: str, record: str) -> RunRecord:
    """
    Read a record of the history.
    """
    slot, _, attempt = member.rpartition(":")
    _token, status, reason, instance_id, claimed, started, finished, problem = json.loads(record)
    return RunRecord(
        job=job,
        slot=int(slot),
        attempt=int(attempt),
        instance_id=instance_id,
        status=Status(status),
        reason=Reason(reason) if reason else None,
        claimed_at=datetime_of(int(claimed)),
        started_at=datetime_of(int(started)) if started else None,
        finished_at=datetime_of(int(finished)) if finished else None,
        error=_read_text(problem),
    )


def _attempt(request: RenewRequest | FinishRequest | ReleaseRequest) -> tuple[str, str, str]:
    return str(request.slot), str(request.attempt), request.token


def _run(told: Any) -> RunView | None:
    if not told:
        return None
    slot, attempt, remaining_ms, instance_id = told
    return RunView(
        slot=int(slot),
        attempt=int(attempt),
        remaining_ms=int(remaining_ms),
        instance_id=instance_id,
    )


def _number(value: int | None) -> str:
    return "" if value is None else str(value)


def _int(text: str) -> int | None:
    return int(text) if text else None


def _text(value: str | None) -> str:
    # An empty text is not the same as none.
    return "" if value is None else f"={value}"


def _read_text(text: str) -> str | None:
    return text[1:] if text else None
