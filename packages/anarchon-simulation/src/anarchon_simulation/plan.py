"""
A whole run as data: the store, the instances, the jobs, and what goes wrong when.

``repr`` of a plan is Python that makes the plan again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from anarchon_simulation.clocks import START_MS
from anarchon_simulation.faults import Fault
from anarchon_simulation.lanes import Order

__all__ = ["InstancePlan", "JobPlan", "Plan", "StorePlan"]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPlan:
    """
    A job and how its handler behaves. Shares are percent of its attempts.

    Args:
        every_ms: The distance between slots.

        changed_every_ms: The same in version 1 of the jobs; None: unchanged.

        plain: A plain function in a thread, not an async one.

        work_ms: How long a handler works, from and to.

        steps: In how many steps an async handler works.

        stubborn: It goes on for a while when it is cancelled.

        cancels: It bounds a step of its own, which is cancelled, and goes on.

        zoned: Its slots have the rules of a time zone, which version 1 of the jobs has in another edition.
    """

    name: str
    every_ms: int
    changed_every_ms: int | None = None
    catch_up: Literal["latest", "none", "all"] = "latest"
    catch_up_window_ms: int | None = None
    max_lateness_ms: int | None = None
    max_crashes: int = 3
    takeover: bool = True
    timeout_ms: int | None = None
    jitter_ms: int | None = None
    plain: bool = False
    work_ms: tuple[int, int] = (0, 500)
    steps: int = 3
    fails: int = 0
    blocks: int = 0
    stubborn: int = 0
    hands_over: int = 0
    cancels: int = 0
    zoned: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class InstancePlan:
    """
    An instance and its clocks.
    """

    name: str
    starts_ms: int = 0
    offset_ms: int = 0
    drift_ppm: int = 0
    threads_max: int = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class StorePlan:
    """
    The store and the way to it.

    Args:
        leases: A lease backend; else one with claims alone.

        hints: It offers hints.

        delay_ms: How long a message travels, from and to.
    """

    leases: bool = True
    hints: bool = False
    batch_max: int = 256
    offset_ms: int = 0
    drift_ppm: int = 0
    delay_ms: tuple[int, int] = (1, 20)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """
    A run. After ``faults_until_ms`` nothing goes wrong any more, and ``settle_ms`` later all must be well.
    """

    seed: int
    order: Order = "fifo"
    start_ms: int = START_MS
    heartbeat_ms: int = 1_000
    lease_ms: int = 3_000
    stop_timeout_ms: int = 3_000
    faults_until_ms: int = 60_000
    settle_ms: int = 30_000
    store: StorePlan = field(default_factory=StorePlan)
    instances: tuple[InstancePlan, ...] = ()
    jobs: tuple[JobPlan, ...] = ()
    faults: tuple[Fault, ...] = ()
