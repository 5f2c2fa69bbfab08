"""
Takeover, self-fencing and a busy loop, shown on processes that are killed, stopped and blocked.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from instances import InstancePlan, JobPlan, Stage, check
from instances.scene import QUICK, SHORT, start_run
from instances.stage import now_ms

from anarchon import Reason, Status
from anarchon_chaos.evidence import now_ns

pytestmark = pytest.mark.slow

HEARTBEAT_MS = 1_000
LEASE_MS = 3_000
UNREACHABLE_MS = 250
QUICK_LEASE_MS = 1_200
MS = 1_000_000


def test_takeover_after_sigkill(stage: Stage) -> None:
    """
    Takeover: a runner that is killed in mid-handler is followed by one attempt, within lease + 2 heartbeats.

    The history keeps both attempts.
    """
    runner, *_ = start_run(stage, "a", "b", "c", job=JobPlan(name="report", work_ms=(60_000, 300)))
    killed_ns = runner.kill()
    stage.until(lambda: stage.marks(what="end"), "attempt 2 to end")
    found = check.bodies(stage.marks(), stage.deaths)
    first, second = found

    assert [] == check.wrong(stage.marks(), stage.deaths)
    assert (1, 2) == (first.attempt, second.attempt)
    assert (second.since_ns - killed_ns) / MS <= LEASE_MS + 2 * HEARTBEAT_MS

    stage.stop(*stage.instances[1:])
    records = stage.records("report")

    assert [
        (1, "a", Status.INTERRUPTED, Reason.LEASE_EXPIRED),
        (2, stage.marks(what="end")[0].instance, Status.SUCCESS, None),
    ] == [(record.attempt, record.instance_id, record.status, record.reason) for record in records]
    assert [] == list(check.against_history(found, records))


def test_instance_id_decides_nothing(stage: Stage) -> None:
    """
    One winner, also between instances of one id: a label never decides whose a run is.

    A process that starts with the id of one that was killed waits for the lease, and takes the run as attempt 2.
    """
    job = JobPlan(name="report", work_ms=(60_000, 300))
    runner, backup = start_run(stage, "a", "b", job=job, instance_id="same")
    again = stage.spawn("c")
    stage.until_wall_ms(now_ms() + LEASE_MS + HEARTBEAT_MS)

    assert [runner.pid] == [mark.pid for mark in stage.marks()]
    same = replace(job, offset_ms=stage.marks()[0].slot)
    plan = InstancePlan(jobs=(same,), options=SHORT, instance_id="same")
    stage.ready(again)
    killed_ns = runner.kill()
    backup.kill()
    stage.start(again, plan=plan)
    stage.until(lambda: stage.marks(what="end"), "attempt 2 to end")

    assert [0] == stage.stop(again)
    first, second = check.bodies(stage.marks(), stage.deaths)
    waited_ms = (second.since_ns - killed_ns) / MS

    assert [] == check.wrong(stage.marks(), stage.deaths)
    assert [(1, runner.pid), (2, again.pid)] == [
        (body.attempt, body.pid) for body in (first, second)
    ]
    assert LEASE_MS - HEARTBEAT_MS - HEARTBEAT_MS // 2 < waited_ms <= LEASE_MS + 2 * HEARTBEAT_MS
    assert {"same"} == {record.instance_id for record in stage.records("report")}


def test_fencing_after_sigstop(stage: Stage) -> None:
    """
    Self-fencing: a runner that is frozen past its lease is taken over, and takes no further step when it thaws.

    Its handler swallows the cancellation and returns: nothing that the old attempt sends changes the run. The store is
    out of reach as it thaws, for longer than a step lasts: a handler that nobody holds would take some.
    """
    frozen, _other = start_run(
        stage, "a", "b", job=JobPlan(name="report", handler="step", work_ms=(60_000, 1_000))
    )
    stage.until(lambda: len(stage.marks(what="step")) > 3, "some steps")
    frozen.freeze()
    thaw_at_ms = now_ms() + 10_000
    stage.until(lambda: stage.marks(what="end"), "attempt 2 to end")
    stage.until_wall_ms(thaw_at_ms)
    with stage.gone():
        thawed_ns = frozen.thaw()
        stage.until_wall_ms(now_ms() + UNREACHABLE_MS)
    stage.until(lambda: frozen.told("lost"), "the thawed runner to hear that its run is lost")
    stage.until(lambda: stage.marks(what="cleanup"), "the thawed handler to clean up")

    assert [0, 0] == stage.stop(*stage.instances)
    after = [
        mark.what for mark in stage.marks() if mark.pid == frozen.pid and mark.at_ns > thawed_ns
    ]

    assert ["cleanup"] == after
    assert [] == check.wrong(stage.marks())
    assert [(1, Status.INTERRUPTED), (2, Status.SUCCESS)] == [
        (record.attempt, record.status) for record in stage.records("report")
    ]


def test_freeze_without_a_backup(stage: Stage) -> None:
    """
    After a freeze the handler is held until the store has said that the run is still its own, and then goes on.

    Nobody else was there to take it, so that attempt 1 comes to its end.
    """
    (frozen,) = start_run(stage, "a", job=JobPlan(name="report", handler="step", work_ms=(2_000,)))
    stage.until(lambda: len(stage.marks(what="step")) > 3, "some steps")
    frozen.freeze()
    stage.until_wall_ms(now_ms() + 10_000)
    with stage.gone():
        thawed_ns = frozen.thaw()
        stage.until_wall_ms(now_ms() + UNREACHABLE_MS)
        back_ns = now_ns()
    stage.until(lambda: stage.marks(what="end"), "attempt 1 to end")

    assert [0] == stage.stop(frozen)
    assert [] == frozen.told("lost")
    assert [1] == [body.attempt for body in check.bodies(stage.marks())]
    steps_ns = [mark.at_ns for mark in stage.marks(what="step") if mark.at_ns > thawed_ns]

    assert steps_ns
    assert back_ns < min(steps_ns)
    assert [(1, Status.SUCCESS)] == [
        (record.attempt, record.status) for record in stage.records("report")
    ]


def test_busy_event_loop_keeps_its_lease(stage: Stage) -> None:
    """
    A busy event loop keeps its leases: a handler that blocks it for three leases loses nothing, and is named.
    """
    blocked, _other = start_run(
        stage,
        "a",
        "b",
        job=JobPlan(name="report", handler="block", work_ms=(3 * QUICK_LEASE_MS,)),
        options=QUICK,
    )
    stage.until(lambda: stage.marks(what="end"), "the handler to end")
    (told,) = stage.until(lambda: blocked.told("block"), "the block to be told")

    assert [0, 0] == stage.stop(*stage.instances)
    assert "report" == told.detail["job"]
    assert told.detail["duration_ms"] >= 3 * QUICK_LEASE_MS
    assert [] == stage.told("takeover")
    assert [] == stage.told("lost")
    assert [1] == [body.attempt for body in check.bodies(stage.marks())]
    assert [(1, Status.SUCCESS)] == [
        (record.attempt, record.status) for record in stage.records("report")
    ]


def test_renewals_on_the_handlers_loop_are_starved(stage: Stage) -> None:
    """
    Why renewals have a thread of their own: on the handlers' loop a block of three leases loses the run.

    It is taken over once, the blocked handler is fenced before its next step, and that is told.
    """
    blocked, _other = start_run(
        stage,
        "a",
        "b",
        job=JobPlan(name="report", handler="block", work_ms=(3 * QUICK_LEASE_MS, 0)),
        options=QUICK,
        on_handlers_loop=True,
    )
    stage.until(lambda: blocked.told("lost"), "the run to be lost")
    stage.until(lambda: stage.marks(what="cleanup"), "the blocked handler to clean up")

    assert [0, 0] == stage.stop(*stage.instances)
    assert [2] == [told.detail["attempt"] for told in stage.told("takeover")]
    assert ["start", "cleanup"] == [mark.what for mark in stage.marks() if mark.pid == blocked.pid]
    assert [] == list(check.repeated(check.bodies(stage.marks())))
    assert [(1, Status.INTERRUPTED), (2, Status.SUCCESS)] == [
        (record.attempt, record.status) for record in stage.records("report")
    ]
