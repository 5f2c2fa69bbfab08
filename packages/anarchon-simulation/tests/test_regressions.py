"""
What the simulation has found in the core, each as the smallest plan that shows it.
"""

from __future__ import annotations

from anarchon_simulation.plan import Plan
from anarchon_simulation.scenario import run_plan


def test_plain_function_that_waits_for_a_thread_does_not_begin_when_its_run_is_lost(
    queued_plan: Plan,
) -> None:
    """
    A plain function still in the queue for a thread when its run is taken over never begins: a newer slot has.
    """
    outcome = run_plan(queued_plan)

    assert outcome.ok, outcome.report()
