"""
The main path, and the virtual time that all other tests stand on.
"""

from __future__ import annotations

import asyncio

import pytest
from virtual import START_MS, StuckError, VirtualLoop, World

from anarchon import RunContext, Status


async def test_each_slot_runs_once_and_on_time(world: World) -> None:
    """
    Three instances race for each slot; one runs it, at its very instant.
    """
    nodes = [world.node() for _ in range(3)]
    for node in nodes:

        @node.scheduler.every("tick", "10s")
        async def tick(ctx: RunContext) -> None:
            world.note(ctx)

        await node.start()
    await world.pass_ms(65_000)

    assert [10, 20, 30, 40, 50, 60] == world.slots()
    assert [slot * 1_000 for slot in world.slots()] == [note.at_ms for note in world.notes]
    records = await world.history("tick")

    assert [Status.SUCCESS] * 6 == [record.status for record in records]
    assert [START_MS + 10_000 * number for number in range(1, 7)] == [r.slot for r in records]


async def test_plain_handler_runs_in_a_thread_while_time_stands(world: World) -> None:
    """
    A plain function may be waited for by a latch, over which the time goes on.
    """
    node, latch = world.node(), world.latch()

    @node.scheduler.every("tick", "10s")
    def tick(ctx: RunContext) -> None:
        latch.wait()
        world.note(ctx)

    await node.start()
    await node.hears("start")
    await world.pass_ms(15_000)

    assert [] == world.notes
    latch.open()
    await node.hears("finish")

    assert [25_000] == [note.at_ms for note in world.notes]


def test_a_loop_in_which_nothing_can_happen_says_so() -> None:
    """
    A test that waits for ever fails at once.
    """
    loop = VirtualLoop()
    waiting = loop.create_task(asyncio.Event().wait())
    with pytest.raises(StuckError):
        loop.run_until_complete(waiting)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        loop.run_until_complete(waiting)
    loop.close()


def test_a_year_passes_in_no_time() -> None:
    """
    Time jumps to the next timer, and every timer comes at its instant.
    """
    loop = VirtualLoop()
    loop.run_until_complete(asyncio.sleep(365 * 86_400))

    assert 365 * 86_400 == loop.time()
    loop.close()
