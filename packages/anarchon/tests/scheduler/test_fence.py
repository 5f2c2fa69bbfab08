"""
A runner that cannot renew ends its handler before its lease can have run out.
"""

from __future__ import annotations

import asyncio
import random

import pytest
from virtual import Node, World, hang

from anarchon import LeaseLostError, Reason, RunContext, Status

LEASE_MS = 3_000
MARGIN_MS = 300


def add_endless_job(world: World, node: Node) -> None:
    """
    Let a node run a job that steps every 50 ms until somebody ends it.
    """

    @node.scheduler.every("endless", "1h", offset="10s")
    async def endless(ctx: RunContext) -> None:
        with world.body(ctx):
            try:
                while True:
                    world.note(ctx, "step")
                    await asyncio.sleep(0.05)
            except asyncio.CancelledError:
                world.note(ctx, "cancelled")
                raise


async def test_cut_runner_is_fenced_before_its_lease_ends(world: World) -> None:
    """
    The fence falls at sent + lease less the margin, counted from when the last good renewal was sent.
    """
    node = world.node()
    add_endless_job(world, node)
    await node.start()
    await node.hears("start")
    await world.pass_ms(4_500)
    sent_ms = max(call.at_ms for call in node.faults.calls if call.method == "renew")
    node.faults.dead = True
    (lost,) = await node.hears("lost")

    assert "lease" == lost.reason
    assert [sent_ms + LEASE_MS - MARGIN_MS] == node.when("lost")
    await world.until(lambda: world.slots("cancelled"))

    assert sent_ms + LEASE_MS - MARGIN_MS == world.notes[-1].at_ms
    node.faults.dead = False


@pytest.mark.parametrize("seed", range(25))
def test_network_cuts_cost_no_overlap_of_async_bodies(seed: int) -> None:
    """
    Instances are cut off and come back at random; two bodies of a job are never in their steps together.
    """
    world = World(seed)
    chance = random.Random(seed)

    async def story() -> None:
        nodes = [world.node() for _ in range(3)]
        for node in nodes:
            add_endless_job(world, node)
            await node.start()
        for _ in range(12):
            victim = chance.choice(nodes)
            await world.pass_ms(chance.randrange(100, 6_000))
            victim.faults.dead = not victim.faults.dead
        for node in nodes:
            node.faults.dead = False

        assert 1 == world.bodies_max["endless"]
        attempts = [note.attempt for note in world.notes if note.what == "step"]

        assert sorted(attempts) == attempts

    world.run(story())


async def test_renewal_that_timed_out_is_unknown_not_lost(world: World) -> None:
    """
    One missed renewal drops the connection and is tried again at once; the run goes on.
    """
    node = world.node()
    add_endless_job(world, node)
    await node.start()
    await node.hears("start")
    node.faults.next("renew", hang)
    before = node.faults.connections
    await world.pass_ms(10_000)

    assert [] == node.told("lost")
    assert before + 1 == node.faults.connections
    assert [] == world.slots("cancelled")


async def test_dead_renewal_connection_is_replaced_while_the_store_is_fine(world: World) -> None:
    """
    When the renewals' own connection is a black hole, their calls go over the handlers' until there is a new one.
    """
    node = world.node()
    add_endless_job(world, node)
    await node.start()
    await node.hears("start")
    node.faults.down_connections = {1, 2, 3}
    await world.pass_ms(15_000)

    assert [] == node.told("lost")
    assert {0, 4} <= {call.connection for call in node.faults.calls if call.method == "renew"}


async def test_fenced_run_is_released_and_goes_on_elsewhere_or_here(world: World) -> None:
    """
    After the cut has healed the lost run is handed over, and started again as attempt 2.
    """
    node = world.node()
    add_endless_job(world, node)
    await node.start()
    await node.hears("start")
    node.faults.dead = True
    await node.hears("lost")
    node.faults.dead = False
    (handed,) = await node.hears("handover")

    assert 1 == handed.attempt
    (taken,) = await node.hears("takeover")

    assert 2 == taken.attempt
    first, _ = await world.history("endless")

    assert (Status.INTERRUPTED, Reason.HANDED_OVER) == (first.status, first.reason)


async def test_finish_of_a_fenced_attempt_changes_nothing(world: World) -> None:
    """
    Once attempt 2 is granted, nothing that attempt 1 sends changes the run.
    """
    nodes = [world.node() for _ in range(2)]
    for node in nodes:
        add_endless_job(world, node)
        await node.start()
    await world.until(lambda: any(node.told("start") for node in nodes))
    runner, other = sorted(nodes, key=lambda node: not node.told("start"))
    runner.faults.dead = True
    await other.hears("takeover")
    state = world.store.states["endless"]
    runner.faults.dead = False
    await world.pass_ms(10_000)
    live = world.store.states["endless"].live

    assert live is not None
    assert state.live is not None
    assert state.live.token == live.token
    assert [1] == [event.attempt for event in runner.told("lost")]
    assert [] == runner.told("finish")


async def test_context_of_a_lost_run_says_so(world: World) -> None:
    """
    ctx.lost is raised and ctx.check() raises, for whoever looks in a thread or in a loop.
    """
    node, latch = world.node(), world.latch()
    outcome: list[BaseException | bool] = []

    @node.scheduler.every("plain", "1h", offset="10s")
    def plain(ctx: RunContext) -> None:
        ctx.check()
        latch.wait()
        outcome.append(ctx.lost.wait_blocking(5))
        try:
            ctx.check()
        except LeaseLostError as error:
            outcome.append(error)

    await node.start()
    (began,) = await node.hears("start")
    node.faults.dead = True
    await node.hears("lost")
    latch.open()
    await world.until(lambda: len(outcome) == 2)
    node.faults.dead = False

    assert True is outcome[0]
    assert (
        f"job 'plain': the run of slot {began.slot}, attempt 1, is no longer this instance's"
        == str(outcome[1])
    )


async def test_plain_handler_that_was_only_late_still_finishes(world: World) -> None:
    """
    Its lease ran out while it was cut off, but nobody has taken the run: its result counts.
    """
    node, latch = world.node(), world.latch()

    @node.scheduler.every("plain", "1h", offset="10s")
    def plain() -> None:
        latch.wait()

    await node.start()
    await node.hears("start")
    node.faults.dead = True
    await node.hears("lost")
    await world.pass_ms(2_000)
    node.faults.dead = False
    latch.open()
    (finish,) = await node.hears("finish")

    assert Status.SUCCESS == finish.status


async def test_instance_claims_no_slot_of_a_job_whose_lost_thread_still_works(
    world: World,
) -> None:
    """
    A thread cannot be cancelled: until it has ended the other instances run the job.
    """
    nodes, latch = [world.node() for _ in range(2)], world.latch()
    for node in nodes:

        @node.scheduler.every("plain", "20s")
        def plain(ctx: RunContext) -> None:
            world.note(ctx)
            if ctx.slot % 40_000 and ctx.attempt == 1 and len(world.notes) == 1:
                latch.wait()

        await node.start()
    await world.until(lambda: world.notes)
    (first,) = world.notes
    runner, other = sorted(nodes, key=lambda node: node.name != first.node)
    runner.faults.dead = True
    await other.hears("takeover")
    runner.faults.dead = False
    await world.pass_ms(60_000)

    assert {other.name} == {note.node for note in world.notes[1:]}
    latch.open()
    await world.until(lambda: not runner.scheduler._engine._executor.runs)  # type: ignore[union-attr]  # it runs
    await other.stop()
    await runner.hears("finish", within_ms=30_000)

    assert [] == runner.told("error")
