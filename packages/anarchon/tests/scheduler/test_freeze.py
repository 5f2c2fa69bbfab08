"""
The process, or its machine, stands still: time passes in which nothing of it runs.
"""

from __future__ import annotations

import asyncio

from virtual import Node, World, hang, steal

from anarchon import RunContext, Status


def add_stepping_job(world: World, node: Node) -> None:
    """
    Let a node run a job that steps every 100 ms for ten seconds.
    """

    @node.scheduler.every("steps", "1h", offset="10s")
    async def steps(ctx: RunContext) -> None:
        try:
            for _ in range(100):
                await asyncio.sleep(0.1)
                world.note(ctx, "step")
        finally:
            world.note(ctx, "finally")


async def test_frozen_handler_goes_on_after_one_renewal_when_nobody_took_over(
    world: World,
) -> None:
    """
    The fence is found late, so the handler is held, not cancelled, until the store has confirmed the run.
    """
    node = world.node()
    add_stepping_job(world, node)
    await node.start()
    await world.until(lambda: len(world.slots("step")) == 20)
    renewals = node.faults.count("renew")
    world.loop.jump(10)
    (finish,) = await node.hears("finish")

    assert Status.SUCCESS == finish.status
    assert 100 == len(world.slots("step"))
    assert [] == node.told("lost")
    assert renewals < node.faults.count("renew")
    (record,) = await world.history("steps")

    assert 1 == record.attempt


async def test_thawed_handler_takes_no_step_when_its_run_was_taken_over(world: World) -> None:
    """
    After the freeze not one step of the body runs; `finally` does, and the finish changes nothing.
    """
    node = world.node()
    add_stepping_job(world, node)
    await node.start()
    await world.until(lambda: len(world.slots("step")) == 20)
    world.loop.jump(10)
    steal(world.store, "steps")
    (lost,) = await node.hears("lost")
    await world.until(lambda: world.slots("finally"))
    await world.pass_ms(20_000)

    assert "token" == lost.reason
    assert 20 == len(world.slots("step"))
    assert 1 == len(world.slots("finally"))
    live = world.store.states["steps"].live

    assert live is not None
    assert "thief" == live.token
    assert [] == node.told("finish") + node.told("handover")


async def test_thawed_handler_is_cut_when_the_store_gives_no_answer(world: World) -> None:
    """
    No answer in time ends the hold: the handler is cancelled where it stands.
    """
    node = world.node()
    add_stepping_job(world, node)
    await node.start()
    await world.until(lambda: len(world.slots("step")) == 20)
    node.faults.dead = True
    world.loop.jump(10)
    (lost,) = await node.hears("lost")
    await world.until(lambda: world.slots("finally"))
    node.faults.dead = False

    assert "lease" == lost.reason
    assert 20 == len(world.slots("step"))


async def test_freeze_that_is_shorter_than_the_fence_is_not_noticed(world: World) -> None:
    """
    A lease that still holds costs no question.
    """
    node = world.node()
    add_stepping_job(world, node)
    await node.start()
    await world.until(lambda: len(world.slots("step")) == 20)
    world.loop.jump(1.5)
    (finish,) = await node.hears("finish")

    assert Status.SUCCESS == finish.status
    assert [] == node.told("lost")


async def test_suspend_that_the_loop_does_not_count_is_seen_on_the_suspend_clock(
    world: World,
) -> None:
    """
    The machine slept: the loop's timers know nothing of it, the lease does.
    """
    node = world.node()
    add_stepping_job(world, node)
    await node.start()
    await world.until(lambda: len(world.slots("step")) == 20)
    node.clock.oversleep(60_000)
    world.store_clock.oversleep(60_000)
    steal(world.store, "steps")
    await node.hears("lost")
    await world.until(lambda: world.slots("finally"))

    assert 20 == len(world.slots("step"))


async def test_cancellation_of_the_handlers_own_is_no_step_in_doubt(world: World) -> None:
    """
    A timeout inside the handler falls due in the freeze: it is delivered only after the store's word.
    """
    node = world.node()

    @node.scheduler.every("own", "1h", offset="10s")
    async def own(ctx: RunContext) -> None:
        try:
            async with asyncio.timeout(5):
                await asyncio.Event().wait()
        except TimeoutError:
            world.note(ctx, "timed out")

    await node.start()
    await node.hears("start")
    await world.pass_ms(1_000)
    renewals = node.faults.count("renew")
    world.loop.jump(10)
    (finish,) = await node.hears("finish")

    assert Status.SUCCESS == finish.status
    assert 1 == len(world.slots("timed out"))
    assert renewals < node.faults.count("renew")


async def test_own_timeout_in_a_stolen_run_never_reaches_the_body(world: World) -> None:
    """
    The same with the run taken over: no `except TimeoutError` of the body runs.
    """
    node = world.node()

    @node.scheduler.every("own", "1h", offset="10s")
    async def own(ctx: RunContext) -> None:
        try:
            async with asyncio.timeout(5):
                await asyncio.Event().wait()
        except TimeoutError:
            world.note(ctx, "timed out")

    await node.start()
    await node.hears("start")
    world.loop.jump(10)
    steal(world.store, "own")
    await node.hears("lost")
    await world.pass_ms(5_000)

    assert [] == world.slots("timed out")


async def test_grant_that_was_frozen_away_starts_no_handler(world: World) -> None:
    """
    The claim was won, and the process froze before the handler began: it never begins once the run is another's.
    """
    node = world.node()
    add_stepping_job(world, node)

    def freeze(_: object) -> None:
        world.loop.jump(10)
        steal(world.store, "steps")

    node.scheduler.on("claim", freeze)
    await node.start()
    await node.hears("lost")
    await world.pass_ms(20_000)

    assert [] == world.notes
    assert [] == node.told("start")


async def test_sleep_of_many_slots_is_followed_by_one_run(world: World) -> None:
    """
    After resume there is at most one catch-up, never a burst; the gap is told as one range.
    """
    node = world.node()

    @node.scheduler.every("tick", "1s")
    async def tick(ctx: RunContext) -> None:
        world.note(ctx)

    await node.start()
    await world.until(lambda: len(world.notes) == 5)
    world.loop.jump(3_600.2)
    await world.until(lambda: len(world.notes) == 6)

    assert 3_605 == world.slots()[-1]
    (miss,) = node.told("miss")

    assert (3_599, False) == (miss.count, miss.at_least)
    await world.pass_ms(3_000)

    assert [3_605, 3_606, 3_607, 3_608] == world.slots()[5:]


async def test_held_handler_whose_renewals_hang_asks_over_the_other_connection(
    world: World,
) -> None:
    """
    The first answer after the thaw may come over either line.
    """
    node = world.node()
    add_stepping_job(world, node)
    await node.start()
    await world.until(lambda: len(world.slots("step")) == 20)
    node.faults.next("renew", hang)
    world.loop.jump(10)
    (finish,) = await node.hears("finish")

    assert Status.SUCCESS == finish.status
