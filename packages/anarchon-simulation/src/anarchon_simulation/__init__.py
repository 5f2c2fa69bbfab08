"""
Run anarchon's scheduler on virtual time: many instances, wrong clocks, lost messages, crashes.

``simulate`` runs your own jobs and tells what ran; the rest is what it is made of.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anarchon_simulation.audit import BrokenRuleError as BrokenRuleError
    from anarchon_simulation.drawing import draw_plan as draw_plan
    from anarchon_simulation.incidents import Incident as Incident
    from anarchon_simulation.incidents import crash as crash
    from anarchon_simulation.incidents import cut as cut
    from anarchon_simulation.incidents import freeze as freeze
    from anarchon_simulation.incidents import outage as outage
    from anarchon_simulation.incidents import step_clock as step_clock
    from anarchon_simulation.incidents import stop as stop
    from anarchon_simulation.incidents import suspend as suspend
    from anarchon_simulation.plan import InstancePlan as InstancePlan
    from anarchon_simulation.plan import JobPlan as JobPlan
    from anarchon_simulation.plan import Plan as Plan
    from anarchon_simulation.plan import StorePlan as StorePlan
    from anarchon_simulation.report import Report as Report
    from anarchon_simulation.scenario import Outcome as Outcome
    from anarchon_simulation.scenario import run_plan as run_plan
    from anarchon_simulation.simulating import simulate as simulate

__all__ = [
    "BrokenRuleError",
    "Incident",
    "InstancePlan",
    "JobPlan",
    "Outcome",
    "Plan",
    "Report",
    "StorePlan",
    "crash",
    "cut",
    "draw_plan",
    "freeze",
    "outage",
    "run_plan",
    "simulate",
    "step_clock",
    "stop",
    "suspend",
]

_HOMES = {
    "BrokenRuleError": "audit",
    "Incident": "incidents",
    "InstancePlan": "plan",
    "JobPlan": "plan",
    "Outcome": "scenario",
    "Plan": "plan",
    "Report": "report",
    "StorePlan": "plan",
    "crash": "incidents",
    "cut": "incidents",
    "draw_plan": "drawing",
    "freeze": "incidents",
    "outage": "incidents",
    "run_plan": "scenario",
    "simulate": "simulating",
    "step_clock": "incidents",
    "stop": "incidents",
    "suspend": "incidents",
}


def __getattr__(name: str) -> object:
    """
    Load a public name when it is asked for.

    Every pytest run on a machine imports this package through the plug-in, so that
    it must not import more than it has to.
    """
    home = _HOMES.get(name)
    if home is None:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    from importlib import import_module  # noqa: PLC0415 - see above

    return getattr(import_module(f"{__name__}.{home}"), name)
