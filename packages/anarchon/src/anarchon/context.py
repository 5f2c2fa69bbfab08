"""
What a handler is given: which run this is, and how it stands.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from anarchon.errors import LeaseLostError
from anarchon.flag import Flag
from anarchon.records import datetime_of

__all__ = ["RunContext"]


class RunContext:
    """
    One attempt of one run, as its handler sees it.

    Attributes:
        job: The job's name.

        slot: The scheduled time, in milliseconds since 1970.

        attempt: 1 for the first try, 2 or more after a takeover.

        token: The random value that fences this attempt.

        instance_id: The instance that executes it: a label, shown to people.

        stopping: Raised when the scheduler is being stopped.

        lost: Raised when the run is no longer this instance's.

        deadline: When the timeout cancels the handler, as an aware datetime; None
            without a timeout.

        state: What was given to the scheduler as ``state=``.
    """

    __slots__ = (
        "attempt",
        "deadline",
        "instance_id",
        "job",
        "lost",
        "slot",
        "state",
        "stopping",
        "token",
    )

    def __init__(
        self,
        *,
        job: str,
        slot: int,
        attempt: int,
        token: str,
        instance_id: str,
        stopping: Flag,
        lost: Flag,
        deadline: datetime | None,
        state: Any,
    ) -> None:
        self.job = job
        self.slot = slot
        self.attempt = attempt
        self.token = token
        self.instance_id = instance_id
        self.stopping = stopping
        self.lost = lost
        self.deadline = deadline
        self.state = state

    @property
    def slot_time(self) -> datetime:
        """
        The slot as an aware datetime in UTC.
        """
        return datetime_of(self.slot)

    @property
    def fence(self) -> tuple[int, int]:
        """
        ``(slot, attempt)``: it only ever grows for a job.

        Hand it to a resource of your own as a fencing token: the resource
        refuses whatever carries a smaller one than it has seen.
        """
        return (self.slot, self.attempt)

    def check(self) -> None:
        """
        Raise if the run is lost. Safe from any thread.

        Raises:
            LeaseLostError: Another instance may be executing the run.
        """
        if self.lost.is_set():
            msg = f"job {self.job!r}: the run of slot {self.slot}, attempt {self.attempt}, is no longer this instance's"
            raise LeaseLostError(msg)

    def __repr__(self) -> str:
        return f"<RunContext job={self.job!r} slot={self.slot} attempt={self.attempt}>"
