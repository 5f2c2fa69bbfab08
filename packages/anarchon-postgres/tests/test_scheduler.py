"""
The scheduler itself on a real server: what hints are for.
"""

from __future__ import annotations

import asyncio

import pytest

from anarchon import HandOver, RunContext, Scheduler
from anarchon.clock import SystemClock
from anarchon.records import Reason, Status
from anarchon_postgres import PostgresBackend

HEARTBEAT_S = 60

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def test_a_run_that_is_handed_over_starts_elsewhere_at_once(shared_dsn: str, schema: str) -> None:
    """
    The other instance starts the next attempt well before it would look by itself, at its heartbeat.
    """

    async def scenario() -> tuple[list[str], float, list[tuple[int, Status, Reason | None]]]:
        ran_by: list[str] = []
        changed = asyncio.Condition()
        loop = asyncio.get_running_loop()

        async def handler(ctx: RunContext) -> None:
            async with changed:
                ran_by.append(ctx.instance_id)
                changed.notify_all()
            if ctx.attempt == 1:
                await ctx.stopping.wait()
                raise HandOver

        async def begun(count: int) -> None:
            async with changed:
                await changed.wait_for(lambda: len(ran_by) >= count)

        backends = [PostgresBackend(shared_dsn, schema=schema) for _ in range(2)]
        at_ms = SystemClock().wall_ms() + 6_000
        schedulers = {}
        for number, backend in enumerate(backends):
            name = f"host:{number}"
            schedulers[name] = Scheduler(backend, instance_id=name, heartbeat=f"{HEARTBEAT_S}s")
            schedulers[name].once("job", at_ms, handler)
        await asyncio.gather(*(each.start() for each in schedulers.values()))
        await begun(1)
        first = schedulers.pop(ran_by[0])
        ((_, other),) = schedulers.items()
        hints = backends[1 - int(ran_by[0][-1])]._hints
        assert hints is not None
        # The one that lost watches the run from then on; nothing announces that it does.
        async with asyncio.timeout(60):
            while not hints._watchers:  # noqa: ASYNC110 - it looks into another object, which has no event for it
                await asyncio.sleep(0.01)
        stopped_s = loop.time()
        await first.stop()
        async with asyncio.timeout(2 * HEARTBEAT_S):
            await begun(2)
        took_s = loop.time() - stopped_s
        await other.stop()
        reader = backends[0].clone()
        await reader.open(timeout_ms=20_000)
        records = await reader.history("job", limit=9, timeout_ms=20_000)
        await reader.close()
        return ran_by, took_s, [(each.attempt, each.status, each.reason) for each in records]

    ran_by, took_s, records = asyncio.run(scenario())

    assert {"host:0", "host:1"} == set(ran_by)
    assert took_s < HEARTBEAT_S / 2, "without a hint it takes between one heartbeat and two"
    assert [
        (2, Status.SUCCESS, None),
        (1, Status.INTERRUPTED, Reason.HANDED_OVER),
    ] == records
