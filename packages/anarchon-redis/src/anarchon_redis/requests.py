"""
Requests that fit into the store: one item that does not must not fail its neighbours.
"""

from __future__ import annotations

from anarchon.backend import (
    ClaimRequest,
    FinishRequest,
    RegisterRequest,
    ReleaseRequest,
    RenewRequest,
)
from anarchon.errors import RequestError
from anarchon_redis.keys import NAME_BYTES_MAX

__all__ = ["AnyRequest", "check_request", "unfit_job"]

AnyRequest = ClaimRequest | RegisterRequest | RenewRequest | FinishRequest | ReleaseRequest

# The server's scripts count in doubles, which are exact up to here; a sum of a slot and a
# duration of ours still is.
_SLOT_MAX = 2**53 - 10**14
_DURATION_MS_MAX = 10**13
_ATTEMPT_MAX = 10**9

_TEXT = {str}
_INTEGER = {int}


def check_request(request: AnyRequest, *, least_slot: int = -_SLOT_MAX) -> RequestError | None:
    """
    Say why a request cannot be kept; None if it can.

    Args:
        request: The request.

        least_slot: The oldest slot that the strategy can hold.
    """
    if type(request) is ClaimRequest and _is_plain(request, least_slot):
        return None
    why = (
        unfit_job(request.job)
        or _unfit_slot(request, least_slot)
        or (None if isinstance(request, RegisterRequest) else _unfit_attempt(request))
    )
    if why is None and isinstance(request, ClaimRequest):
        why = _unfit_claim(request)
    if why is None and isinstance(request, ClaimRequest | RegisterRequest):
        why = _unfit_schedule(request)
    return None if why is None else RequestError(f"job {request.job!r}: {why}")


def unfit_job(job: str) -> str | None:
    """
    Say why a job's name cannot be kept; None if it can.
    """
    return _unfit_text("job", job, bytes_max=NAME_BYTES_MAX)


def _is_plain(request: ClaimRequest, least_slot: int) -> bool:
    """
    Tell at a glance that a claim can be kept, as nearly all can.

    It takes less than the rules below: what is none of those gets its reason there.
    """
    texts = (
        request.job,
        request.token,
        request.instance_id,
        request.fingerprint or "",
        request.zone_digests or "",
    )
    numbers = (request.slot, request.attempt, request.lease_ms, request.max_crashes)
    return (
        {*map(type, texts)} == _TEXT
        and {*map(type, numbers)} == _INTEGER
        and "".join(texts).isascii()
        and 0 < len(request.job) <= NAME_BYTES_MAX
        and request.token != ""
        and least_slot <= request.slot <= _SLOT_MAX
        and 0 < request.attempt <= _ATTEMPT_MAX
        and 0 <= request.lease_ms <= _DURATION_MS_MAX
        and 0 <= request.max_crashes <= _SLOT_MAX
        and request.max_lateness_ms is None
        and (
            request.not_after_ms is None
            or (type(request.not_after_ms) is int and 0 <= request.not_after_ms <= _SLOT_MAX)
        )
    )


def _unfit_slot(request: AnyRequest, least_slot: int) -> str | None:
    if isinstance(request, RegisterRequest) and request.slot is None:
        return None
    return _unfit_integer("slot", request.slot, least_slot, _SLOT_MAX)


def _unfit_attempt(
    request: ClaimRequest | RenewRequest | FinishRequest | ReleaseRequest,
) -> str | None:
    why = _unfit_integer("attempt", request.attempt, 1, _ATTEMPT_MAX) or _unfit_text(
        "token", request.token, bytes_min=1
    )
    if why is None and isinstance(request, ClaimRequest | RenewRequest):
        why = _unfit_integer("lease_ms", request.lease_ms, 0, _DURATION_MS_MAX)
    if why is not None or isinstance(request, ClaimRequest) or request.started_ago_ms is None:
        return why
    # An instant that no datetime can hold would spoil every later reading of the history.
    return _unfit_integer("started_ago_ms", request.started_ago_ms, 0, 10**12)


def _unfit_claim(request: ClaimRequest) -> str | None:
    why = _unfit_text("instance_id", request.instance_id) or _unfit_integer(
        "max_crashes", request.max_crashes, -_SLOT_MAX, _SLOT_MAX
    )
    for name in ("not_after_ms", "max_lateness_ms"):
        value = getattr(request, name)
        if why is None and value is not None:
            why = _unfit_integer(name, value, -_SLOT_MAX, _SLOT_MAX)
    return why


def _unfit_schedule(request: ClaimRequest | RegisterRequest) -> str | None:
    for name in ("fingerprint", "zone_digests"):
        value = getattr(request, name)
        if value is not None and (why := _unfit_text(name, value)) is not None:
            return why
    return None


def _unfit_text(
    name: str, value: object, *, bytes_min: int = 0, bytes_max: int | None = None
) -> str | None:
    if not isinstance(value, str):
        return f"{name} must be a str, not {value!r}"
    try:
        size = len(value) if value.isascii() else len(value.encode())
    except UnicodeEncodeError:
        return f"{name} {value!r} is no text that UTF-8 can hold"
    if bytes_max is not None and not 0 < size <= bytes_max:
        return f"{name} must be 1 to {bytes_max} bytes of UTF-8, not {size}"
    return None if size >= bytes_min else f"{name} must not be empty"


def _unfit_integer(name: str, value: object, least: int, most: int) -> str | None:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        return f"{name} must be an integer from {least} to {most}, not {value!r}"
    return None
