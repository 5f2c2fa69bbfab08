"""
Two slots of one job are never both live, and the skipped one is told once.
"""

from __future__ import annotations

import pytest
from virtual import START_MS, World

from anarchon import Reason, RunContext, Status


async def test_slot_that_overlaps_is_skipped_once(world: World) -> None:
    """
    The store decides inside the claim; one record, and each instance hears why.
    """
    nodes = [world.node() for _ in range(3)]
    for node in nodes:

        @node.scheduler.every("slow", "10s")
        async def slow(ctx: RunContext) -> None:
            with world.body(ctx):
                world.note(ctx)
                await world.pass_ms(25_000)

        await node.start()
    await world.pass_ms(39_000)

    assert [10] == world.slots()[:1]
    assert 1 == world.bodies_max["slow"]
    records = await world.history("slow")

    assert [
        (10, Status.SUCCESS, None),
        (20, Status.SKIPPED, Reason.OVERLAP),
        (30, Status.SKIPPED, Reason.OVERLAP),
    ] == [((record.slot - START_MS) // 1_000, record.status, record.reason) for record in records]
    overlaps = [e for node in nodes for e in node.told("skip") if e.reason == "overlap"]

    assert 2 <= len(overlaps)
    assert {START_MS + 20_000, START_MS + 30_000} == {event.slot for event in overlaps}
    assert [] == [event for node in nodes for event in node.told("miss")]


async def test_slots_missed_before_a_skipped_one_are_told_by_who_recorded_it(
    world: World,
) -> None:
    """
    The holder of a recorded overlap reports the range before it, and nobody else does.
    """
    node = world.node()

    @node.scheduler.every("slow", "10s")
    async def slow(ctx: RunContext) -> None:
        world.note(ctx)
        await world.pass_ms(3_600_000)

    await node.start()
    await world.until(lambda: world.notes)
    node.faults.always("claim", lambda _: world.pass_ms(3_600_000))
    await world.pass_ms(30_500)
    node.faults.always("claim", None)
    await node.hears("miss", within_ms=20_000)
    (miss,) = node.told("miss")

    assert START_MS + 20_000 == miss.first_slot


async def test_dead_run_that_is_in_the_way_is_superseded(world: World) -> None:
    """
    Its lease has run out when the next slot comes: that one wins and closes it.
    """
    first, second = world.node(), world.node(heartbeat=100)
    for node in (first, second):

        @node.scheduler.every("job", "5s")
        async def job(ctx: RunContext) -> None:
            world.note(ctx)
            if len(world.notes) == 1:
                await world.pass_ms(3_600_000)

    await first.start()
    await first.hears("start")
    await first.crash()
    await second.start()
    await world.pass_ms(202_000)
    records = await world.history("job")

    assert (Status.INTERRUPTED, Reason.SUPERSEDED) == (records[0].status, records[0].reason)
    assert {1} == {record.attempt for record in records}
    assert {Status.SUCCESS} == {record.status for record in records[1:]}
    assert [] == second.told("takeover")


@pytest.mark.parametrize("seed", range(6))
def test_finished_slot_is_never_run_again_by_a_slower_instance(seed: int) -> None:
    """
    A job of no length ends before the others look: they hear that it is done.
    """
    world = World(seed)

    async def story() -> None:
        nodes = [world.node(jitter="2s") for _ in range(8)]
        for node in nodes:

            @node.scheduler.every("quick", "10s")
            async def quick(ctx: RunContext) -> None:
                world.note(ctx)

            await node.start()
        await world.pass_ms(65_000)

        assert [10, 20, 30, 40, 50, 60] == world.slots()
        skips = [event for node in nodes for event in node.told("skip")]

        assert {"done"} == {event.reason for event in skips}
        assert 6 * 7 == len(skips)
        assert [] == [event for node in nodes for event in node.told("takeover")]

    world.run(story())
