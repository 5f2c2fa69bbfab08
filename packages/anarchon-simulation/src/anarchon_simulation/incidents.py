"""
What a user lets go wrong: when, as a date or as a while after the start, and what.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TypeAlias

from anarchon.durations import Duration, duration_ms
from anarchon.errors import InvalidOptionError
from anarchon_simulation.faults import (
    Crash,
    Cut,
    Fault,
    Freeze,
    Outage,
    StepClock,
    Stop,
    Suspend,
)

__all__ = [
    "Incident",
    "When",
    "crash",
    "cut",
    "freeze",
    "instant_ms",
    "outage",
    "step_clock",
    "stop",
    "suspend",
]

When: TypeAlias = datetime | Duration
"""
An aware datetime, or how long after the start.
"""


@dataclass(frozen=True, slots=True)
class Incident:
    """
    Something that goes wrong at a given time.
    """

    at: When
    what: Fault

    def fault(self, start_ms: int) -> Fault:
        """
        Return the fault of a world that began at *start_ms*.

        Raises:
            InvalidOptionError: It would be before the start.
        """
        if isinstance(self.at, datetime):
            at_ms = instant_ms(self.at, what="at") - start_ms
        else:
            at_ms = duration_ms(self.at, what="at", minimum_ms=0)
        if at_ms < 0:
            msg = (
                f"{type(self.what).__name__} at {self.at!r} lies before the start of the simulation"
            )
            raise InvalidOptionError(msg)
        return replace(self.what, at_ms=at_ms)


def instant_ms(instant: datetime, *, what: str) -> int:
    """
    Turn an aware datetime into milliseconds since 1970.

    Raises:
        InvalidOptionError: It is naive.
    """
    if instant.utcoffset() is None:
        msg = f"{what} needs a datetime with a time zone; got {instant!r}"
        raise InvalidOptionError(msg)
    passed = instant.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    return (passed.days * 86_400 + passed.seconds) * 1_000 + passed.microseconds // 1_000


def crash(instance: str, *, at: When, restart: Duration | None = None) -> Incident:
    """
    Cut an instance's power: not even a ``finally`` runs. *restart* later a new process begins.
    """
    return Incident(at, Crash(at_ms=0, instance=instance, restart_ms=_optional(restart)))


def stop(instance: str, *, at: When, restart: Duration | None = None) -> Incident:
    """
    Stop an instance in good order, as a deploy does. *restart* later a new process begins.
    """
    return Incident(at, Stop(at_ms=0, instance=instance, restart_ms=_optional(restart)))


def freeze(instance: str, *, at: When, duration: Duration) -> Incident:
    """
    Stop every thread of an instance for a while: SIGSTOP and SIGCONT.
    """
    return Incident(at, Freeze(at_ms=0, instance=instance, duration_ms=_needed(duration)))


def suspend(instance: str, *, at: When, duration: Duration) -> Incident:
    """
    Suspend an instance's machine for a while: a laptop's lid, a paused virtual machine.
    """
    return Incident(at, Suspend(at_ms=0, instance=instance, duration_ms=_needed(duration)))


def step_clock(instance: str, *, at: When, by: Duration, back: bool = False) -> Incident:
    """
    Step an instance's wall clock forward, or back.
    """
    by_ms = _needed(by)
    return Incident(at, StepClock(at_ms=0, instance=instance, by_ms=-by_ms if back else by_ms))


def outage(*, at: When, duration: Duration) -> Incident:
    """
    Let the store refuse every connection for a while.
    """
    return Incident(at, Outage(at_ms=0, duration_ms=_needed(duration), refuses=True))


def cut(instance: str, *, at: When, duration: Duration) -> Incident:
    """
    Cut an instance off from the store for a while; nothing tells it so.
    """
    return Incident(at, Cut(at_ms=0, instance=instance, duration_ms=_needed(duration)))


def _needed(duration: Duration) -> int:
    return duration_ms(duration, what="duration")


def _optional(duration: Duration | None) -> int | None:
    return None if duration is None else duration_ms(duration, what="restart", minimum_ms=0)
