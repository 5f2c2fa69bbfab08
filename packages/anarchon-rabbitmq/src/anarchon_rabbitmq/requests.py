"""
Requests that fit into the log: one item that does not must not fail its neighbours.
"""

from __future__ import annotations

from anarchon.backend import ClaimRequest, FinishRequest
from anarchon.errors import RequestError
from anarchon.protocol import check_finish_status

__all__ = ["NAME_BYTES_MAX", "check_claim", "check_finish"]

NAME_BYTES_MAX = 255
"""
The longest job name, in bytes of UTF-8.
"""

_SLOT_MAX = 2**63 - 1
_LABEL_BYTES_MAX = 65_536


def check_claim(request: ClaimRequest, *, memory_ms: int) -> None:
    """
    Refuse a claim that cannot be kept, or for longer than claims are remembered.

    Raises:
        RequestError: It says what is wrong.
    """
    why = _unfit(request) or _unfit_label(request.instance_id)
    if why is None and (request.max_lateness_ms or 0) > memory_ms:
        why = (
            f"max_lateness is {request.max_lateness_ms} ms, and claims are remembered for {memory_ms} ms; give"
            " the backend a longer claim_memory_ms"
        )
    _raise(request.job, why)


def check_finish(request: FinishRequest) -> None:
    """
    Refuse the end of a run that cannot be kept.

    Raises:
        RequestError: It says what is wrong.
    """
    why = _unfit(request)
    if why is None and request.started_ago_ms is not None:
        # An instant that no datetime can hold would spoil every later reading of the history.
        why = _unfit_integer("started_ago_ms", request.started_ago_ms, 0, 10**12)
    _raise(request.job, why)
    check_finish_status(request, leases=False)


def _raise(job: str, why: str | None) -> None:
    if why is not None:
        msg = f"job {job!r}: {why}"
        raise RequestError(msg)


def _unfit(request: ClaimRequest | FinishRequest) -> str | None:
    return (
        _unfit_text("job", request.job, NAME_BYTES_MAX)
        or _unfit_text("token", request.token, _LABEL_BYTES_MAX)
        or _unfit_integer("slot", request.slot, -_SLOT_MAX, _SLOT_MAX)
        or _unfit_integer("attempt", request.attempt, 1, 10**9)
    )


def _unfit_text(name: str, value: object, bytes_max: int) -> str | None:
    if not isinstance(value, str):
        return f"{name} must be a str, not {value!r}"
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        return f"{name} {value!r} is no text that UTF-8 can hold"
    if not 0 < size <= bytes_max:
        return f"{name} must be 1 to {bytes_max} bytes of UTF-8, not {size}"
    return None


def _unfit_label(value: object) -> str | None:
    if not isinstance(value, str) or len(value) > _LABEL_BYTES_MAX:
        return f"instance_id must be a str of at most {_LABEL_BYTES_MAX} characters"
    return None


def _unfit_integer(name: str, value: object, least: int, most: int) -> str | None:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        return f"{name} must be an integer from {least} to {most}, not {value!r}"
    return None
