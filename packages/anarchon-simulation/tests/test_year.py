"""
A year of fifty jobs in five zones, with instances that are replaced every day.
"""

from __future__ import annotations

import gc
import sys
from collections import defaultdict
from datetime import UTC, datetime

import pytest

from anarchon import Cron, Retention, RunContext, Scheduler
from anarchon.events import ClaimEvent, FinishEvent
from anarchon_simulation import Incident, crash, simulate, stop
from anarchon_simulation.cluster import Cluster

ZONES = (
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "Asia/Kathmandu",
)
DAYS = 365
START = datetime(2026, 1, 1, tzinfo=UTC)
DAY_MS = 86_400_000


def fifty_jobs() -> tuple[Scheduler, dict[str, Cron]]:
    """
    Make ten jobs a zone: daily at ten times of the day, the hours of clock changes among them.
    """
    scheduler = Scheduler("memory:", heartbeat="2h", jitter="1m")
    schedules = {}

    async def work(ctx: RunContext) -> None:
        return

    for zone in ZONES:
        for number in range(10):
            expression = f"{(number * 13) % 60} {(number * 5) % 24} * * *"
            name = f"{zone}/{number}"
            scheduler.cron(name, expression, work, timezone=zone)
            schedules[name] = Cron(expression, zone)
    return scheduler, schedules


def replacements() -> list[Incident]:
    """
    Replace both instances once a day, each at an hour of its own; once a month one has its power cut instead.
    """
    incidents = []
    for day in range(1, DAYS):
        replace = crash if day % 30 == 0 else stop
        incidents.append(replace("a", at=day * 86_400 + 3_000, restart="90s"))
        incidents.append(stop("b", at=day * 86_400 + 40_000, restart="90s"))
    return incidents


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_year_accounts_for_every_slot_in_flat_memory() -> None:
    """
    Each slot of the year is claimed and finished once, or told as missed; memory does not grow with time.
    """
    scheduler, schedules = fifty_jobs()
    blocks: list[int] = []

    def count_blocks() -> None:
        # Tasks and their exceptions are cycles: whether they are still there depends on when the collector ran last.
        gc.collect()
        blocks.append(sys.getallocatedblocks())

    def watch(cluster: Cluster) -> None:
        cluster.trace.entries.clear()
        for month in range(1, 13):
            cluster.kernel.at(month * 30 * DAY_MS * 1_000, count_blocks)

    result = simulate(
        scheduler,
        start=START,
        until=f"{DAYS}d",
        incidents=replacements(),
        retention=Retention(records_per_job=10),
        watch=watch,
    )
    finished: dict[str, set[int]] = defaultdict(set)
    claimed: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for told in result.told:
        if isinstance(told.event, FinishEvent):
            finished[told.event.job].add(told.event.slot)
        elif isinstance(told.event, ClaimEvent):
            claimed[told.event.job].append((told.event.slot, told.event.attempt))
    start_ms = int(START.timestamp() * 1_000)
    for name, schedule in schedules.items():
        slots = []
        slot = schedule.next_slot(start_ms)
        while slot is not None and slot < start_ms + DAYS * DAY_MS - 300_000:
            slots.append(slot)
            slot = schedule.next_slot(slot)

        assert len(claimed[name]) == len(set(claimed[name])), name
        assert set(slots) <= finished[name], name
    assert not result.missed()
    # The events are kept for this test: five a run; nothing else may grow.
    grown = (blocks[-1] - blocks[2]) / (len(blocks) - 3)
    told_a_month = len(result.told) / 12

    assert grown < told_a_month * 25, blocks
