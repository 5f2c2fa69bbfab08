"""
What the simulation has found in the core, each as the smallest plan that shows it.
"""

from __future__ import annotations

from anarchon_simulation.faults import Freeze
from anarchon_simulation.plan import InstancePlan, JobPlan, Plan
from anarchon_simulation.scenario import run_plan


def test_plain_function_that_waits_for_a_thread_does_not_begin_when_its_run_is_lost() -> None:
    """
    A plain function still in the queue for a thread when its run is taken over never begins: a newer slot has.
    """
    plan = Plan(
        seed=1,
        instances=(
            InstancePlan(name="a", threads_max=1),
            InstancePlan(name="b", starts_ms=10_500),
        ),
        jobs=(
            JobPlan(name="beat", every_ms=5_000),
            JobPlan(
                name="long", every_ms=60_000, plain=True, work_ms=(12_000, 12_000), jitter_ms=0
            ),
            JobPlan(name="short", every_ms=10_000, plain=True, work_ms=(10, 10), jitter_ms=0),
        ),
        start_ms=1_767_225_655_000,
        faults=(Freeze(at_ms=5_500, instance="a", duration_ms=30_000),),
    )

    outcome = run_plan(plan)

    assert outcome.ok, outcome.report()
