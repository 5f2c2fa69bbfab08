"""
A runner dies, or its run is given up: what backups do, and by when.
"""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest
from virtual import Node, World

from anarchon import Reason, RunContext, Status

LEASE_MS = 3_000
HEARTBEAT_MS = 1_000


def add_long_job(world: World, node: Node, **options: Any) -> None:
    """
    Let a node run a job that lasts a minute, every ten minutes from 10 s on.
    """

    async def long(ctx: RunContext) -> None:
        world.note(ctx, "began")
        with world.body(ctx):
            await world.pass_ms(60_000)
            world.note(ctx)

    node.scheduler.every("long", "10m", long, offset="10s", **options)


async def runner_of(world: World, *nodes: Node) -> Node:
    """
    Wait until one of the nodes has begun, and return it.
    """
    await world.until(lambda: any(node.told("start") for node in nodes))
    return next(node for node in nodes if node.told("start"))


@pytest.mark.parametrize("seed", range(12))
def test_dead_runner_is_replaced_within_lease_and_two_heartbeats(seed: int) -> None:
    """
    Another instance starts attempt 2 within lease + 2 heartbeats of the last renewal.
    """
    world = World(seed)

    async def story() -> None:
        nodes = [world.node() for _ in range(3)]
        for node in nodes:
            add_long_job(world, node)
            await node.start()
        runner = await runner_of(world, *nodes)
        await world.pass_ms(5_000 + 137 * seed)
        await runner.crash()
        last_renewal_ms = max(
            (call.at_ms for call in runner.faults.calls if call.method == "renew"), default=0
        )
        await world.until(lambda: len(world.slots("began")) == 2)
        (second,) = [note for note in world.notes if note.attempt == 2]

        assert second.at_ms <= last_renewal_ms + LEASE_MS + 2 * HEARTBEAT_MS
        assert second.at_ms >= last_renewal_ms + LEASE_MS
        (told,) = [event for node in nodes for event in node.told("takeover")]

        assert (runner.name, second.node, 2) == (told.from_instance, told.instance, told.attempt)
        await world.until(lambda: any(node.told("finish") for node in nodes), within_ms=70_000)
        first, second_record = await world.history("long")

        assert (Status.INTERRUPTED, Reason.LEASE_EXPIRED) == (first.status, first.reason)
        assert (Status.SUCCESS, 2) == (second_record.status, second_record.attempt)

    world.run(story())


async def test_takeover_depends_on_the_lease_not_on_the_timeout(world: World) -> None:
    """
    A job with a timeout of a day is taken over after its lease all the same.
    """
    nodes = [world.node() for _ in range(2)]
    for node in nodes:
        add_long_job(world, node, timeout="1d")
        await node.start()
    runner = await runner_of(world, *nodes)
    crashed_ms = world.now_ms
    await runner.crash()
    await world.until(lambda: len(world.slots("began")) == 2)

    assert world.now_ms <= crashed_ms + LEASE_MS + 2 * HEARTBEAT_MS


async def test_run_that_kills_its_runners_is_given_up(world: World) -> None:
    """
    After max_crashes dead runners no other one is sacrificed; the next slot starts from zero.
    """
    nodes = [world.node() for _ in range(4)]
    for node in nodes:
        add_long_job(world, node, max_crashes=2)
        await node.start()
    living = list(nodes)
    for _ in range(2):
        await world.until(lambda: any(node.told("start") for node in living))
        runner = next(node for node in living if node.told("start"))
        living.remove(runner)
        await runner.crash()
    await world.until(lambda: any(node.told("error") for node in living))
    (error,) = [event for node in living for event in node.told("error")]

    assert ("long", 2) == (error.job, error.attempt)
    assert "given up" in error.message
    assert "died too often" in error.message
    assert [1, 2] == [note.attempt for note in world.notes]
    records = await world.history("long")

    assert [Reason.LEASE_EXPIRED, Reason.MAX_CRASHES] == [record.reason for record in records]
    await world.until(lambda: len(world.slots("began")) == 3, within_ms=700_000)

    assert 1 == world.notes[-1].attempt


