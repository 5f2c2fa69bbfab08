"""
A store that is locked, full or gone: reported once, survived, and nothing doubled.
"""

from __future__ import annotations

from functools import partial

import pytest
from instances import InstancePlan, JobPlan, Stage, check
from instances.stage import now_ms

from anarchon_chaos.evidence import now_ns

pytestmark = pytest.mark.slow

SECOND_MS = 1_000
OUTAGES = 100


def test_a_locked_file_is_an_outage(stage: Stage) -> None:
    """
    A file that somebody locks for 5 s: each instance tells the outage once and its end once, and nothing is doubled.

    A run whose lease is longer than that goes on all the while.
    """
    processes = [stage.spawn(name) for name in "ab"]
    stage.ready(*processes)
    at_work_ms = now_ms() // SECOND_MS * SECOND_MS + 2_500
    long = JobPlan(
        name="long",
        every_ms=300_000,
        offset_ms=at_work_ms % 300_000,
        work_ms=(8_000,),
        options={"jitter": 0},
    )
    plan = InstancePlan(
        jobs=(JobPlan(name="short", every_ms=SECOND_MS, work_ms=(20,)), long),
        options={"heartbeat": "2500ms", "lease": "10s"},
    )
    stage.start(*processes, plan=plan)
    first = (now_ms() // SECOND_MS + 1) * SECOND_MS
    stage.until(lambda: stage.marks(job="long", what="start"), "the long job to be at work")
    with stage.locked():
        locked_ns = now_ns()
        stage.until_wall_ms(now_ms() + 5_000)
        lifted_ns = now_ns()
    for process in processes:
        stage.until(partial(process.told, "recovered"), f"{process.name} to recover")
    stage.until(lambda: stage.marks(job="long", what="end"), "the long job to end")
    last = now_ms() // SECOND_MS * SECOND_MS
    stage.until(
        lambda: any(mark.slot > last for mark in stage.marks(job="short", what="end")),
        "the short job to go on",
    )

    assert [0, 0] == stage.stop(*processes)
    found = check.bodies(stage.marks())
    expected = [("short", slot) for slot in range(first, last + 1, SECOND_MS)]

    assert [(1, 1), (1, 1)] == [
        (len(process.told("outage")), len(process.told("recovered"))) for process in processes
    ]
    assert {"StoreUnavailableError"} == {
        told.detail["error"].partition(":")[0] for told in stage.told("outage")
    }
    assert [] == [mark for mark in stage.marks(what="start") if locked_ns < mark.at_ns < lifted_ns]
    assert [] == check.wrong(stage.marks())
    assert [] == list(check.unaccounted(found, stage.told("miss"), stage.records(), expected))
    assert [] == list(check.against_history(found, stage.records()))
    assert [(1, True)] == [(body.attempt, body.ended) for body in found if body.job == "long"]


def test_a_full_disk_is_an_outage(stage: Stage) -> None:
    """
    A disk without room: told in the store's words, no handler without a recorded claim, and on it goes when lifted.

    The bound on the size of files that a process may write stands in for the disk.
    """
    jobs = tuple(JobPlan(name=f"job-{number}", every_ms=500) for number in range(5))
    process = stage.spawn("a")
    stage.start(process, plan=InstancePlan(jobs=jobs))
    first = (now_ms() // 500 + 1) * 500
    log = stage.store.with_name("jobs.db-wal")
    stage.until(lambda: len(stage.marks(what="end")) > 10, "some runs")
    process.ask(f"limit {log.stat().st_size}")
    (outage,) = stage.until(lambda: process.told("outage"), "the outage to be told")
    refused_ns = now_ns()
    stage.until_wall_ms(now_ms() + 2_000)
    during = [mark for mark in stage.marks(what="start") if mark.at_ns > refused_ns]
    process.command("limit none")
    stage.until(lambda: process.told("recovered"), "the recovery to be told")
    last = now_ms() // 500 * 500
    stage.until(
        lambda: (
            {mark.job for mark in stage.marks(what="end") if mark.slot > last}
            == {job.name for job in jobs}
        ),
        "every job to go on",
    )

    assert [0] == stage.stop(process)
    found = check.bodies(stage.marks())
    expected = [(job.name, slot) for job in jobs for slot in range(first, last + 1, 500)]

    assert "disk" in outage.detail["error"]
    assert [] == during
    assert 1 == len(process.told("recovered"))
    assert [] == check.wrong(stage.marks())
    assert [] == list(check.unaccounted(found, stage.told("miss"), stage.records(), expected))
    assert [] == list(check.against_history(found, stage.records()))


def test_a_hundred_outages_end_no_scheduler(stage: Stage) -> None:
    """
    The scheduler does not die: after a hundred outages in a row, each of them told, the job still runs.

    The folder of the file goes away and comes back, as a mount does.
    """
    process = stage.spawn("a")
    job = JobPlan(name="often", every_ms=100, options={"jitter": 0})
    stage.start(process, plan=InstancePlan(jobs=(job,)))
    for number in range(1, OUTAGES + 1):
        with stage.gone():
            stage.until_count(process, "outage", number)
        stage.until_count(process, "recovered", number)
    last = now_ms()
    stage.until(lambda: any(mark.slot > last for mark in stage.marks(what="end")), "a later slot")

    assert [0] == stage.stop(process)
    assert (OUTAGES, OUTAGES) == (len(process.told("outage")), len(process.told("recovered")))
    assert [] == check.wrong(stage.marks())
    assert [] == process.told("error")
    assert [] == list(check.against_history(check.bodies(stage.marks()), stage.records()))
