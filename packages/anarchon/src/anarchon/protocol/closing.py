"""
The answers to a renewal, a finish and a release on a lease backend; pure.
"""

from __future__ import annotations

from dataclasses import replace

from anarchon.backend import CloseAnswer, FinishRequest, ReleaseRequest, RenewAnswer, RenewRequest
from anarchon.errors import RequestError
from anarchon.protocol.state import Change, JobState, Live, Now, RecordClose, RecordView, renewed
from anarchon.records import Reason, Status, storable_error

__all__ = [
    "check_finish_status",
    "decide_finish",
    "decide_release",
    "decide_renewal",
    "started_ms_of",
]


def decide_renewal(state: JobState | None, request: RenewRequest, now: Now) -> Change[RenewAnswer]:
    """
    Push a lease forward, while the token is the live one.

    That the lease has run out does not matter as long as nobody has taken over:
    the runner is alive, which is all that a lease is about.
    """
    live = _own(state, request)
    high = None if state is None else state.high
    if state is None or live is None:
        return Change(RenewAnswer(held=False, store_now_ms=now.wall_ms, high=high))
    return Change(
        RenewAnswer(held=True, store_now_ms=now.wall_ms, high=high),
        replace(state, live=renewed(live, request.lease_ms, now)),
    )


def decide_finish(
    state: JobState | None, record: RecordView | None, request: FinishRequest, now: Now
) -> Change[CloseAnswer]:
    """
    Close a run whose handler has ended.

    Args:
        state: What the store keeps for the job.

        record: The record of this attempt, if it is still kept.

        request: The finish.

        now: The store's clocks.

    Raises:
        RequestError: The status is neither success nor failed.
    """
    check_finish_status(request, leases=True)
    if state is None or _own(state, request) is None:
        repeated = (
            record is not None
            and record.token == request.token
            and record.status in (Status.SUCCESS, Status.FAILED)
        )
        return Change(_closed(state, now, accepted=repeated))
    error = None if request.error is None else storable_error(request.error)
    return Change(
        _closed(state, now, accepted=True),
        replace(state, live=None),
        (
            RecordClose(
                slot=request.slot,
                attempt=request.attempt,
                status=request.status,
                reason=request.reason,
                finished_ms=now.wall_ms,
                started_ms=started_ms_of(request.started_ago_ms, now),
                error=error,
            ),
        ),
    )


def decide_release(
    state: JobState | None, record: RecordView | None, request: ReleaseRequest, now: Now
) -> Change[CloseAnswer]:
    """
    Hand a run over: the token is taken away and the lease ends now.

    A token left in place would let a stale renewal bring the run back to a
    runner that has gone.
    """
    live = _own(state, request)
    if state is None or live is None:
        repeated = (
            record is not None
            and record.token == request.token
            and record.status is Status.INTERRUPTED
            and record.reason is Reason.HANDED_OVER
        )
        return Change(_closed(state, now, accepted=repeated))
    released = replace(
        live,
        token=None,
        lease_until_ms=now.lease_ms,
        lease_clock=now.lease_clock,
        elsewhere=(),
    )
    return Change(
        _closed(state, now, accepted=True),
        replace(state, live=released if request.takeover else None),
        (
            RecordClose(
                slot=request.slot,
                attempt=request.attempt,
                status=Status.INTERRUPTED,
                reason=Reason.HANDED_OVER,
                finished_ms=now.wall_ms,
                started_ms=started_ms_of(request.started_ago_ms, now),
            ),
        ),
    )


def check_finish_status(request: FinishRequest, *, leases: bool) -> None:
    """
    Refuse a status that nobody may finish with.

    A "finish as interrupted" that arrives after the network has healed would
    close a run that nobody completed; such a run is released.

    Raises:
        RequestError: The status is not allowed.
    """
    allowed = (
        (Status.SUCCESS, Status.FAILED)
        if leases
        else (Status.SUCCESS, Status.FAILED, Status.INTERRUPTED)
    )
    if request.status not in allowed:
        names = ", ".join(allowed)
        msg = f"job {request.job!r}: a finish takes one of {names}, not {request.status!s}"
        raise RequestError(msg)


def started_ms_of(started_ago_ms: int | None, now: Now) -> int | None:
    """
    Date a handler's start by the store's clock.
    """
    return None if started_ago_ms is None else now.wall_ms - started_ago_ms


def _own(
    state: JobState | None, request: RenewRequest | FinishRequest | ReleaseRequest
) -> Live | None:
    """
    Return the live run if the request's token is the one that the store remembers.
    """
    live = None if state is None else state.live
    if live is None or live.slot != request.slot or live.attempt != request.attempt:
        return None
    return live if live.token == request.token else None


def _closed(state: JobState | None, now: Now, *, accepted: bool) -> CloseAnswer:
    return CloseAnswer(
        accepted=accepted, store_now_ms=now.wall_ms, high=None if state is None else state.high
    )