async def test_takeover_false_closes_a_dead_attempt_and_starts_no_other(world: World) -> None:
    """
    With takeover off the dead attempt is recorded as interrupted, and not started again.
    """
    nodes = [world.node() for _ in range(2)]
    for node in nodes:
        add_long_job(world, node, takeover=False)
        await node.start()
    runner = await runner_of(world, *nodes)
    await runner.crash()
    (other,) = [node for node in nodes if node is not runner]
    (error,) = await other.hears("error")

    assert "takeover is off" in error.message
    (record,) = await world.history("long")

    assert (Status.INTERRUPTED, Reason.TAKEOVER_OFF) == (record.status, record.reason)
    await world.pass_ms(60_000)

    assert [1] == [note.attempt for note in world.notes]


async def test_same_instance_id_neither_wins_twice_nor_extends_the_other(world: World) -> None:
    """
    In containers ids collide; only the token of an attempt decides.
    """
    nodes = [world.node("host:1") for _ in range(2)]
    for node in nodes:
        add_long_job(world, node)
        await node.start()
    runner = await runner_of(world, *nodes)
    (other,) = [node for node in nodes if node is not runner]
    await world.pass_ms(5_000)

    assert [] == other.told("claim")
    await runner.crash()
    await other.hears("takeover", within_ms=LEASE_MS + 2 * HEARTBEAT_MS)

    assert 1 == world.bodies_max["long"]


async def test_restart_with_the_same_id_takes_over_its_own_dead_run(world: World) -> None:
    """
    The process died and came again within its lease: the run is a new attempt, not still its own.
    """
    first = world.node("pod-0")
    add_long_job(world, first)
    await first.start()
    await first.hears("start")
    await first.crash()
    again = world.node("pod-0")
    add_long_job(world, again)
    await again.start()
    (told,) = await again.hears("takeover", within_ms=LEASE_MS + 2 * HEARTBEAT_MS)

    assert ("pod-0", 2) == (told.from_instance, told.attempt)


async def test_run_of_ten_leases_is_one_attempt(world: World) -> None:
    """
    The lease is renewed for as long as the handler runs.
    """
    nodes = [world.node() for _ in range(3)]
    for node in nodes:
        add_long_job(world, node)
        await node.start()
    await world.until(lambda: any(node.told("finish") for node in nodes), within_ms=80_000)
    (record,) = await world.history("long")

    assert (Status.SUCCESS, 1) == (record.status, record.attempt)
    assert [] == [event for node in nodes for event in node.told("lost")]


async def test_renewals_never_come_later_than_half_a_lease(world: World) -> None:
    """
    Under load too, two renewals of one run are less than lease / 2 apart.
    """
    node = world.node()
    add_long_job(world, node)
    for number in range(40):
        node.scheduler.every(f"load-{number}", "1s", lambda: asyncio.sleep(0.3))
    await node.start()
    await world.until(lambda: world.notes)
    await world.pass_ms(20_000)
    renewed = [
        call.at_ms
        for call in node.faults.calls
        if call.method == "renew" and call.at_ms > world.notes[0].at_ms
    ]

    assert len(renewed) >= 19
    assert max(later - at_ms for at_ms, later in itertools.pairwise(renewed)) < (LEASE_MS / 2)


async def test_instance_that_comes_later_watches_the_run_in_progress(world: World) -> None:
    """
    Registration tells of an unfinished run; the newcomer becomes its backup.
    """
    first, late = world.node(), world.node()
    for node in (first, late):
        add_long_job(world, node)
    await first.start()
    await first.hears("start")
    await late.start()
    await first.crash()
    await late.hears("start", within_ms=LEASE_MS + 2 * HEARTBEAT_MS)
    await world.until(lambda: len(world.notes) == 2)

    assert [1, 2] == [note.attempt for note in world.notes]


async def test_fence_of_a_context_grows_with_attempts_and_slots(world: World) -> None:
    """
    (slot, attempt) only ever grows for a job.
    """
    fences: list[tuple[int, int]] = []
    nodes = [world.node() for _ in range(3)]
    for node in nodes:

        @node.scheduler.every("short", "10s")
        async def short(ctx: RunContext) -> None:
            fences.append(ctx.fence)
            world.note(ctx)
            await world.pass_ms(4_000)

        await node.start()
    runner = await runner_of(world, *nodes)
    await runner.crash()
    await world.until(lambda: len(fences) == 4)

    assert sorted(set(fences)) == fences
