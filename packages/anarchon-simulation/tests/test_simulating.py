"""
simulate(): a user's own jobs on virtual time.
"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from anarchon import InvalidOptionError, Jobs, RunContext, Scheduler
from anarchon_simulation import (
    InstancePlan,
    Report,
    crash,
    cut,
    freeze,
    outage,
    simulate,
    step_clock,
    stop,
    suspend,
)

START = datetime(2026, 1, 1, tzinfo=UTC)
BERLIN = ZoneInfo("Europe/Berlin")


def slow_jobs() -> Jobs:
    """
    Collect one job of two minutes an hour.
    """
    jobs = Jobs()

    @jobs.every("slow", "1h", jitter=0)
    async def slow(ctx: RunContext) -> None:
        for _ in range(12):
            await asyncio.sleep(10)  # On virtual time: nothing waits.

    return jobs


def runner_at(report: Report, slot: int) -> str:
    """
    Name the instance that claimed the first attempt of a slot.
    """
    return next(record.instance_id for record in report.records if record.slot == slot)


def test_crash_is_taken_over() -> None:
    """
    The runner's power is cut in mid-handler: the other instance ends the run, and the history has both attempts.
    """
    first = simulate(slow_jobs(), start=START, until="90m")
    runner = first.attempts("slow")[0].instance_id

    report = simulate(slow_jobs(), start=START, until="90m", incidents=[crash(runner, at="60m30s")])

    assert [(1, "interrupted"), (2, "success")] == [
        (record.attempt, record.status) for record in report.attempts("slow")
    ]
    assert {"a", "b"} == {record.instance_id for record in report.attempts("slow")}
    assert 1 == len(report.events("takeover"))


def test_stop_hands_over() -> None:
    """
    A deploy in mid-handler hands the run over, and the stopped instance comes back.
    """
    runner = simulate(slow_jobs(), start=START, until="90m").attempts("slow")[0].instance_id

    report = simulate(
        slow_jobs(),
        start=START,
        until="150m",
        hints=True,
        incidents=[stop(runner, at="60m30s", restart="1m")],
        stop_timeout=5,
    )

    assert ["handed_over", None] == [record.reason for record in report.attempts("slow")[:2]]
    assert 3 == len(report.events("scheduler_started"))


def test_clock_change_in_march() -> None:
    """
    A job at 02:30 in Berlin runs at 03:00 on the day that has no 02:30.
    """
    scheduler = Scheduler("memory:")

    @scheduler.cron("report", "30 2 * * *", timezone="Europe/Berlin", jitter=0)
    async def report(ctx: RunContext) -> None:
        return

    result = simulate(
        scheduler,
        start=datetime(2026, 3, 28, 1, tzinfo=BERLIN),
        until=datetime(2026, 3, 30, 4, tzinfo=BERLIN),
    )

    assert ["28 02:30", "29 03:00", "30 02:30"] == [
        f"{record.claimed_at.astimezone(BERLIN):%d %H:%M}" for record in result.ran("report")
    ]


def test_plain_function_takes_virtual_time() -> None:
    """
    time.sleep in a plain function takes virtual time, and the history shows it.
    """
    jobs = Jobs()

    @jobs.every("plain", "1h", jitter=0)
    def plain() -> None:
        time.sleep(600)  # On virtual time: nothing waits.

    report = simulate(jobs, start=START, until="80m")
    (record,) = report.ran("plain")

    assert record.finished_at is not None
    assert record.started_at is not None
    assert 600 == pytest.approx((record.finished_at - record.started_at).total_seconds(), abs=1)


def test_overlap_is_skipped_and_told() -> None:
    """
    A handler that takes longer than the gap makes the next slot a skipped one.
    """
    jobs = Jobs()

    @jobs.every("long", "1m", jitter=0)
    async def long() -> None:
        await asyncio.sleep(90)  # On virtual time: nothing waits.

    report = simulate(jobs, start=START, until="5m")

    assert report.skipped("long")
    assert not report.missed("long")


def test_outage_misses_slots_and_says_so() -> None:
    """
    What came due while the store was away is told as one range; the latest is caught up.
    """
    jobs = Jobs()

    @jobs.every("often", "1m", jitter=0)
    async def often() -> None:
        return

    report = simulate(
        jobs, start=START, until="30m", incidents=[outage(at="5m30s", duration="10m")]
    )
    missed = report.missed("often")

    assert 1 == len(missed)
    assert 9 >= missed[0].count >= 8
    assert [] == [told for told in report.told if told.event.type == "error"]


@pytest.mark.parametrize(
    "incident",
    [
        freeze("a", at="10m", duration="5m"),
        suspend("a", at="10m", duration="5m"),
        cut("a", at="10m", duration="5m"),
        step_clock("a", at="10m", by="20m", back=True),
        step_clock("a", at="10m", by="20m"),
    ],
    ids=["freeze", "suspend", "cut", "back", "forward"],
)
def test_one_bad_instance_loses_nothing(incident: Any) -> None:
    """
    Whatever happens to one instance, the other runs each slot once.
    """
    jobs = Jobs()

    @jobs.every("often", "1m", jitter=0)
    async def often() -> None:
        return

    report = simulate(jobs, start=START, until="40m", incidents=[incident])

    assert 39 <= len(report.ran("often")) <= 40
    assert len(report.ran("often")) == len({record.slot for record in report.ran("often")})
    assert not report.missed()


def test_factory_makes_the_schedulers() -> None:
    """
    A function may make each instance's scheduler: what is wrong with one of them can differ.
    """
    made: list[str] = []

    def make(backend: Any, *, instance_id: str, runtime: Any, **options: Any) -> Scheduler:
        made.append(instance_id)
        scheduler = Scheduler(backend, instance_id=instance_id, runtime=runtime, **options)
        scheduler.every("job", "10m", lambda: None)
        return scheduler

    report = simulate(make, start=START, until="1h", instances=["left", "right"], heartbeat="1s")

    assert {"left", "right"} == set(made)
    assert report.ran("job")


def test_scheduler_is_left_alone() -> None:
    """
    A scheduler that was simulated can be started afterwards, and keeps its options in the simulation.
    """
    states: list[Any] = []
    scheduler = Scheduler("memory:", state="mine")

    @scheduler.every("job", "10m")
    async def job(ctx: RunContext) -> None:
        states.append(ctx.state)

    simulate(scheduler, start=START, until="25m", instances=1)

    async def live() -> None:
        async with scheduler:
            return

    asyncio.run(live())

    assert ["mine", "mine"] == states


def test_another_heartbeat_takes_its_own_lease() -> None:
    """
    A heartbeat that replaces the scheduler's comes with a lease that fits; one that does not is an error at once.
    """
    scheduler = Scheduler("memory:")
    scheduler.cron("report", "0 * * * *", lambda: None)
    start = datetime(2026, 1, 1, tzinfo=UTC)

    result = simulate(
        scheduler, start=start, until="5h", heartbeat="30m", incidents=[stop("a", at="1h")]
    )

    assert 4 == len(result.ran("report"))
    with pytest.raises(InvalidOptionError, match="shorter than three heartbeats"):
        simulate(scheduler, start=start, until="5h", heartbeat="30m", lease="1m")


def test_claims_alone() -> None:
    """
    Without leases each slot runs at most once, and nothing is taken over.
    """
    jobs = Jobs()

    @jobs.every("job", "10m")
    async def job() -> None:
        return

    report = simulate(jobs, start=START, until="65m", leases=False)

    assert 6 == len(report.ran("job"))
    assert [] == report.events("takeover")


def test_same_seed_same_report() -> None:
    """
    The seed decides everything.
    """
    digests = [
        simulate(slow_jobs(), start=START, until="3h", seed=seed).digest for seed in (1, 1, 2)
    ]

    assert digests[0] == digests[1]
    assert digests[0] != digests[2]


def test_wrong_clock_from_the_start() -> None:
    """
    An instance whose clock is ten minutes fast runs nothing early.
    """
    jobs = Jobs()

    @jobs.every("job", "5m", jitter=0)
    async def job() -> None:
        return

    report = simulate(
        jobs, start=START, until="31m", instances=[InstancePlan(name="fast", offset_ms=600_000)]
    )

    assert 6 == len(report.ran("job"))
    assert all(
        record.claimed_at.timestamp() * 1_000 >= record.slot - 500 for record in report.ran("job")
    )


def test_timeline_has_instances_as_columns() -> None:
    """
    The picture shows dates, instances and what happened to them.
    """
    text = simulate(
        slow_jobs(), start=START, until="65m", incidents=[crash("a", at="2m")]
    ).timeline()

    assert " a " in text.splitlines()[0]
    assert "2026-01-01 00:02:00.000 | ** Crash" in text
    assert "claim slow" in text


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"start": datetime(2026, 1, 1), "until": "1h"}, "time zone"),  # noqa: DTZ001 - a naive one is refused
        ({"start": START, "until": START}, "must lie after start"),
        ({"start": START, "until": "1h", "instances": 0}, "1 to 26"),
        (
            {
                "start": START,
                "until": "1h",
                "incidents": [crash("a", at=datetime(2025, 1, 1, tzinfo=UTC))],
            },
            "before the start",
        ),
    ],
)
def test_bad_input_says_what_is_allowed(options: dict[str, Any], words: str) -> None:
    """
    A wrong time or number is an error in words.
    """
    with pytest.raises(InvalidOptionError, match=words):
        simulate(Jobs(), **options)
