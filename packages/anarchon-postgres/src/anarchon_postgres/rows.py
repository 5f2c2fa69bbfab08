"""
Requests that PostgreSQL can hold, and what the rows of the history mean.
"""

from __future__ import annotations

from anarchon.backend import (
    ClaimRequest,
    FinishRequest,
    RegisterRequest,
    ReleaseRequest,
    RenewRequest,
    RunView,
)
from anarchon.errors import RequestError
from anarchon.protocol import check_finish_status
from anarchon.records import Reason, RunRecord, Status, datetime_of
from anarchon_postgres.driver import Row

__all__ = [
    "DURATION_MS_MAX",
    "NAME_BYTES_MAX",
    "AnyRequest",
    "check_request",
    "record_of",
    "unfit_text",
    "view_of",
]

NAME_BYTES_MAX = 255
"""
The longest name of a job, in bytes of UTF-8.
"""

DURATION_MS_MAX = 10**14
"""
The longest duration that is handed to the server: a sum with an instant still is a bigint.
"""

AnyRequest = ClaimRequest | RegisterRequest | RenewRequest | FinishRequest | ReleaseRequest

_BIGINT_MAX = 2**63 - 1


def view_of(row: Row) -> RunView | None:
    """
    Read the unfinished run that an answer shows, if it shows one.
    """
    if row["run_slot"] is None:
        return None
    return RunView(
        slot=row["run_slot"],
        attempt=row["run_attempt"],
        remaining_ms=row["run_remaining_ms"],
        instance_id=row["run_instance_id"],
    )


def record_of(row: Row) -> RunRecord:
    """
    Read a record of the history.
    """
    started_ms, finished_ms, reason = row["started_ms"], row["finished_ms"], row["reason"]
    return RunRecord(
        job=row["job"],
        slot=row["slot"],
        attempt=row["attempt"],
        instance_id=row["instance_id"],
        status=Status(row["status"]),
        reason=None if reason is None else Reason(reason),
        claimed_at=datetime_of(row["claimed_ms"]),
        started_at=None if started_ms is None else datetime_of(started_ms),
        finished_at=None if finished_ms is None else datetime_of(finished_ms),
        error=row["error"],
    )


def check_request(request: AnyRequest) -> RequestError | None:
    """
    Say why a request cannot be kept; None if it can.

    One item that the server could not hold must not fail its neighbours.
    """
    why = (
        unfit_text("job", request.job, NAME_BYTES_MAX)
        or _unfit_slot(request)
        or (None if isinstance(request, RegisterRequest) else _unfit_attempt(request))
    )
    if why is None and isinstance(request, ClaimRequest | RegisterRequest):
        why = (
            None if request.fingerprint is None else unfit_text("fingerprint", request.fingerprint)
        ) or (
            None
            if request.zone_digests is None
            else unfit_text("zone_digests", request.zone_digests)
        )
    if why is not None:
        return RequestError(f"job {request.job!r}: {why}")
    if isinstance(request, FinishRequest):
        try:
            check_finish_status(request, leases=True)
        except RequestError as error:
            return error
    return None


def _unfit_slot(request: AnyRequest) -> str | None:
    if isinstance(request, RegisterRequest) and request.slot is None:
        return None
    return _unfit_integer("slot", request.slot, -_BIGINT_MAX, _BIGINT_MAX)


def _unfit_attempt(
    request: ClaimRequest | RenewRequest | FinishRequest | ReleaseRequest,
) -> str | None:
    why = _unfit_integer("attempt", request.attempt, 1, DURATION_MS_MAX) or unfit_text(
        "token", request.token
    )
    if why is None and isinstance(request, ClaimRequest | RenewRequest):
        why = _unfit_integer("lease_ms", request.lease_ms, 0, DURATION_MS_MAX)
    if why is not None:
        return why
    if isinstance(request, ClaimRequest):
        return unfit_text("instance_id", request.instance_id) or _unfit_limits(request)
    if request.started_ago_ms is None:
        return None
    # An instant that no datetime can hold would spoil every later reading of the history.
    return _unfit_integer("started_ago_ms", request.started_ago_ms, 0, 10**12)


def _unfit_limits(request: ClaimRequest) -> str | None:
    not_after_ms, lateness_ms = request.not_after_ms, request.max_lateness_ms
    return (
        (
            None
            if not_after_ms is None
            else _unfit_integer("not_after_ms", not_after_ms, -_BIGINT_MAX, _BIGINT_MAX)
        )
        or (
            None
            if lateness_ms is None
            else _unfit_integer("max_lateness_ms", lateness_ms, 0, _BIGINT_MAX)
        )
        or _unfit_integer("max_crashes", request.max_crashes, 0, _BIGINT_MAX)
    )


def unfit_text(name: str, value: object, bytes_max: int | None = None) -> str | None:
    """
    Say why a text cannot be kept; None if it can.
    """
    if not isinstance(value, str):
        return f"{name} must be a str, not {value!r}"
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        return f"{name} {value!r} is no text that UTF-8 can hold"
    if "\x00" in value:
        return f"{name} {value!r} contains NUL, which PostgreSQL cannot hold"
    if bytes_max is not None and not 0 < size <= bytes_max:
        return f"{name} must be 1 to {bytes_max} bytes of UTF-8, not {size}"
    return None


def _unfit_integer(name: str, value: object, least: int, most: int) -> str | None:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        return f"{name} must be an integer from {least} to {most}, not {value!r}"
    return None
