"""
What schedulers tell is counted, each thing once, under the names that the docs give.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from virtual import START_MS, World, answer_late, fail

from anarchon import Reason, RunContext, Scheduler, Status, StoreUnavailableError
from anarchon.events import (
    BlockEvent,
    ClockEvent,
    ErrorEvent,
    Event,
    FinishEvent,
    LostEvent,
    MissEvent,
    OutageEvent,
    RecoveredEvent,
    ScheduleEvent,
    SchedulerStartedEvent,
    SchedulerStoppedEvent,
    SkipEvent,
    StartEvent,
)
from anarchon.metrics import PrometheusMetrics

WHERE: dict[str, Any] = {"instance": "me", "job": "job", "slot": START_MS, "attempt": 1}
OUTAGE = OutageEvent(instance="me", error=StoreUnavailableError("gone"))
RECOVERED = RecoveredEvent(instance="me", duration_ms=2_000)


@pytest.fixture
def registry() -> CollectorRegistry:
    """
    A registry of the test's own.
    """
    return CollectorRegistry()


def scheduler() -> Scheduler:
    """
    Make a scheduler that is never started: a test tells its events.
    """
    return Scheduler("memory:")


def tell(told: Scheduler, *events: Event) -> None:
    """
    Tell events as a scheduler does.
    """
    for event in events:
        told._tell(event)


async def test_life_of_a_run_is_counted(world: World, registry: CollectorRegistry) -> None:
    """
    A success counts with its lateness, its claim's latency, its duration and its time.
    """
    node = world.node()
    PrometheusMetrics(node.scheduler, registry=registry, clock=node.clock)

    @node.scheduler.every("job", "1h", offset="10s")
    async def job(ctx: RunContext) -> None:
        assert 1 == registry.get_sample_value("anarchon_runs_in_progress", {"job": "job"})
        await world.pass_ms(1_250)

    await node.start()
    node.faults.always("claim", answer_late(0.03))
    await node.hears("finish")
    names = {"job": "job"}
    success = {"job": "job", "outcome": "success"}

    assert 1 == registry.get_sample_value("anarchon_runs_total", {**success, "reason": ""})
    assert 1 == registry.get_sample_value("anarchon_claim_latency_seconds_count", names)
    assert 0.03 == registry.get_sample_value("anarchon_claim_latency_seconds_sum", names)
    assert 0.03 == registry.get_sample_value("anarchon_start_lateness_seconds_sum", names)
    assert 1.25 == registry.get_sample_value("anarchon_run_duration_seconds_sum", success)
    assert 0 == registry.get_sample_value("anarchon_runs_in_progress", names)
    assert (START_MS + 11_280) / 1_000 == registry.get_sample_value(
        "anarchon_last_success_timestamp_seconds", names
    )
    assert (START_MS + 10_000 + 3_600_000) / 1_000 == registry.get_sample_value(
        "anarchon_next_slot_timestamp_seconds", names
    )


async def test_failure_is_counted_from_zero(world: World, registry: CollectorRegistry) -> None:
    """
    The series of failures is there from the start, so that the first one is a rise.
    """
    node = world.node()
    PrometheusMetrics(node.scheduler, registry=registry, clock=node.clock)

    @node.scheduler.every("job", "1h", offset="10s")
    async def job(ctx: RunContext) -> None:
        raise ValueError

    await node.start()
    failed = {"job": "job", "outcome": "failed", "reason": "error"}

    assert 0 == registry.get_sample_value("anarchon_runs_total", failed)
    assert 1 == registry.get_sample_value("anarchon_store_up")
    await node.hears("finish")

    assert 1 == registry.get_sample_value("anarchon_runs_total", failed)
    assert None is registry.get_sample_value(
        "anarchon_last_success_timestamp_seconds", {"job": "job"}
    )


async def test_hand_over_and_takeover_are_counted(
    world: World, registry: CollectorRegistry
) -> None:
    """
    The instance that hands over counts an interrupted run, the one that goes on a takeover.
    """
    nodes = [world.node(stop_timeout="1s") for _ in range(2)]
    metrics = PrometheusMetrics(registry=registry, clock=nodes[0].clock)
    for node in nodes:
        metrics.watch(node.scheduler)

        @node.scheduler.every("job", "1h", offset="10s")
        async def job(ctx: RunContext) -> None:
            await world.pass_ms(600_000 if ctx.attempt == 1 else 1_000)

        await node.start()
    await world.until(lambda: any(node.told("start") for node in nodes))
    first = next(node for node in nodes if node.told("start"))
    await first.stop()
    (other,) = [node for node in nodes if node is not first]
    await other.hears("finish")
    interrupted = {"job": "job", "outcome": "interrupted", "reason": "handed_over"}

    assert 1 == registry.get_sample_value("anarchon_runs_total", interrupted)
    assert 1 == registry.get_sample_value("anarchon_takeovers_total", {"job": "job"})
    assert 0 == registry.get_sample_value("anarchon_runs_in_progress", {"job": "job"})


async def test_outage_is_seen_until_it_ends(world: World, registry: CollectorRegistry) -> None:
    """
    The store is down from the first call that failed to the next one that was answered.
    """
    node = world.node()
    PrometheusMetrics(node.scheduler, registry=registry, clock=node.clock)

    @node.scheduler.every("job", "1h", offset="10s")
    async def job(ctx: RunContext) -> None: ...

    await node.start()
    node.faults.next("claim", fail(StoreUnavailableError("gone")))
    await node.hears("outage")

    assert 0 == registry.get_sample_value("anarchon_store_up")
    assert 1 == registry.get_sample_value("anarchon_store_outages_total")
    await node.hears("recovered")

    assert 1 == registry.get_sample_value("anarchon_store_up")


@pytest.mark.parametrize(
    ("event", "sample", "labels", "value"),
    [
        (
            FinishEvent(
                **WHERE, status=Status.FAILED, reason=Reason.TIMEOUT, error=None, duration_ms=500
            ),
            "anarchon_runs_total",
            {"job": "job", "outcome": "failed", "reason": "timeout"},
            1,
        ),
        (
            LostEvent(**WHERE, reason="token"),
            "anarchon_lost_runs_total",
            {"job": "job", "reason": "token"},
            1,
        ),
        (
            SkipEvent(instance="me", job="job", slot=START_MS, reason="overlap"),
            "anarchon_skips_total",
            {"job": "job", "reason": "overlap"},
            1,
        ),
        (
            MissEvent(
                instance="me",
                job="job",
                reason="unclaimed",
                first_slot=1,
                last_slot=9,
                count=7,
            ),
            "anarchon_missed_slots_total",
            {"job": "job", "reason": "unclaimed"},
            7,
        ),
        (
            BlockEvent(instance="me", job=None, duration_ms=1_500),
            "anarchon_loop_blocked_seconds_total",
            {"job": ""},
            1.5,
        ),
        (
            ClockEvent(instance="me", which="store", step_ms=-4_000),
            "anarchon_clock_steps_total",
            {"which": "store"},
            1,
        ),
        (
            ScheduleEvent(instance="me", job="job", reason="zone_rules"),
            "anarchon_schedule_differences_total",
            {"job": "job", "reason": "zone_rules"},
            1,
        ),
        (
            ErrorEvent(instance="me", message="oh"),
            "anarchon_errors_total",
            {"job": ""},
            1,
        ),
    ],
    ids=lambda value: value.type if isinstance(value, Event) else "",
)
def test_event_has_its_series(
    registry: CollectorRegistry, event: Event, sample: str, labels: dict[str, str], value: float
) -> None:
    """
    Each kind of event counts in a series of its own.
    """
    told = scheduler()
    PrometheusMetrics(told, registry=registry)
    tell(told, event)

    assert value == registry.get_sample_value(sample, labels)


def test_lost_run_is_no_longer_in_progress(registry: CollectorRegistry) -> None:
    """
    A run that was lost is not this instance's, also if its thread goes on; stop() ends all counts.
    """
    told = scheduler()
    PrometheusMetrics(told, registry=registry)
    other = {**WHERE, "slot": START_MS + 1}
    tell(told, StartEvent(**WHERE, late_ms=0), StartEvent(**other, late_ms=0))
    tell(told, LostEvent(**WHERE, reason="lease"))

    assert 1 == registry.get_sample_value("anarchon_runs_in_progress", {"job": "job"})
    tell(told, SchedulerStoppedEvent(instance="me", unfinished=1))

    assert 0 == registry.get_sample_value("anarchon_runs_in_progress", {"job": "job"})


def test_schedulers_of_one_process_are_kept_apart(registry: CollectorRegistry) -> None:
    """
    They may share an instance id: the store is up when every scheduler's is, and runs add up.
    """
    first, second = scheduler(), scheduler()
    PrometheusMetrics(first, second, registry=registry)
    tell(first, OUTAGE, StartEvent(**WHERE, late_ms=0))
    tell(second, OUTAGE, StartEvent(**WHERE, late_ms=0))
    tell(first, RECOVERED)

    assert 0 == registry.get_sample_value("anarchon_store_up")
    assert 2 == registry.get_sample_value("anarchon_runs_in_progress", {"job": "job"})
    tell(second, RECOVERED)

    assert 1 == registry.get_sample_value("anarchon_store_up")


def test_store_is_not_called_down_before_a_scheduler_has_started(
    registry: CollectorRegistry,
) -> None:
    """
    A process that makes the metrics and starts nothing, a preloading server say, has no word on the store.
    """
    told = scheduler()
    PrometheusMetrics(told, registry=registry)

    assert None is registry.get_sample_value("anarchon_store_up")
    tell(told, SchedulerStartedEvent(instance="me", jobs=(), service="memory"))

    assert 1 == registry.get_sample_value("anarchon_store_up")
    tell(told, OUTAGE, SchedulerStoppedEvent(instance="me"))

    assert 1 == registry.get_sample_value("anarchon_store_up")


def test_next_slot_survives_a_broken_schedule(registry: CollectorRegistry) -> None:
    """
    A schedule of the user's own that raises, or has no slot to come, leaves the others to be seen.
    """

    class Broken:
        asked = False

        def next_slot(self, after_ms: int) -> int | None:
            if Broken.asked:
                raise RuntimeError
            return None

        def last_slot(self, at_ms: int) -> int | None:
            return None

    told = scheduler()
    other = scheduler()
    for one in (told, other):
        one.job("over", Broken())(lambda: None)
        one.every("fine", "1h")(lambda: None)
    PrometheusMetrics(told, other, registry=registry)
    Broken.asked = True
    page = generate_latest(registry).decode()

    assert 1 == page.count('anarchon_next_slot_timestamp_seconds{job="fine"}')
    assert 'job="over"' not in page
    Broken.asked = False

    assert 'job="over"' not in generate_latest(registry).decode()


def test_core_needs_no_client() -> None:
    """
    Without the extras nothing of them is imported.
    """
    code = (
        "import anarchon, sys; assert not {'prometheus_client', 'opentelemetry'} & set(sys.modules)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )

    assert (0, "") == (result.returncode, result.stderr)


def test_files_of_several_processes_add_up(tmp_path: Path) -> None:
    """
    Behind one page for several processes the series are there, but for the one that only a scrape can ask.
    """
    code = """
import sys
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
from anarchon import Scheduler, Status
from anarchon.events import FinishEvent, OutageEvent, SchedulerStartedEvent
from anarchon.metrics import PrometheusMetrics

scheduler = Scheduler("memory:")
scheduler.every("job", "1h")(lambda: None)
PrometheusMetrics(scheduler)
scheduler._tell(SchedulerStartedEvent(instance="me", jobs=("job",), service="x"))
for _ in range(2):
    scheduler._tell(
        FinishEvent(instance="me", job="job", slot=1, attempt=1, status=Status.SUCCESS, duration_ms=1)
    )
registry = CollectorRegistry()
MultiProcessCollector(registry)
sys.stdout.write(generate_latest(registry).decode())
"""
    environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    result = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False
    )
    lines = result.stdout.splitlines()

    assert 'anarchon_runs_total{job="job",outcome="success",reason=""} 2.0' in lines, result.stderr
    assert "anarchon_store_up 1.0" in lines
    assert any(
        line.startswith('anarchon_last_success_timestamp_seconds{job="job"}') for line in lines
    )
    assert "anarchon_next_slot" not in result.stdout
