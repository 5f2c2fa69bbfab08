"""
A lease as its runner sees it: an instant on a clock that counts suspended time.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from anarchon.clock import Clock

__all__ = ["HeldLease", "LeaseStanding", "fence_margin_ms"]

_MARGIN_SHARE = 10
_MARGIN_MS_MIN = 100


class LeaseStanding(Enum):
    """
    What a runner may believe about its lease right now.
    """

    HELD = "held"
    OVER = "over"
    OVERSLEPT = "overslept"
    LOST = "lost"


def fence_margin_ms(lease_ms: int) -> int:
    """
    Say how long before the end of a lease its runner stops the handler.
    """
    return max(lease_ms // _MARGIN_SHARE, _MARGIN_MS_MIN)


class HeldLease:
    """
    One attempt's lease, shared by the handlers' loop and the renewals' loop.

    Plain attributes, each written by one side and read by the other: a reader
    sees the old value or the new one, and both are true statements. ``sent_ms`` is
    when the last successful renewal was *sent*, by the suspend-counting clock; the
    store cannot have counted the lease from earlier than that.

    Attributes:
        lost: The store has refused a renewal: somebody else has the run.

        awaited: Somebody waits for the next renewal.

        closing: The handler has ended; a refused renewal means nothing any more.

        started_ms: When the handler began, by the suspend-counting clock.

        renew_until_ms: When renewals end although the handler has not.

        changed: Called on the renewals' loop when the lease is lost, and after
            each renewal that is awaited.
    """

    __slots__ = (
        "attempt",
        "awaited",
        "changed",
        "closing",
        "job",
        "lease_ms",
        "lost",
        "margin_ms",
        "renew_until_ms",
        "sent_ms",
        "slot",
        "started_ms",
        "token",
    )

    def __init__(
        self, *, job: str, slot: int, attempt: int, token: str, lease_ms: int, sent_ms: int
    ) -> None:
        self.job = job
        self.slot = slot
        self.attempt = attempt
        self.token = token
        self.lease_ms = lease_ms
        self.margin_ms = fence_margin_ms(lease_ms)
        self.sent_ms = sent_ms
        self.lost = False
        self.awaited = False
        self.closing = False
        self.started_ms: int | None = None
        self.renew_until_ms: int | None = None
        self.changed: Callable[[], None] | None = None

    @property
    def fence_ms(self) -> int:
        """
        When the handler must have been cancelled, unless a renewal comes through.
        """
        return self.sent_ms + self.lease_ms - self.margin_ms

    def standing(self, clock: Clock) -> LeaseStanding:
        """
        Judge the lease by the runner's own clock.

        OVER says that the fence falls now, on time: nothing could be renewed.
        OVERSLEPT says that it fell while nobody looked, so that the process was
        frozen: then only the store can say whose the run is.
        """
        if self.lost:
            return LeaseStanding.LOST
        late_ms = clock.suspend_ms() - self.fence_ms
        if late_ms < 0:
            return LeaseStanding.HELD
        return LeaseStanding.OVER if late_ms <= self.margin_ms // 2 else LeaseStanding.OVERSLEPT
