"""
stop(): handlers drain, what outlasts it is handed over, and nothing is released that still runs.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from virtual import Node, Served, World

from anarchon import HandOver, Reason, RunContext, SchedulerStateError, Status


def add_job(world: World, node: Node, duration_ms: int, **options: Any) -> None:
    """
    Let a node run a job of that length, every hour from 10 s on.
    """

    async def job(ctx: RunContext) -> None:
        world.note(ctx, "began")
        try:
            with world.body(ctx):
                await world.pass_ms(duration_ms)
                world.note(ctx)
        except asyncio.CancelledError:
            world.note(ctx, "cancelled")
            raise

    node.scheduler.every("job", "1h", job, offset="10s", **options)


async def begun(world: World, *nodes: Node) -> tuple[Node, ...]:
    """
    Start the nodes, wait until one runs, and return that one first.
    """
    for node in nodes:
        await node.start()
    await world.until(lambda: world.slots("began"))
    return tuple(sorted(nodes, key=lambda node: not node.told("start")))


@pytest.mark.parametrize("heartbeat_s", [1, 10])
async def test_backup_starts_within_a_second_of_the_release(world: World, heartbeat_s: int) -> None:
    """
    The run is handed over, not left to its lease: at the default heartbeat of 10 s too.
    """
    nodes = [world.node(heartbeat=heartbeat_s, lease=3 * heartbeat_s) for _ in range(3)]
    for node in nodes:
        add_job(world, node, 3_600_000)
    runner, *others = await begun(world, *nodes)
    await world.pass_ms(2_000)
    await runner.stop()
    (released_ms,) = runner.when("handover")
    await world.until(lambda: len(world.slots("began")) == 2)

    assert world.now_ms <= released_ms + 1_000
    assert [1, 2] == [note.attempt for note in world.notes if note.what == "began"]
    (taken,) = [event for node in others for event in node.told("takeover")]

    assert runner.name == taken.from_instance
    assert 1 == world.bodies_max["job"]
    first, _ = await world.history("job")

    assert (Status.INTERRUPTED, Reason.HANDED_OVER) == (first.status, first.reason)


async def test_handler_that_ends_in_time_is_finished_not_released(world: World) -> None:
    """
    stop() waits for handlers up to the stop timeout.
    """
    node = world.node(stop_timeout=5)
    add_job(world, node, 4_000)
    await begun(world, node)
    stopping_ms = world.now_ms
    await node.stop()

    assert [Status.SUCCESS] == [event.status for event in node.told("finish")]
    assert stopping_ms + 4_000 <= world.now_ms <= stopping_ms + 4_100
    assert [] == node.told("handover")
    (stopped,) = node.told("scheduler_stopped")

    assert 0 == stopped.unfinished


async def test_handler_that_outlasts_the_stop_timeout_is_cancelled_and_released(
    world: World,
) -> None:
    """
    The cancellation comes at the stop timeout, not before.
    """
    node = world.node(stop_timeout=5)
    add_job(world, node, 60_000)
    await begun(world, node)
    stopping_ms = world.now_ms
    await node.stop()
    (cancelled,) = [note for note in world.notes if note.what == "cancelled"]

    assert stopping_ms + 5_000 == cancelled.at_ms
    assert 1 == len(node.told("handover"))
    assert world.now_ms <= stopping_ms + 6_000


async def test_cancelled_stop_goes_on_and_a_second_one_waits_for_it(world: World) -> None:
    """
    Whoever gives up waiting for stop() leaves no handler undrained, and no run to its lease.
    """
    node = world.node(stop_timeout=5)
    add_job(world, node, 60_000)
    await begun(world, node)
    stopping_ms = world.now_ms
    impatient = asyncio.ensure_future(node.stop())
    await world.pass_ms(1_000)
    impatient.cancel()
    await asyncio.wait({impatient})

    assert impatient.cancelled()
    assert [] == node.told("handover")

    await node.stop()

    assert 1 == len(node.told("handover"))
    assert stopping_ms + 5_000 <= world.now_ms <= stopping_ms + 6_000


async def test_handler_that_returns_when_it_sees_stopping_has_succeeded(world: World) -> None:
    """
    ctx.stopping is raised at once, and can be waited for.
    """
    node = world.node()

    @node.scheduler.every("job", "1h", offset="10s")
    async def job(ctx: RunContext) -> None:
        await ctx.stopping.wait()
        assert ctx.stopping.is_set()

    await node.start()
    await node.hears("start")
    stopping_ms = world.now_ms
    await node.stop()

    assert [Status.SUCCESS] == [event.status for event in node.told("finish")]
    assert world.now_ms <= stopping_ms + 100


async def test_hand_over_raised_by_a_handler_releases_the_run_for_another_instance(
    world: World,
) -> None:
    """
    HandOver is the one exception that is no failure; while the instance lives another one is preferred.
    """
    nodes = [world.node() for _ in range(2)]
    for node in nodes:

        @node.scheduler.every("job", "1h", offset="10s")
        async def job(ctx: RunContext) -> None:
            world.note(ctx, "began")
            if ctx.attempt == 1:
                raise HandOver

        await node.start()
    await world.until(lambda: len(world.slots("began")) == 2)
    first, second = world.notes

    assert first.node != second.node
    assert (1, 2) == (first.attempt, second.attempt)
    assert second.at_ms - first.at_ms <= 1_000


async def test_hand_over_without_another_instance_comes_back(world: World) -> None:
    """
    Nobody else is there: the instance goes on by itself after a heartbeat or two.
    """
    node = world.node()

    @node.scheduler.every("job", "1h", offset="10s")
    def job(ctx: RunContext) -> None:
        world.note(ctx, "began")
        if ctx.attempt < 3:
            raise HandOver

    await node.start()
    await node.hears("finish")

    assert [1, 2, 3] == [note.attempt for note in world.notes]


async def test_hand_overs_are_no_crashes(world: World) -> None:
    """
    Ten deploys do not give up a long job.
    """
    node = world.node()

    @node.scheduler.every("job", "1h", offset="10s", max_crashes=1)
    async def job(ctx: RunContext) -> None:
        if ctx.attempt < 11:
            raise HandOver

    await node.start()
    (finish,) = await node.hears("finish", within_ms=120_000)

    assert (Status.SUCCESS, 11) == (finish.status, finish.attempt)


async def test_hand_over_with_takeover_off_closes_the_run(world: World) -> None:
    """
    A handed-over attempt is recorded as interrupted and not started again.
    """
    nodes = [world.node(stop_timeout=1) for _ in range(2)]
    for node in nodes:
        add_job(world, node, 60_000, takeover=False)
    runner, other = await begun(world, *nodes)
    await runner.stop()
    await world.pass_ms(30_000)
    (record,) = await world.history("job")

    assert Status.INTERRUPTED == record.status
    assert [] == other.told("takeover")
    assert None is world.store.states["job"].live


async def test_claim_in_flight_at_stop_is_released_at_once(world: World) -> None:
    """
    The store grants it after stop() began: the handler is not called, and a backup may have it.
    """
    first, second = world.node(), world.node()
    add_job(world, first, 1_000)
    await first.start()

    async def slow(served: Served) -> Any:
        answers = await served()
        await asyncio.sleep(0.5)
        return answers

    first.faults.next("claim", slow)
    await world.until(lambda: first.faults.count("claim"))
    await first.stop()

    assert [1] == [event.attempt for event in first.told("claim")]
    assert [] == first.told("start")
    assert 1 == len(first.told("handover"))
    add_job(world, second, 1_000)
    await second.start()
    (taken,) = await second.hears("takeover")

    assert 2 == taken.attempt


async def test_stop_returns_in_time_when_the_store_is_gone(world: World) -> None:
    """
    Within the stop timeout and one second, with a handler that never ends and a store that never answers.
    """
    node = world.node(stop_timeout=5)
    add_job(world, node, 3_600_000)
    await begun(world, node)
    node.faults.dead = True
    stopping_ms = world.now_ms
    await node.stop()

    assert world.now_ms <= stopping_ms + 6_000
    node.faults.dead = False


@pytest.mark.parametrize("error", [ConnectionError("gone"), ValueError("odd")])
async def test_stop_returns_in_time_when_every_call_raises(world: World, error: Exception) -> None:
    """
    The same with a store that refuses connections, closing them included.
    """
    node = world.node(stop_timeout=2)
    add_job(world, node, 3_600_000)
    await begun(world, node)
    node.faults.down = error
    stopping_ms = world.now_ms
    await node.stop()

    assert world.now_ms <= stopping_ms + 3_000
    node.faults.down = None


async def test_stop_of_an_idle_scheduler_is_immediate(world: World) -> None:
    """
    Nothing to drain: nothing to wait for.
    """
    node = world.node()
    add_job(world, node, 1_000)
    await node.start()
    await world.pass_ms(3_000)
    await node.stop()

    assert 3_000 == world.now_ms


async def test_backend_is_closed_only_after_the_hand_over(world: World) -> None:
    """
    The release goes over the handlers' connection, and closing it comes last.
    """
    node = world.node(stop_timeout=1)
    add_job(world, node, 60_000)
    await begun(world, node)
    await node.stop()
    methods = [call.method for call in node.faults.calls if call.connection == 0]

    assert methods.index("release") < methods.index("close")


async def test_nothing_new_is_claimed_once_stop_has_begun(world: World) -> None:
    """
    Slots that come due while handlers drain are left to the others.
    """
    node = world.node(stop_timeout=20)
    add_job(world, node, 10_000)

    @node.scheduler.every("tick", "1s")
    async def tick(ctx: RunContext) -> None:
        world.note(ctx)

    await begun(world, node)
    await node.stop()

    assert max(world.slots()) <= 10 or 1 == world.slots().count(20)
    assert max(slot for slot in world.slots() if slot != 10) <= 10


async def test_stop_at_a_slots_edge_loses_and_doubles_nothing(world: World) -> None:
    """
    Stopped 50 ms before a slot and started 50 ms after it: the slot runs once.
    """
    first, second = world.node(), world.node()
    for node in (first, second):

        @node.scheduler.every("tick", "1h")
        async def tick(ctx: RunContext) -> None:
            world.note(ctx)

    await first.start()
    await world.pass_ms(3_599_950)
    await first.stop()
    await world.pass_ms(100)
    await second.start()
    await world.pass_ms(10_000)

    assert [3_600] == world.slots()


async def test_second_stop_waits_with_the_first(world: World) -> None:
    """
    Stopping twice, or what is not running, is no error.
    """
    node = world.node()
    add_job(world, node, 2_000)
    await node.stop()
    await begun(world, node)
    await asyncio.gather(node.stop(), node.scheduler.stop(), node.scheduler.wait())

    assert 1 == len(node.told("scheduler_stopped"))
    await node.stop()
    with pytest.raises(SchedulerStateError, match=r"history\(\) works from start\(\) to stop"):
        await node.scheduler.history()
