"""
What a scheduler tells: one frozen dataclass an event, each with a type's name.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

from anarchon.records import Reason, Status

__all__ = [
    "EVENT_TYPES",
    "BlockEvent",
    "ClaimEvent",
    "ClockEvent",
    "ErrorEvent",
    "Event",
    "FinishEvent",
    "HandoverEvent",
    "LostEvent",
    "MissEvent",
    "MissReason",
    "OutageEvent",
    "RecoveredEvent",
    "RunEvent",
    "ScheduleEvent",
    "SchedulerStartedEvent",
    "SchedulerStoppedEvent",
    "SkipEvent",
    "SkipReason",
    "StartEvent",
    "TakeoverEvent",
]


MissReason: TypeAlias = Literal["unclaimed", "past"]
SkipReason: TypeAlias = Literal["done", "overlap", "late", "early"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """
    What every event carries: the instance that tells it.
    """

    type: ClassVar[str]
    instance: str

    @property
    def instance_id(self) -> str:
        """
        The same label by the name that a record gives it.
        """
        return self.instance


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEvent(Event):
    """
    An event that concerns one attempt of one run. ``slot`` is milliseconds since 1970.
    """

    job: str
    slot: int
    attempt: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerStartedEvent(Event):
    """
    The store has answered; slots are claimed from now on.
    """

    type: ClassVar[str] = "scheduler_started"
    jobs: tuple[str, ...]
    service: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerStoppedEvent(Event):
    """
    stop() has ended. ``unfinished`` counts runs that outlasted it.
    """

    type: ClassVar[str] = "scheduler_stopped"
    unfinished: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimEvent(RunEvent):
    """
    This instance won a run. ``latency_ms`` is how long the claim that was granted took.
    """

    type: ClassVar[str] = "claim"
    latency_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StartEvent(RunEvent):
    """
    The handler is about to be called. ``late_ms`` is how long after the slot.
    """

    type: ClassVar[str] = "start"
    late_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishEvent(RunEvent):
    """
    The handler has ended, and the store has accepted how.
    """

    type: ClassVar[str] = "finish"
    status: Status
    reason: Reason | None = None
    error: BaseException | None = None
    duration_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SkipEvent(Event):
    """
    A slot is not run here: done elsewhere, overlapped, too late, or too early.
    """

    type: ClassVar[str] = "skip"
    job: str
    slot: int
    attempt: int = 1
    reason: SkipReason


@dataclass(frozen=True, slots=True, kw_only=True)
class MissEvent(Event):
    """
    Slots that nobody ran, told once in the whole cluster as one range.

    ``count`` is exact unless ``at_least`` is set.
    """

    type: ClassVar[str] = "miss"
    job: str
    reason: MissReason
    first_slot: int
    last_slot: int
    count: int
    at_least: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TakeoverEvent(RunEvent):
    """
    This instance goes on with a run whose runner died, froze or handed over.
    """

    type: ClassVar[str] = "takeover"
    from_instance: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HandoverEvent(RunEvent):
    """
    This instance has released a run: a backup may start the next attempt at once.
    """

    type: ClassVar[str] = "handover"


@dataclass(frozen=True, slots=True, kw_only=True)
class LostEvent(RunEvent):
    """
    A run is no longer this instance's.

    ``reason`` is "lease" when it could not be renewed in time, "token" when the
    store says that somebody else has it.
    """

    type: ClassVar[str] = "lost"
    reason: Literal["lease", "token"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockEvent(Event):
    """
    The event loop was blocked. ``job`` is whose handler was in a step, if one was.
    """

    type: ClassVar[str] = "block"
    job: str | None
    slot: int | None = None
    attempt: int | None = None
    duration_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OutageEvent(Event):
    """
    The store does not answer. Told once, until it does again.
    """

    type: ClassVar[str] = "outage"
    error: BaseException


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveredEvent(Event):
    """
    The store answers again.
    """

    type: ClassVar[str] = "recovered"
    duration_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockEvent(Event):
    """
    A wall clock has stepped: this instance's own, or the store's.
    """

    type: ClassVar[str] = "clock"
    which: Literal["own", "store"]
    step_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleEvent(Event):
    """
    A job's schedule has changed, or other instances have another one.

    ``reason`` is "changed" when this start replaced another schedule, "differs"
    when an instance with another one is active too, and "zone_rules" when the
    instances have different rules for the job's time zone.
    """

    type: ClassVar[str] = "schedule"
    job: str
    reason: Literal["changed", "differs", "zone_rules"]
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorEvent(Event):
    """
    Something went wrong that the scheduler survives.
    """

    type: ClassVar[str] = "error"
    message: str
    job: str | None = None
    slot: int | None = None
    attempt: int | None = None
    error: BaseException | None = None


EVENT_TYPES: dict[str, type[Event]] = {
    event.type: event
    for event in (
        SchedulerStartedEvent,
        SchedulerStoppedEvent,
        ClaimEvent,
        StartEvent,
        FinishEvent,
        SkipEvent,
        MissEvent,
        TakeoverEvent,
        HandoverEvent,
        LostEvent,
        BlockEvent,
        OutageEvent,
        RecoveredEvent,
        ClockEvent,
        ScheduleEvent,
        ErrorEvent,
    )
}
