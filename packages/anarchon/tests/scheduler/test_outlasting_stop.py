"""
What stop() cannot end keeps its run: a thread that works on, a clean-up that takes its time.
"""

from __future__ import annotations

from typing import Any

import pytest
from virtual import Node, World, hang

from anarchon import HandOver, Reason, RunContext, Status


def add_job(world: World, node: Node, duration_ms: int, **options: Any) -> None:
    """
    Let a node run a job of that length, every hour from 10 s on.
    """

    async def job(ctx: RunContext) -> None:
        world.note(ctx, "began")
        with world.body(ctx):
            await world.pass_ms(duration_ms)
            world.note(ctx)

    node.scheduler.every("job", "1h", job, offset="10s", **options)


async def test_clean_up_that_outlasts_stop_keeps_its_run(world: World) -> None:
    """
    No run is released before its handler has ended: its renewals go on after stop() has returned.
    """
    node, other = world.node(stop_timeout=1), world.node()
    add_job(world, other, 1_000)

    @node.scheduler.every("job", "1h", offset="10s")
    async def job(ctx: RunContext) -> None:
        world.note(ctx, "began")
        with world.body(ctx):
            try:
                await world.pass_ms(3_600_000)
            finally:
                await world.pass_ms(20_000)

    await node.start()
    await world.until(lambda: world.slots("began"))
    await other.start()
    stopping_ms = world.now_ms
    await node.stop()

    assert world.now_ms <= stopping_ms + 2_000
    (stopped,) = node.told("scheduler_stopped")

    assert 1 == stopped.unfinished
    await world.pass_ms(15_000)

    assert [] == other.told("takeover")
    await other.hears("takeover", within_ms=10_000)

    assert 1 == world.bodies_max["job"]


async def test_thread_that_outlasts_stop_keeps_its_run_and_its_finish_counts(
    world: World,
) -> None:
    """
    Its renewals go on, on their own connection, until it ends; then it is recorded as what it was.
    """
    node, other, latch = world.node(stop_timeout=1), world.node(), world.latch()
    for each in (node, other):

        @each.scheduler.every("job", "1h", offset="10s")
        def job(ctx: RunContext) -> None:
            world.note(ctx, "began")
            latch.wait()

    await node.start()
    await world.until(lambda: world.slots("began"))
    await other.start()
    stopping_ms = world.now_ms
    await node.stop()

    assert world.now_ms <= stopping_ms + 2_000
    assert 1 == node.told("scheduler_stopped")[0].unfinished
    await world.pass_ms(30_000)

    assert [] == other.told("takeover")
    latch.open()
    await world.until(lambda: world.store.states["job"].live is None)
    (record,) = await world.history("job")

    assert (Status.SUCCESS, 1) == (record.status, record.attempt)
    renewals = node.faults.count("renew")
    await world.pass_ms(10_000)

    assert renewals == node.faults.count("renew")


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        (ValueError("late"), Status.FAILED, Reason.ERROR),
        (HandOver(), Status.INTERRUPTED, Reason.HANDED_OVER),
    ],
)
async def test_thread_that_outlasts_stop_and_raises_is_recorded_so(
    world: World, error: Exception, status: Status, reason: Reason
) -> None:
    """
    A failure is a failure, and HandOver a release, after stop() as before; a store that stumbles is asked again.
    """
    node, latch = world.node(stop_timeout=1), world.latch()

    @node.scheduler.every("job", "1h", offset="10s")
    def job() -> None:
        latch.wait()
        raise error

    await node.start()
    await node.hears("start")
    await node.stop()
    node.faults.next("finish", hang)
    node.faults.next("release", hang)
    latch.open()
    await world.pass_ms(10_000)
    (record,) = await world.history("job")

    assert (status, reason) == (record.status, record.reason)


async def test_run_lost_after_stop_is_not_recorded(world: World) -> None:
    """
    The thread outlasted stop(), and then its run was taken over: what it says changes nothing.
    """
    node, other, latch = world.node(stop_timeout=1), world.node(), world.latch()
    add_job(world, other, 600_000)

    @node.scheduler.every("job", "1h", offset="10s")
    def job() -> None:
        latch.wait()

    await node.start()
    await node.hears("start")
    await other.start()
    await node.stop()
    node.faults.dead = True
    await other.hears("takeover")
    node.faults.dead = False
    await world.pass_ms(3_000)
    latch.open()
    await world.pass_ms(3_000)
    live = world.store.states["job"].live

    assert live is not None
    assert (2, other.name) == (live.attempt, live.instance_id)
