"""
A backup's check has one token, which the store grants as often as it is asked: it must be sent once at a time.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from virtual import Served, World, answer_late

from anarchon import RunContext

SEEDS = 30


async def hint_late(served: Served) -> Any:
    """
    Look into the store only after a while, so that the timer's check comes while a hint is under way.
    """
    await asyncio.sleep(0.9)
    return await served()


@pytest.mark.parametrize("seed", range(SEEDS))
def test_hint_beside_a_waiting_check_starts_no_second_handler(seed: int) -> None:
    """
    A hint that comes while the timer's check still waits behind a slow call does not double it.

    Both would go out in one batch, with one token, and both would be answered `won`.
    """
    world = World(seed)

    async def story() -> None:
        nodes = [world.node(heartbeat=1, lease=3, stop_timeout=0) for _ in range(2)]
        for node in nodes:

            @node.scheduler.every("long", "1h", offset="10s", jitter=0)
            async def long(ctx: RunContext) -> None:
                world.note(ctx, "began")
                await world.pass_ms(3_600_000)

            @node.scheduler.every("busy", "1s", jitter=0)
            async def busy(ctx: RunContext) -> None:
                pass

        runner, backup = nodes
        await runner.start()
        await world.until(lambda: world.slots("began"))
        await backup.start()
        await world.pass_ms(3_000 + 100 * seed)
        backup.faults.always("claim", answer_late(0.9))
        backup.faults.always("next_hint", hint_late)
        await world.pass_ms(2_000)
        await runner.stop()
        await world.until(lambda: len(world.slots("began")) > 1)
        await world.pass_ms(3_000)

        assert [1, 2] == [note.attempt for note in world.notes if note.what == "began"]

    world.run(story())
