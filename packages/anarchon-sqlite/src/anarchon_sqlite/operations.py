"""
The kinds of request, each with the core's decision that answers it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from anarchon.backend import (
    ClaimAnswer,
    ClaimRequest,
    CloseAnswer,
    FinishRequest,
    RegisterAnswer,
    RegisterRequest,
    ReleaseRequest,
    RenewAnswer,
    RenewRequest,
)
from anarchon.protocol import (
    Change,
    JobState,
    Now,
    RecordView,
    decide_claim,
    decide_finish,
    decide_register,
    decide_release,
    decide_renewal,
)
from anarchon.protocol.closing import started_ms_of
from anarchon_sqlite.rows import AnyRequest

__all__ = ["CLAIM", "FINISH", "REGISTER", "RELEASE", "RENEW", "Operation"]

Request = TypeVar("Request", bound=AnyRequest)
Answer = TypeVar("Answer")
_View = Callable[[str, int, int], RecordView | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation(Generic[Request, Answer]):
    """
    One kind of request, and how it is decided.

    Args:
        decide: The core's decision. A View finds the record of an attempt.

        writes: Whether the request will certainly change something, so that it need
            not be decided before the lock is there. A guess: False is never wrong.

        started_ms: What the request says of the handler's start, if it is to be
            written down without closing the record.
    """

    decide: Callable[[_View, JobState | None, Request, Now], Change[Answer]]
    writes: Callable[[JobState | None, Request, Now], bool]
    started_ms: Callable[[Request, Answer, Now], int | None] | None = None


def _finish(
    view: _View, state: JobState | None, request: FinishRequest, now: Now
) -> Change[CloseAnswer]:
    change = decide_finish(state, None, request, now)
    if change.answer.accepted:
        return change
    # Only a repeated finish needs the record.
    return decide_finish(state, view(request.job, request.slot, request.attempt), request, now)


def _release(
    view: _View, state: JobState | None, request: ReleaseRequest, now: Now
) -> Change[CloseAnswer]:
    change = decide_release(state, None, request, now)
    if change.answer.accepted:
        return change
    return decide_release(state, view(request.job, request.slot, request.attempt), request, now)


def _started_ms(request: RenewRequest, answer: RenewAnswer, now: Now) -> int | None:
    return started_ms_of(request.started_ago_ms, now) if answer.held else None


def _new_claim(state: JobState | None, request: ClaimRequest, now: Now) -> bool:
    """
    See the common case: the first claim of a slot that is due, and nothing in its way.
    """
    if state is not None and (
        state.live is not None or (state.high is not None and request.slot <= state.high)
    ):
        return False
    return (
        request.attempt == 1
        and request.slot <= now.wall_ms
        and request.max_lateness_ms is None
        and (request.not_after_ms is None or now.wall_ms <= request.not_after_ms)
    )


def _own(
    state: JobState | None, request: RenewRequest | FinishRequest | ReleaseRequest, _now: Now
) -> bool:
    """
    See the common case: the run is the caller's.
    """
    live = None if state is None else state.live
    return live is not None and live.token == request.token


CLAIM: Operation[ClaimRequest, ClaimAnswer] = Operation(
    decide=lambda _view, state, request, now: decide_claim(state, request, now), writes=_new_claim
)
REGISTER: Operation[RegisterRequest, RegisterAnswer] = Operation(
    decide=lambda _view, state, request, now: decide_register(state, request, now),
    writes=lambda state, _request, _now: state is None,
)
RENEW: Operation[RenewRequest, RenewAnswer] = Operation(
    decide=lambda _view, state, request, now: decide_renewal(state, request, now),
    writes=_own,
    started_ms=_started_ms,
)
FINISH: Operation[FinishRequest, CloseAnswer] = Operation(decide=_finish, writes=_own)
RELEASE: Operation[ReleaseRequest, CloseAnswer] = Operation(decide=_release, writes=_own)
