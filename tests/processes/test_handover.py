"""
Hand-over and restarts: what a deploy does to runs, shown on processes that are stopped and started.
"""

from __future__ import annotations

import pytest
from instances import Instance, InstancePlan, JobPlan, Stage, check
from instances.scene import SHORT, start_run
from instances.stage import now_ms

from anarchon import Reason, Status
from anarchon_chaos.evidence import now_ns

pytestmark = pytest.mark.slow

SECOND_MS = 1_000
LONG_MS = 300_000
MS = 1_000_000


def long_run() -> JobPlan:
    """
    Plan a job whose first attempt lasts: due in a few seconds, half a second off the grid of the short jobs.
    """
    offset_ms = (now_ms() // SECOND_MS * SECOND_MS + 3_500) % LONG_MS
    return JobPlan(
        name="long",
        every_ms=LONG_MS,
        offset_ms=offset_ms,
        work_ms=(60_000, 100),
        options={"jitter": 0},
    )


def test_handover_within_a_second(stage: Stage) -> None:
    """
    Hand-over: a run that stop() releases starts elsewhere within 1 s, at the default heartbeat of 10 s too.

    It is measured from the last sign of the cancelled handler, which comes before the release.
    """
    runner, backup = start_run(
        stage,
        "a",
        "b",
        job=JobPlan(name="report", work_ms=(60_000, 100)),
        options={"stop_timeout": "1s"},
    )

    assert [0] == stage.stop(runner)
    stage.until(lambda: stage.marks(what="end"), "attempt 2 to end")
    (cleanup,) = stage.marks(what="cleanup")
    second = stage.marks(what="start")[1]

    assert (2, backup.pid) == (second.attempt, second.pid)
    assert 0 < (second.at_ns - cleanup.at_ns) / MS < SECOND_MS
    assert 1 == len(runner.told("handover"))
    assert [0] == stage.stop(backup)
    assert [] == check.wrong(stage.marks())
    assert [
        (1, Status.INTERRUPTED, Reason.HANDED_OVER),
        (2, Status.SUCCESS, None),
    ] == [(record.attempt, record.status, record.reason) for record in stage.records("report")]


def test_plain_function_outlasts_stop(stage: Stage) -> None:
    """
    Hand-over: no run is released before its handler has ended.

    A plain function that outlasts stop() keeps its run until the process has ended, which it does on time; then the
    lease runs out, and not before that another instance takes the run over.
    """
    runner, _backup = start_run(
        stage, "a", "b", job=JobPlan(name="report", handler="thread", work_ms=(60_000, 100))
    )
    asked_ns = now_ns()

    assert [0] == stage.stop(runner)
    ended_ns = now_ns()
    stage.deaths[runner.pid] = ended_ns
    stage.until(lambda: stage.marks(what="end"), "attempt 2 to end")
    second = stage.marks(what="start")[1]

    assert (ended_ns - asked_ns) / MS < 2 * SECOND_MS + SECOND_MS
    assert [1] == [told.detail["unfinished"] for told in runner.told("scheduler_stopped")]
    assert [] == runner.told("handover")
    # The last renewal was sent at most a heartbeat before the end, or is on its way through a call of half of one.
    assert 3_000 - 1_000 - 500 < (second.at_ns - ended_ns) / MS <= 3_000 + 2 * 1_000
    assert [] == check.wrong(stage.marks(), stage.deaths)
    assert [Reason.LEASE_EXPIRED, None] == [record.reason for record in stage.records("report")]


def test_nothing_is_lost_in_a_rolling_restart(stage: Stage) -> None:
    """
    A deploy that replaces one of three instances every two seconds loses no slot.

    Short runs drain, or are handed over when they were claimed a moment before; long ones are interrupted and taken
    over. Every slot of a long job, which has ten seconds until the next one, comes to its end; one of a short job may
    stand in the history as given up, where a busy machine brought the newer one first.
    """
    short = [JobPlan(name=f"short-{n}", every_ms=SECOND_MS, work_ms=(50,)) for n in range(10)]
    long = [
        JobPlan(name=f"long-{n}", every_ms=10_000, offset_ms=n * 800, work_ms=(2_000,))
        for n in range(12)
    ]
    plan = InstancePlan(jobs=(*short, *long), options={**SHORT, "stop_timeout": "500ms"})
    living = [stage.spawn(f"old-{number}") for number in range(3)]
    stage.start(*living, plan=plan)
    first = (now_ms() // SECOND_MS + 1) * SECOND_MS
    going: list[Instance] = []
    for number in range(9):
        fresh = stage.spawn(f"new-{number}")
        stage.until_wall_ms(first + (number + 1) * 2 * SECOND_MS)
        stage.start(fresh, plan=plan)
        living.append(fresh)
        going.append(living.pop(0))
        going[-1].terminate()
    last = now_ms() // SECOND_MS * SECOND_MS
    expected = [
        (job.name, slot)
        for job in plan.jobs
        for slot in range(first, last + 1, SECOND_MS)
        if (slot - job.offset_ms) % (job.every_ms or 1) == 0
    ]

    def over() -> bool:
        newest: dict[str, int] = {}
        for mark in stage.marks(what="end"):
            newest[mark.job] = max(mark.slot, newest.get(mark.job, 0))
        return all(slot <= newest.get(job, 0) for job, slot in expected)

    stage.until(over, "every slot, or a newer one of its job, to come to its end")

    assert [0] * 9 == [process.ended() for process in going]
    assert [0] * 3 == stage.stop(*living)
    found, records = check.bodies(stage.marks()), stage.records()
    names = {job.name for job in long}
    ended = {(body.job, body.slot) for body in found if body.ended}

    assert [] == check.wrong(stage.marks())
    assert [] == list(check.unaccounted(found, stage.told("miss"), records, expected))
    assert [] == [run for run in expected if run[0] in names and run not in ended]
    assert [] == list(check.against_history(found, records))
    assert [body for body in found if body.attempt > 1 and body.job in names]
    assert {Reason.HANDED_OVER} == {
        record.reason
        for record in records
        if record.status is Status.INTERRUPTED and record.slot <= last
    }


def test_all_instances_restart_at_once(stage: Stage) -> None:
    """
    When all instances stop and start together, every slot ran once, was taken over, or is told as missed once.

    A slot that was claimed as they stopped may stand in the history as interrupted, when a newer one came before
    anybody could go on with it.
    """
    old = [stage.spawn(f"old-{number}") for number in range(3)]
    new = [stage.spawn(f"new-{number}") for number in range(3)]
    stage.ready(*old, *new)
    jobs = (JobPlan(name="short", every_ms=500, work_ms=(20,)), long_run())
    plan = InstancePlan(jobs=jobs, options={**SHORT, "stop_timeout": "200ms"})
    stage.start(*old, plan=plan)
    first = (now_ms() // 500 + 1) * 500
    stage.until(lambda: stage.marks(job="long", what="start"), "the long job to be at work")

    assert [0, 0, 0] == stage.stop(*old)
    stopped_ms = now_ms()
    stage.until_wall_ms(stopped_ms + 1_500)
    stage.start(*new, plan=plan)
    started_ms = now_ms()
    stage.until(lambda: stage.marks(job="long", what="end"), "the long job to end")
    last = started_ms // 500 * 500 + 1_000
    stage.until(
        lambda: any(mark.slot > last for mark in stage.marks(job="short", what="end")),
        "the short job to go on",
    )

    assert [0, 0, 0] == stage.stop(*new)
    found = check.bodies(stage.marks())
    expected = [("short", slot) for slot in range(first, last + 1, 500)]

    assert [] == check.wrong(stage.marks())
    assert [] == list(check.unaccounted(found, stage.told("miss"), stage.records(), expected))
    assert [] == list(check.against_history(found, stage.records()))
    assert [1, 2] == [body.attempt for body in found if body.job == "long"]
    assert stage.told("miss")


def test_all_instances_are_killed(stage: Stage) -> None:
    """
    After all instances died, the next slot comes on time, and the interrupted run within lease + 2 heartbeats.
    """
    old = [stage.spawn(f"old-{number}") for number in range(3)]
    new = [stage.spawn(f"new-{number}") for number in range(3)]
    stage.ready(*old, *new)
    jobs = (JobPlan(name="short", every_ms=SECOND_MS, work_ms=(5,)), long_run())
    plan = InstancePlan(jobs=jobs, options=SHORT)
    stage.start(*old, plan=plan)
    stage.until(lambda: stage.marks(job="long", what="start"), "the long job to be at work")
    killed_ns = [process.kill() for process in old]
    stage.start(*new, plan=plan)
    started_ms = now_ms()
    stage.until(lambda: stage.marks(job="long", what="end"), "the long job to end")
    next_slot = (started_ms // SECOND_MS + 1) * SECOND_MS
    stage.until(
        lambda: any(mark.slot > next_slot for mark in stage.marks(job="short", what="end")),
        "the short job to go on",
    )

    assert [0, 0, 0] == stage.stop(*new)
    found = check.bodies(stage.marks(), stage.deaths)
    first, second = (body for body in found if body.job == "long")
    (on_time,) = (mark for mark in stage.marks(job="short", what="start") if mark.slot == next_slot)

    assert (1, 2) == (first.attempt, second.attempt)
    assert (second.since_ns - killed_ns[0]) / MS <= 3_000 + 2 * 1_000
    assert on_time.wall_ms < next_slot + SECOND_MS
    assert [] == list(check.repeated(found))
    assert [] == list(check.overlapping(found))
    assert [] == list(check.older_after_newer(found))
