"""
The two messages of a run: its claim, and how it ended.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from anarchon.backend import ClaimRequest, FinishRequest
from anarchon.errors import RequestError
from anarchon.records import Reason, RunRecord, Status, datetime_of, storable_error
from anarchon_nats.instants import instant_ms

__all__ = [
    "Claim",
    "claim_of",
    "claim_payload",
    "end_payload",
    "ended_record",
    "open_record",
    "token_of",
]

_CHARACTER_BYTES_MAX: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """
    A claim as the stream keeps it; the server has dated it.
    """

    token: str
    instance_id: str
    claimed_ms: int


def claim_payload(request: ClaimRequest, *, bytes_max: int) -> bytes:
    """
    Write a claim. What is not ASCII is escaped, so that any text passes.

    Raises:
        RequestError: The server takes no message of that length.
    """
    payload = json.dumps({"token": request.token, "instance": request.instance_id}).encode()
    if len(payload) > bytes_max:
        msg = f"job {request.job!r}: its claim has {len(payload)} bytes, and the server takes {bytes_max} (max_payload)"
        raise RequestError(msg)
    return payload


def claim_of(message: Mapping[str, Any]) -> Claim:
    """
    Read a claim.

    Raises:
        RequestError: Somebody else's message is in its place.
    """
    with _reading(message) as told:
        return Claim(
            token=told["token"],
            instance_id=told["instance"],
            claimed_ms=instant_ms(message["time"]),
        )


def end_payload(request: FinishRequest, claim: Claim, *, bytes_max: int) -> bytes:
    """
    Write how a run ended, with all that its record needs: the claim may be gone before it.

    A text that the server would not take is cut visibly; a finish never fails for it.

    Raises:
        RequestError: The server takes not even the rest.
    """
    error = None if request.error is None else storable_error(request.error)
    payload = _end_payload(request, claim, error)
    if len(payload) > bytes_max and error:
        note = f"… [cut: {len(error)} characters in all]"
        # A character is twelve bytes at the most, as JSON escapes it.
        room = max(0, bytes_max - len(_end_payload(request, claim, note))) // _CHARACTER_BYTES_MAX
        payload = _end_payload(request, claim, error[:room] + note)
    if len(payload) > bytes_max:
        msg = (
            f"job {request.job!r}: its record has {len(payload)} bytes, and the server takes {bytes_max}"
            " (max_payload)"
        )
        raise RequestError(msg)
    return payload


def _end_payload(request: FinishRequest, claim: Claim, error: str | None) -> bytes:
    reason = Reason.STOPPED if request.status is Status.INTERRUPTED else request.reason
    told = {
        "token": claim.token,
        "instance": claim.instance_id,
        "claimed_ms": claim.claimed_ms,
        "started_ago_ms": request.started_ago_ms,
        "status": request.status.value,
        "reason": None if reason is None else reason.value,
        "error": error,
    }
    return json.dumps(told).encode()


def open_record(job: str, slot: int, claim: Claim) -> RunRecord:
    """
    Tell of a run that nobody has ended.
    """
    return RunRecord(
        job=job,
        slot=slot,
        attempt=1,
        instance_id=claim.instance_id,
        status=Status.RUNNING,
        claimed_at=datetime_of(claim.claimed_ms),
    )


def ended_record(job: str, slot: int, message: Mapping[str, Any]) -> RunRecord:
    """
    Tell of a run that has ended. It has not ended before its claim, also where the server's clock was set back.

    Raises:
        RequestError: Somebody else's message is in its place.
    """
    with _reading(message) as told:
        return _record(job, slot, told, instant_ms(message["time"]))


def _record(job: str, slot: int, told: Any, ended_ms: int) -> RunRecord:
    claimed_ms = told["claimed_ms"]
    finished_ms = max(claimed_ms, ended_ms)
    ago_ms = told["started_ago_ms"]
    started_ms = None if ago_ms is None else finished_ms - ago_ms
    return RunRecord(
        job=job,
        slot=slot,
        attempt=1,
        instance_id=told["instance"],
        status=Status(told["status"]),
        reason=None if told["reason"] is None else Reason(told["reason"]),
        claimed_at=datetime_of(claimed_ms),
        started_at=None if started_ms is None else datetime_of(started_ms),
        finished_at=datetime_of(finished_ms),
        error=told["error"],
    )


def token_of(message: Mapping[str, Any]) -> str:
    """
    Read whose a message is.

    Raises:
        RequestError: It is not one of ours.
    """
    with _reading(message) as told:
        token: str = told["token"]
        return token


@contextmanager
def _reading(message: Mapping[str, Any]) -> Iterator[Any]:
    try:
        yield json.loads(b64decode(message.get("data", "")))
    except (KeyError, TypeError, ValueError) as error:
        msg = f"the message on {message.get('subject')} is not anarchon's: {type(error).__name__}: {error}"
        raise RequestError(msg) from error
