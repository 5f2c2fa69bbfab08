"""
Plans from Hypothesis: every rule holds, and a failure shrinks to what matters.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, find, given, settings
from hypothesis import strategies as st

from anarchon.protocol import claims
from anarchon_simulation.faults import Fault
from anarchon_simulation.plan import InstancePlan, JobPlan, Plan
from anarchon_simulation.scenario import run_plan
from anarchon_simulation.strategies import faults, plans


@pytest.mark.slow
@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(plan=plans())
def test_every_rule_holds(plan: Plan) -> None:
    """
    Whatever Hypothesis thinks of, every rule holds.
    """
    outcome = run_plan(plan)

    assert outcome.ok, outcome.report()


def small_plan(chosen: list[Fault]) -> Plan:
    """
    Make a short plan of two instances and one slow job, with these faults.
    """
    return Plan(
        seed=1,
        faults_until_ms=40_000,
        settle_ms=12_000,
        instances=(InstancePlan(name="a"), InstancePlan(name="b")),
        jobs=(JobPlan(name="work", every_ms=10_000, work_ms=(6_000, 6_000), jitter_ms=0),),
        faults=tuple(chosen),
    )


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_failure_shrinks(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    With a bug in the store that only a takeover shows, the one fault that matters is left.
    """
    monkeypatch.setattr(claims, "_close", lambda *_: ())

    found = find(
        st.lists(faults(), max_size=6).map(small_plan),
        lambda plan: any("left running" in rule for rule in run_plan(plan).broken),
        settings=settings(
            max_examples=1_500,  # A fault that hits a run in its middle is one of many.
            deadline=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        ),
    )

    assert 1 == len(found.faults), found
