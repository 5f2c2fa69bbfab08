"""
What an instance is to do: its options and its jobs, as data that travels to its process.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

__all__ = ["TOLD", "InstancePlan", "JobPlan"]

TOLD = (
    "scheduler_started",
    "scheduler_stopped",
    "miss",
    "takeover",
    "handover",
    "lost",
    "block",
    "outage",
    "recovered",
    "clock",
    "schedule",
    "error",
)
"""
The events that are always told; those that come with every slot are told when a plan asks for them.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlan:
    """
    One job.

    Args:
        name: The job's name.

        every_ms: Its interval; None for a job that runs once.

        offset_ms: The offset of the grid, or, for a job that runs once, its slot.

        handler: Which handler (see `handlers`).

        work_ms: How long it works: in its first attempt, its second, and so on; the last value stays.

        options: Options of the job, as its decorator takes them.
    """

    name: str
    every_ms: int | None = None
    offset_ms: int = 0
    handler: str = "rest"
    work_ms: tuple[int, ...] = (0,)
    options: Mapping[str, Any] = field(default_factory=dict)

    def work_s(self, attempt: int) -> float:
        """
        Say how long an attempt works, in seconds.
        """
        return self.work_ms[min(attempt, len(self.work_ms)) - 1] / 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class InstancePlan:
    """
    One instance.

    Args:
        jobs: Its jobs.

        options: Options of the scheduler.

        instance_id: Its label; None takes the name of its process on the stage.

        start_at_ms: When to start, by the wall clock; None for at once.

        stop_at_ms: When it sends itself SIGTERM; None for never.

        on_handlers_loop: Whether renewals share the handlers' loop, as they should not.

        tell: More events to be told.
    """

    jobs: tuple[JobPlan, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    instance_id: str | None = None
    start_at_ms: int | None = None
    stop_at_ms: int | None = None
    on_handlers_loop: bool = False
    tell: tuple[str, ...] = ()

    def dump(self) -> str:
        """
        Write the plan as one line.
        """
        return json.dumps(asdict(self))

    @classmethod
    def load(cls, line: str) -> Self:
        """
        Read it back.
        """
        raw = json.loads(line)
        jobs = tuple(JobPlan(**{**job, "work_ms": tuple(job["work_ms"])}) for job in raw["jobs"])
        return cls(**{**raw, "jobs": jobs, "tell": tuple(raw["tell"])})
