"""
Slots that came due while nobody was there.
"""

from __future__ import annotations

import pytest
from instances import InstancePlan, JobPlan, Stage, check
from instances.stage import now_ms

pytestmark = pytest.mark.slow

SECOND_MS = 1_000
LONG_MS = 300_000


def test_latest_missed_slot_runs_once(stage: Stage) -> None:
    """
    catch_up="latest": of the slots that came due while all were down the latest runs once, and is told to be late.

    Those before it are told as missed, as one range, by one instance.
    """
    every_ms = 2 * SECOND_MS
    plan = InstancePlan(
        jobs=(JobPlan(name="report", every_ms=every_ms, options={"jitter": 0}),), tell=("start",)
    )
    before = stage.spawn("before")
    after = [stage.spawn(name) for name in ("after-1", "after-2")]
    stage.ready(before, *after)
    stage.start(before, plan=plan)
    stage.until(lambda: stage.marks(what="end"), "a slot to run")

    assert [0] == stage.stop(before)
    ran = stage.marks(what="start")[-1].slot
    stage.until_wall_ms(ran + 3 * every_ms + 500)
    stage.start(*after, plan=plan)
    latest = ran + 3 * every_ms
    stage.until(
        lambda: any(mark.slot > latest for mark in stage.marks(what="end")), "the job to go on"
    )

    assert [0, 0] == stage.stop(*after)
    found = check.bodies(stage.marks())
    slots = [body.slot for body in found]
    (miss,) = stage.told("miss")
    (late,) = (told for told in stage.told("start") if told.detail["slot"] == latest)

    assert [] == check.wrong(stage.marks())
    assert [latest, latest + every_ms] == slots[slots.index(ran) + 1 :][:2]
    assert (ran + every_ms, ran + 2 * every_ms, 2) == tuple(
        miss.detail[name] for name in ("first_slot", "last_slot", "count")
    )
    assert late.detail["late_ms"] >= 500
    assert [] == list(
        check.unaccounted(
            found,
            stage.told("miss"),
            stage.records(),
            [("report", slot) for slot in range(ran, latest, every_ms)],
        )
    )


def test_a_restart_around_a_slot_does_not_lose_it(stage: Stage) -> None:
    """
    The last instance stops 50 ms before a slot and the next one starts 50 ms after it: the slot runs once.
    """
    before, after = stage.spawn("before"), stage.spawn("after")
    stage.ready(before, after)
    slot = now_ms() // SECOND_MS * SECOND_MS + 2_500
    job = JobPlan(name="noon", every_ms=LONG_MS, offset_ms=slot % LONG_MS, options={"jitter": 0})
    after.command(InstancePlan(jobs=(job,), start_at_ms=slot + 50).dump())
    stage.start(before, plan=InstancePlan(jobs=(job,), stop_at_ms=slot - 50))

    assert 0 == before.ended()
    stage.started(after)
    stage.until(lambda: stage.marks(what="end"), "the slot to run")

    assert [0] == stage.stop(after)
    assert [(slot, 1, "after", True)] == [
        (body.slot, body.attempt, "after" if body.pid == after.pid else "before", body.ended)
        for body in check.bodies(stage.marks())
    ]
    assert [] == stage.told("miss")
    assert [] == check.wrong(stage.marks())
