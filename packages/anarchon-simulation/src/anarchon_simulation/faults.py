"""
What can go wrong, as data: a failing run prints its faults, and they run again as they stand.

Every instant is in milliseconds of true time since the world began, every duration in
milliseconds too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

__all__ = [
    "Crash",
    "Cut",
    "Fault",
    "Freeze",
    "Hints",
    "Look",
    "Lossy",
    "Outage",
    "Slow",
    "Stall",
    "StepClock",
    "StepStore",
    "Stop",
    "Stray",
    "Suspend",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Crash:
    """
    Cut an instance's power; start it again after a while, or never (None).
    """

    at_ms: int
    instance: str
    restart_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """
    Stop an instance in good order, as a deploy does; start it again after a while, or never.

    Args:
        version: Which version of the jobs the new process runs.
    """

    at_ms: int
    instance: str
    restart_ms: int | None = None
    version: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Freeze:
    """
    Stop every thread of an instance and let it go on: SIGSTOP and SIGCONT. Its clocks go on.
    """

    at_ms: int
    instance: str
    duration_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspend:
    """
    Suspend an instance's machine: its monotonic clock stands, only the suspend-counting one goes on.
    """

    at_ms: int
    instance: str
    duration_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stall:
    """
    Let one loop of an instance stand while its others go on: code that blocks it.
    """

    at_ms: int
    instance: str
    duration_ms: int
    loop: Literal["handlers", "renewals"] = "handlers"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepClock:
    """
    Step an instance's wall clock.
    """

    at_ms: int
    instance: str
    by_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StepStore:
    """
    Step the store's wall clock; the clock that judges its leases stays.
    """

    at_ms: int
    by_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """
    Let the store serve nobody: it refuses connections, or swallows requests in silence.
    """

    at_ms: int
    duration_ms: int
    refuses: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """
    Cut one instance off from the store.

    Args:
        lost: Requests never arrive; or they take effect, and only the replies are lost.

        connection: Which of the two connections; the first is the handlers'.
    """

    at_ms: int
    instance: str
    duration_ms: int
    lost: Literal["requests", "replies"] = "requests"
    connection: Literal["all", "first", "second"] = "all"


@dataclass(frozen=True, slots=True, kw_only=True)
class Slow:
    """
    Delay every message by up to so much; of one instance, or of all (None).
    """

    at_ms: int
    duration_ms: int
    delay_ms: int
    instance: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lossy:
    """
    Lose and double messages at random, by percent.
    """

    at_ms: int
    duration_ms: int
    requests_lost: int = 0
    replies_lost: int = 0
    doubled: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Stray:
    """
    Let requests arrive that nobody could have sent: a run that is not there, a token that never was.
    """

    at_ms: int
    job: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Hints:
    """
    Let hints go wrong while all else goes well.

    Args:
        lost: How many of them never arrive, by percent.

        delay_ms: By how much the others come late, at the most.

        false: Everybody who listens is told at once that something has changed, though nothing has.
    """

    at_ms: int
    duration_ms: int
    lost: int = 0
    delay_ms: int = 0
    false: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """
    Let an instance ask for the history, as an operator's page does.

    Args:
        job: Of one job, or of all (None).

        cancelled_ms: The task that asks is cancelled after so long; None: never.
    """

    at_ms: int
    instance: str
    job: str | None = None
    cancelled_ms: int | None = None


Fault: TypeAlias = (
    Crash
    | Stop
    | Freeze
    | Suspend
    | Stall
    | StepClock
    | StepStore
    | Outage
    | Cut
    | Slow
    | Lossy
    | Hints
    | Look
    | Stray
)
