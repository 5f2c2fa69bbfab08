"""
The scheduler's own code under faults drawn from seeds: every rule holds, and everything was met.
"""

from __future__ import annotations

import pytest

from anarchon_simulation.drawing import draw_plan
from anarchon_simulation.plan import Plan
from anarchon_simulation.rows import ROWS
from anarchon_simulation.scenario import run_plan
from anarchon_simulation.sweep import Sweep, run_seeds, sweep

FAULTS = {
    "Crash",
    "Cut",
    "Freeze",
    "Hints",
    "Look",
    "Lossy",
    "Outage",
    "Slow",
    "Stall",
    "StepClock",
    "StepStore",
    "Stop",
    "Stray",
    "Suspend",
}
EFFECTS = {
    "cut: replies",
    "cut: requests",
    "doubled",
    "handler: blocks",
    "handler: cut a step short",
    "handler: fails",
    "handler: hands over",
    "handler: heard stopping in a thread",
    "handler: stubborn",
    "hint: delayed",
    "hint: false",
    "hint: lost",
    "hint: told",
    "history: answered",
    "history: cancelled",
    "history: unanswered",
    "lossy: replies",
    "lossy: requests",
    "outage: refused",
    "outage: silent",
    "slow",
    "zone rules: told",
}


def words(total: Sweep) -> str:
    """
    Say what broke.
    """
    return "\n\n".join(failure.report for failure in total.failures[:3])


def test_a_few_seeds_hold() -> None:
    """
    The quick look: ten seeds in the order of asyncio.
    """
    total = run_seeds(range(10))

    assert 0 == total.failed, words(total)


def test_a_few_seeds_hold_in_shuffled_order() -> None:
    """
    Nothing depends on the order in which asyncio happens to step its tasks.
    """
    total = run_seeds(range(10), order="task")

    assert 0 == total.failed, words(total)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_five_hundred_seeds_hold_and_meet_everything() -> None:
    """
    Every rule holds for 500 seeds; each fault fired, and each row of the table of answers was answered.
    """
    total = Sweep()
    for so_far in sweep(range(500)):
        total = so_far

    assert 500 == total.seeds
    assert 0 == total.failed, words(total)
    assert set() == FAULTS - set(total.fired)
    assert set() == EFFECTS - set(total.fired)
    assert set() == ROWS - set(total.rows)


def test_plan_is_python() -> None:
    """
    A plan prints as Python that makes it again, and the copy runs in the same way.
    """
    from anarchon_simulation import faults, plan  # noqa: PLC0415 - the names that the text needs

    original = draw_plan(3)
    copy = eval(repr(original), {**vars(faults), **vars(plan)})

    assert isinstance(copy, Plan)
    assert original == copy
    assert run_plan(original).digest == run_plan(copy).digest
