"""
Plans from Hypothesis: every rule holds, and a failure shrinks to what matters.
"""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, find, given, settings

from anarchon.protocol import claims
from anarchon_simulation.plan import Plan
from anarchon_simulation.scenario import run_plan
from anarchon_simulation.strategies import plans


@pytest.mark.slow
@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(plan=plans())
def test_every_rule_holds(plan: Plan) -> None:
    """
    Whatever Hypothesis thinks of, every rule holds.
    """
    outcome = run_plan(plan)

    assert outcome.ok, outcome.report()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_failure_shrinks(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    With a bug in the store that only a takeover shows, one fault and the least instances are left.
    """
    monkeypatch.setattr(claims, "_close", lambda *_: ())

    plan = find(
        plans(),
        lambda plan: not run_plan(plan).ok,
        settings=settings(
            max_examples=150,
            deadline=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        ),
    )

    assert 2 == len(plan.instances)
    assert 1 >= len(plan.faults)
