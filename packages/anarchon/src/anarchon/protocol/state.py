"""
What a store keeps for a job, and what a decision changes in it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from anarchon.backend import RunView
from anarchon.records import Reason, Status

__all__ = [
    "Change",
    "JobState",
    "Live",
    "Now",
    "RecordClose",
    "RecordOpen",
    "RecordView",
    "Skip",
    "lease_end_ms",
    "rebase",
    "renewed",
    "view",
]


@dataclass(frozen=True, slots=True)
class Now:
    """
    The store's clocks at the moment of a decision, in milliseconds.

    ``wall_ms`` is compared with slots and dates the records. ``lease_ms`` judges
    leases; ``lease_clock`` names the clock that it comes from, so that an instant
    of another boot is never compared with it. Most stores have one clock for both.
    """

    wall_ms: int
    lease_ms: int
    lease_clock: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Live:
    """
    The one unfinished run of a job.

    A released run has no token, and its lease has ended. ``lease_until_ms`` is on
    the clock ``lease_clock``; ``elsewhere`` are the ends by other clocks, (clock,
    ms), each one whole lease after that clock was first asked.
    """

    slot: int
    attempt: int
    token: str | None
    instance_id: str
    lease_ms: int
    lease_until_ms: int
    lease_clock: str = ""
    elsewhere: tuple[tuple[str, int], ...] = ()
    crashes: int = 0
    previous_high: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Skip:
    """
    The newest slot that was recorded as skipped, for its asker's repeated request.
    """

    slot: int
    token: str
    previous_high: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobState:
    """
    All that decides about a job. A store without a row for it has None instead.
    """

    high: int | None = None
    live: Live | None = None
    skip: Skip | None = None
    fingerprint: str | None = None
    zone_digests: str | None = None
    since_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordOpen:
    """
    Add a record: a granted attempt, or a skipped slot.
    """

    slot: int
    attempt: int
    token: str
    instance_id: str
    status: Status
    reason: Reason | None
    claimed_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordClose:
    """
    End a running record; one that has ended already stays as it is.

    ``started_ms`` is None where nothing new is known of the handler's start.
    """

    slot: int
    attempt: int
    status: Status
    reason: Reason | None
    finished_ms: int
    started_ms: int | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordView:
    """
    What a repeated finish or release is compared with.
    """

    token: str
    status: Status
    reason: Reason | None


Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Change(Generic[Answer]):
    """
    A decision: the answer, the state to keep (None: as it was), the records to write.
    """

    answer: Answer
    state: JobState | None = None
    records: tuple[RecordOpen | RecordClose, ...] = ()


def view(live: Live, now: Now) -> RunView:
    """
    Show an unfinished run to somebody who asks for it.
    """
    remaining_ms = 0 if live.token is None else max(0, lease_end_ms(live, now) - now.lease_ms)
    return RunView(
        slot=live.slot,
        attempt=live.attempt,
        remaining_ms=remaining_ms,
        instance_id=live.instance_id,
    )


def lease_end_ms(live: Live, now: Now) -> int:
    """
    Tell when a lease ends, by the clock that judges now.
    """
    if live.lease_clock == now.lease_clock:
        return live.lease_until_ms
    return dict(live.elsewhere).get(now.lease_clock, now.lease_ms + live.lease_ms)


def renewed(live: Live, lease_ms: int, now: Now) -> Live:
    """
    Make a lease whole again, which voids what other clocks had counted.
    """
    return replace(
        live,
        lease_ms=lease_ms,
        lease_until_ms=now.lease_ms + lease_ms,
        lease_clock=now.lease_clock,
        elsewhere=(),
    )


def rebase(state: JobState, now: Now) -> JobState:
    """
    Give a lease that other clocks judged one whole lease from now, by this clock.

    To call it over instead would let two machines on one file take each other's
    runs without end; this way a reboot costs one lease. The ends by the other
    clocks stay beside it: one end for all would let two machines give a dead run's
    lease its whole length again by turns. Returns *state* itself when there is
    nothing to do.
    """
    live = state.live
    if live is None or live.token is None:
        return state
    if now.lease_clock in (live.lease_clock, *dict(live.elsewhere)):
        return state
    end = (now.lease_clock, now.lease_ms + live.lease_ms)
    return replace(state, live=replace(live, elsewhere=(*live.elsewhere, end)))
