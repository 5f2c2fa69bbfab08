"""
The beginning that many tests share: a runner at work on one run, and its backups.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain, repeat
from typing import Any

from instances.plan import InstancePlan, JobPlan
from instances.stage import Instance, Stage, now_ms

__all__ = ["QUICK", "SHORT", "start_run"]

SHORT = {"heartbeat": "1s", "lease": "3s", "stop_timeout": "1s"}
"""
Options of a scheduler whose leases last three seconds.
"""

QUICK = {"heartbeat": "400ms", "lease": "1200ms", "stop_timeout": "1s"}
"""
Options of a scheduler whose leases are as short as a busy machine bears.
"""

_AHEAD_MS = 1_000


def start_run(
    stage: Stage,
    *names: str,
    job: JobPlan,
    options: Mapping[str, Any] = SHORT,
    clock_offsets_ms: Sequence[int] = (),
    **plan: Any,
) -> list[Instance]:
    """
    Start instances with one job that is due once, in a moment, and return when its handler is at work.

    The first instance is alone until then, so that it is the runner.
    """
    processes = [
        stage.spawn(name, clock_offset_ms=offset_ms)
        for name, offset_ms in zip(names, chain(clock_offsets_ms, repeat(0)), strict=False)
    ]
    stage.ready(*processes)
    due = replace(job, offset_ms=now_ms() + _AHEAD_MS, options={"jitter": 0, **job.options})
    whole = InstancePlan(jobs=(due,), options=options, **plan)
    stage.start(processes[0], plan=whole)
    stage.until(lambda: stage.marks(job=job.name, what="start"), "the handler to start")
    stage.start(*processes[1:], plan=whole)
    return processes
