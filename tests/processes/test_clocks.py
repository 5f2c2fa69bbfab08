"""
Instances whose wall clocks are ten minutes wrong, beside one that is right.
"""

from __future__ import annotations

import pytest
from instances import InstancePlan, JobPlan, Stage, check
from instances.scene import SHORT, start_run
from instances.stage import now_ms

from anarchon import Reason

pytestmark = pytest.mark.slow

SECOND_MS = 1_000
WRONG_MS = 600_000
MS = 1_000_000


def test_wrong_clocks_run_nothing_twice_and_nothing_early(stage: Stage) -> None:
    """
    The store's clock judges: instances ten minutes ahead and behind change nothing.

    Every slot runs once, and none before its time by the machine's true clock. The instance that is ahead starts
    first, so that it is the one that makes the jobs known.
    """
    jobs = tuple(
        JobPlan(name=f"job-{number}", every_ms=SECOND_MS, work_ms=(20,)) for number in range(5)
    )
    plan = InstancePlan(jobs=jobs, options=SHORT)
    ahead = stage.spawn("ahead", clock_offset_ms=WRONG_MS)
    right = stage.spawn("right")
    behind = stage.spawn("behind", clock_offset_ms=-WRONG_MS)
    for process in (ahead, behind, right):
        stage.start(process, plan=plan)
    first = (now_ms() // SECOND_MS + 1) * SECOND_MS
    last = first + 8 * SECOND_MS
    stage.until(
        lambda: (
            {mark.job for mark in stage.marks(what="end") if mark.slot > last}
            == {job.name for job in jobs}
        ),
        "every job to have gone on to a later slot",
    )

    assert [0, 0, 0] == stage.stop(ahead, right, behind)
    expected = [(job.name, slot) for job in jobs for slot in range(first, last + 1, SECOND_MS)]

    assert [] == list(check.not_run_once(check.bodies(stage.marks()), expected))
    assert [] == check.wrong(stage.marks())
    assert [] == stage.told("lost")


@pytest.mark.parametrize("offset_ms", [-WRONG_MS, WRONG_MS])
def test_wrong_clock_takes_over_on_time(stage: Stage, offset_ms: int) -> None:
    """
    A backup whose clock is ten minutes wrong takes over when the lease has run out, as any other would.
    """
    runner, backup = start_run(
        stage,
        "right",
        "wrong",
        job=JobPlan(name="report", work_ms=(60_000, 100)),
        clock_offsets_ms=(0, offset_ms),
    )
    killed_ns = runner.kill()
    stage.until(lambda: stage.marks(what="end"), "attempt 2 to end")
    second = stage.marks(what="start")[1]
    waited_ms = (second.at_ns - killed_ns) / MS

    assert [0] == stage.stop(backup)
    assert 3_000 - 1_000 - 500 < waited_ms <= 3_000 + 2 * 1_000
    assert [] == check.wrong(stage.marks(), stage.deaths)
    assert [Reason.LEASE_EXPIRED, None] == [record.reason for record in stage.records("report")]
