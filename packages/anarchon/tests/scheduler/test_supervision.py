"""
The scheduler does not die: its own tasks are watched, started again, and end when they must.
"""

from __future__ import annotations

import asyncio
import logging
import random
from typing import Any

import pytest
from virtual import Node, Served, World, fail

from anarchon import InternalError, RunContext, StoreUnavailableError
from anarchon.events import Event
from anarchon.scheduler.supervisor import Supervisor


def ticking(world: World, **options: Any) -> Node:
    """
    Make a node with a job every ten seconds that lasts a second.
    """
    node = world.node(**options)

    @node.scheduler.every("tick", "10s")
    async def tick(ctx: RunContext) -> None:
        world.note(ctx)
        await world.pass_ms(1_000)

    return node


@pytest.mark.parametrize("method", ["claim", "finish", "renew", "next_hint"])
async def test_answers_that_make_no_sense_are_survived(
    world: World, method: str, caplog: pytest.LogCaptureFixture
) -> None:
    """
    A backend that answers with too few items, or with another thing, has not answered.
    """
    node, other = ticking(world), ticking(world)

    async def nonsense(served: Served) -> Any:
        answers = await served()
        return 3 if method == "next_hint" else list(answers)[1:]

    await node.start()
    await world.pass_ms(1_000)
    await other.start()
    for each in (node, other):
        each.faults.next(method, nonsense)
    await world.pass_ms(120_500)

    assert list(range(10, 121, 10)) == sorted(set(world.slots()))
    errors = [event for each in (node, other) for event in each.told("error")]
    if method == "next_hint":
        assert {InternalError} == {type(event.error) for event in errors}
        assert "please report it" in caplog.text
    elif method == "renew":
        assert "renewing leases failed in an unforeseen way" in caplog.text
    else:
        assert {"outage", "recovered"} <= {e.type for each in (node, other) for _, e in each.events}


async def test_hints_that_fail_cost_time_only(world: World) -> None:
    """
    Without a single hint a released run is still taken over, within two heartbeats.
    """
    first, second = world.node(stop_timeout=0), ticking(world)

    @first.scheduler.every("tick", "10s")
    async def tick(ctx: RunContext) -> None:
        world.note(ctx)
        await world.pass_ms(3_600_000)

    for node in (first, second):
        node.faults.always("next_hint", fail(StoreUnavailableError("no hints")))
    await first.start()
    await first.hears("start")
    await second.start()
    await world.pass_ms(5_000)
    await first.stop()
    (released_ms,) = first.when("handover")
    await second.hears("takeover")

    assert second.when("takeover")[0] <= released_ms + 2_000
    assert [] == second.told("error")


@pytest.mark.parametrize("step", range(1, 40, 3))
def test_stop_has_a_bound_wherever_internal_tasks_are_cancelled(step: int) -> None:
    """
    Some of the instance's own tasks are cancelled from outside at any point: stop() still returns in time.
    """
    world = World(step)
    chance = random.Random(step)

    async def story() -> None:
        node = ticking(world, stop_timeout=2)
        await node.start()
        await world.pass_ms(10_000 + 37 * step)
        tasks = [task for task in node.tasks if not task.done()]
        for task in chance.sample(tasks, k=max(1, len(tasks) // 2)):
            task.cancel()
        await world.pass_ms(chance.randrange(1, 2_000))
        stopping_ms = world.now_ms
        await node.stop()

        assert world.now_ms <= stopping_ms + 3_000

    world.run(story())


async def test_kept_task_is_started_again_with_growing_pauses(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """
    A failure is a bug with an event of its own; trouble with the store is not.
    """
    caplog.set_level(logging.DEBUG, "anarchon")
    told: list[Event] = []
    supervisor = Supervisor(told.append, random.Random(1), "me")
    begun: list[int] = []

    async def work() -> None:
        begun.append(world.now_ms)
        if len(begun) == 1:
            raise StoreUnavailableError("gone")
        if len(begun) < 4:
            raise ValueError("bug")

    task = supervisor.keep(work, "thing")
    await task

    assert 4 == len(begun)
    assert sorted(begun) == begun
    assert begun[1] > 0
    assert 2 == len(told)
    bug: Any = told[0]

    assert isinstance(bug.error, InternalError)
    assert isinstance(bug.error.__cause__, ValueError)
    assert "'thing' could not reach the store" in caplog.text
    await supervisor.stop()


async def test_work_that_fails_is_told(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """
    A task that stop() waits for and that ends with an error is never lost silently.
    """
    told: list[Event] = []
    supervisor = Supervisor(told.append, random.Random(1), "me")

    async def broken() -> None:
        raise ValueError("bug")

    async def endless() -> None:
        await asyncio.Event().wait()

    supervisor.work(broken(), name="broken")
    supervisor.work(endless(), name="endless")
    await world.pass_ms(10)
    for task in supervisor.works:
        task.cancel()
    await world.pass_ms(10)
    (event,) = told
    error: Any = event

    assert "the task 'broken' failed: bug" == error.message
    assert set() == supervisor.works
    assert "please report it" in caplog.text


@pytest.mark.parametrize("seed", range(4))
def test_random_pauses_of_two_heartbeats_lose_no_scheduler(seed: int) -> None:
    """
    A soak with freezes of up to two heartbeats: runs may be lost, the scheduler never is.
    """
    world = World(seed)
    chance = random.Random(seed)

    async def story() -> None:
        nodes = [ticking(world) for _ in range(2)]
        for node in nodes:
            await node.start()
        for _ in range(100):
            await world.pass_ms(chance.randrange(100, 3_000))
            world.loop.jump(chance.randrange(2_000) / 1_000)
        before = len(world.notes)
        await world.pass_ms(30_500)

        assert before + 3 <= len(world.notes)
        attempts = {(note.slot, note.attempt) for note in world.notes}

        assert len(attempts) == len(world.notes)
        assert [] == [event for node in nodes for event in node.told("error")]

    world.run(story())
