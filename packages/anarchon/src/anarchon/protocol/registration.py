"""
The answer to a registration; pure.
"""

from __future__ import annotations

from dataclasses import replace

from anarchon.backend import RegisterAnswer, RegisterRequest
from anarchon.errors import RequestError
from anarchon.protocol.state import Change, JobState, Now, rebase, view

__all__ = ["decide_register"]


def decide_register(
    state: JobState | None, request: RegisterRequest, now: Now
) -> Change[RegisterAnswer]:
    """
    Make a job known, and say what the store knew of it.

    A job is new when the store has no row for it; an empty ``high`` is not new,
    but a one-off job that was registered before its time.

    Raises:
        RequestError: The slot is ahead of the store's clock. It was computed from
            the caller's own clock, and would shut the job until then.
    """
    if request.slot is not None and request.slot > now.wall_ms:
        msg = (
            f"job {request.job!r}: slot {request.slot} is {request.slot - now.wall_ms} ms ahead of the"
            " store's clock; a registration takes the last slot at the store's own time"
        )
        raise RequestError(msg)
    if state is None:
        fresh = JobState(
            high=request.slot, fingerprint=request.fingerprint, zone_digests=request.zone_digests
        )
        return Change(RegisterAnswer(new=True, store_now_ms=now.wall_ms, high=fresh.high), fresh)
    known = rebase(state, now)
    changed = (
        request.fingerprint is not None
        and state.fingerprint is not None
        and request.fingerprint != state.fingerprint
    )
    since_ms = now.wall_ms if changed else state.since_ms
    after = known
    if request.fingerprint is not None:
        after = replace(
            known,
            fingerprint=request.fingerprint,
            zone_digests=request.zone_digests,
            since_ms=since_ms,
        )
    answer = RegisterAnswer(
        new=False,
        store_now_ms=now.wall_ms,
        high=state.high,
        since_ms=since_ms,
        fingerprint=state.fingerprint,
        zone_digests=state.zone_digests,
        run=None if known.live is None else view(known.live, now),
    )
    return Change(answer, None if after == state else after)
