"""
One winner under load, and next to nothing while idle: figures of many instances on one file.

The short forms run everywhere; ``ANARCHON_SOAK=1`` runs the long ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

import pytest
from instances import InstancePlan, JobPlan, Mark, Stage, check
from instances.stage import now_ms

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

SECOND_MS = 1_000
DAY_MS = 86_400_000


def lateness(starts: Sequence[Mark], percent: int) -> str:
    """
    Say how long after their slots handlers started, at a percentile.
    """
    late_ms = sorted(mark.wall_ms - mark.slot for mark in starts)
    return f"{late_ms[min(len(late_ms) - 1, len(late_ms) * percent // 100)]} ms"


def test_one_winner_for_every_slot(stage: Stage, soak_s: int, figures: Callable[..., None]) -> None:
    """
    One winner: four processes, 200 jobs every second, one file: every slot exactly once, and none missed.
    """
    names = [f"job-{number:03}" for number in range(200)]
    plan = InstancePlan(jobs=tuple(JobPlan(name=name, every_ms=SECOND_MS) for name in names))
    processes = [stage.spawn(name) for name in "abcd"]
    stage.start(*processes, plan=plan)
    first = (now_ms() // SECOND_MS + 1) * SECOND_MS
    last = first + (soak_s - 1) * SECOND_MS
    before_ns = [process.ask("cpu").detail["cpu_ns"] for process in processes]
    stage.until_wall_ms(last + SECOND_MS)
    used_ns = [
        process.ask("cpu").detail["cpu_ns"] - before
        for process, before in zip(processes, before_ns, strict=True)
    ]
    stage.until(
        lambda: {mark.job for mark in stage.marks(what="start") if mark.slot > last} == set(names),
        "every job to have gone on to a later slot",
    )

    assert [0, 0, 0, 0] == stage.stop(*processes)
    marks = stage.marks()
    expected = [(name, slot) for name in names for slot in range(first, last + 1, SECOND_MS)]
    inside = [mark for mark in marks if mark.what == "start" and first <= mark.slot <= last]
    figures(
        slots=len(inside),
        expected=len(expected),
        late_p50=lateness(inside, 50),
        late_p99=lateness(inside, 99),
        cpu=" ".join(f"{ns / 1e9:.2f}" for ns in used_ns) + " s",
    )

    assert [] == list(check.not_run_once(check.bodies(marks), expected))
    assert [] == check.wrong(marks)
    assert [] == stage.told("miss")
    assert [] == stage.told("outage")


def test_one_run_a_slot_whatever_the_start(stage: Stage) -> None:
    """
    One winner: 20 instances that start at random times run a job of 5 ms once a slot.

    Slots are points of a grid that all share, not distances from an instance's start.
    """
    random = Random(20)
    processes = [stage.spawn(f"i{number:02}") for number in range(20)]
    stage.ready(*processes)
    begin_ms = now_ms() + 500
    for process in processes:
        plan = InstancePlan(
            jobs=(JobPlan(name="quick", every_ms=SECOND_MS, work_ms=(5,)),),
            start_at_ms=begin_ms + random.randrange(4_000),
        )
        process.command(plan.dump())
    first = (begin_ms // SECOND_MS + 2) * SECOND_MS
    last = first + 7 * SECOND_MS
    stage.started(*processes)
    stage.until(
        lambda: any(mark.slot > last for mark in stage.marks(what="end")), "the last slot to end"
    )

    assert [0] * 20 == stage.stop(*processes)
    marks = stage.marks()
    expected = [("quick", slot) for slot in range(first, last + 1, SECOND_MS)]

    assert [] == list(check.not_run_once(check.bodies(marks), expected))
    assert [] == check.wrong(marks)


def test_idle_costs_next_to_nothing(
    stage: Stage, soak_s: int, figures: Callable[..., None]
) -> None:
    """
    1,000 daily jobs that are not due use less than 0.1 % of a core.
    """
    noon_ms = (now_ms() + DAY_MS // 2) % DAY_MS
    jobs = tuple(
        JobPlan(name=f"job-{number:04}", every_ms=DAY_MS, offset_ms=(noon_ms + number) % DAY_MS)
        for number in range(1_000)
    )
    process = stage.spawn("idle")
    stage.start(process, plan=InstancePlan(jobs=jobs))
    before = process.ask("cpu")
    stage.until_wall_ms(now_ms() + soak_s * SECOND_MS)
    after = process.ask("cpu")
    share = (after.detail["cpu_ns"] - before.detail["cpu_ns"]) / (after.at_ns - before.at_ns)
    figures(jobs=len(jobs), share_of_a_core=f"{share:.4%}")

    assert [0] == stage.stop(process)
    assert share < 0.001
    assert [] == stage.marks()
