"""
A scheduler on this backend: what it refuses, what it runs, and what stop() writes down.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from anarchon import RunContext, Scheduler
from anarchon.errors import UnsupportedByBackendError
from anarchon.records import Reason, Status
from anarchon.scheduler import ending
from anarchon_rabbitmq import RabbitMQBackend


@pytest.mark.parametrize(
    "options", [{"catch_up": "all"}, {"catch_up": "latest"}, {"takeover": True}, {"max_crashes": 5}]
)
def test_options_of_leases_are_refused(options: dict[str, Any]) -> None:
    """
    What needs leases is refused where the job is defined; the message names a backend that has them.
    """
    scheduler = Scheduler(RabbitMQBackend())

    with pytest.raises(UnsupportedByBackendError, match=next(iter(options))) as caught:
        scheduler.every("job", "1s", **options)(lambda: None)

    assert "RabbitMQ" in str(caught.value)
    assert "Backend)" in str(caught.value)


@pytest.mark.slow
def test_each_slot_runs_once_and_stop_interrupts(
    url: str, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Two instances share the slots; a run in progress at stop() is over, and recorded as interrupted.
    """
    # On a machine that is busy a broker may take longer than the half of a second that stop() has to write this down.
    monkeypatch.setattr(ending, "_GRACE_S", 60)

    async def scenario() -> None:
        slots: list[int] = []
        enough = asyncio.Event()
        begun = asyncio.Event()

        async def tick(ctx: RunContext) -> None:
            slots.append(ctx.slot)
            if len(slots) >= 6:
                enough.set()

        async def long(ctx: RunContext) -> None:
            begun.set()
            await asyncio.Event().wait()

        instances = [
            Scheduler(RabbitMQBackend(url, prefix=prefix), stop_timeout="1s") for _ in range(2)
        ]
        for instance in instances:
            instance.every("tick", "500ms", jitter=0)(tick)
            instance.every("long", "1s", jitter=0)(long)
            await instance.start()
        await asyncio.wait_for(asyncio.gather(enough.wait(), begun.wait()), 60)
        for instance in instances:
            await instance.stop()
        reader = RabbitMQBackend(url, prefix=prefix)
        await reader.open(timeout_ms=30_000)
        ticks = await reader.history("tick", limit=100, timeout_ms=30_000)
        longs = await reader.history("long", limit=100, timeout_ms=30_000)
        await reader.close()

        assert sorted(set(slots)) == sorted(slots)
        assert set(slots) <= {record.slot for record in ticks}
        assert (Status.INTERRUPTED, Reason.STOPPED) in {
            (record.status, record.reason) for record in longs
        }

    asyncio.run(scenario())
