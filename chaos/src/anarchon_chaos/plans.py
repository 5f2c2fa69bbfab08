"""
What an instance is told to run, as data that travels over a pipe.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

__all__ = ["JobPlan", "WorkerPlan"]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlan:
    """
    One job: a grid, and what its handler does.

    ``handler`` is "step" (awaits, and writes a line every 50 ms) or "block" (holds its event loop up). ``work_ms``
    has the length of each attempt; the last one is that of all further attempts.
    """

    name: str
    every_ms: int
    offset_ms: int = 0
    handler: str = "step"
    work_ms: tuple[int, ...] = (100,)
    options: Mapping[str, Any] = field(default_factory=dict)

    def work_s(self, attempt: int) -> float:
        """
        Say how long an attempt works, in seconds.
        """
        return self.work_ms[min(attempt, len(self.work_ms)) - 1] / 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerPlan:
    """
    One instance: its store, its jobs, and the options of its scheduler.
    """

    url: str
    jobs: tuple[JobPlan, ...]
    options: Mapping[str, Any] = field(default_factory=dict)

    def dump(self) -> str:
        """
        Write the plan as one line.
        """
        return json.dumps(asdict(self))

    @classmethod
    def load(cls, line: str) -> WorkerPlan:
        """
        Read a plan from a line.
        """
        data = json.loads(line)
        jobs = tuple(
            JobPlan(**{**job, "work_ms": tuple(job["work_ms"])}) for job in data.pop("jobs")
        )
        return cls(jobs=jobs, **data)
