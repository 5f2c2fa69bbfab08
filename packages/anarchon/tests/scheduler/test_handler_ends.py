"""
How a handler ends, when it does not end by itself: timeout, stop, a lost lease.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Generator
from typing import Any

import pytest
from virtual import Node, World

from anarchon import Reason, RunContext, Status


async def test_timeout_cancels_and_fails_the_attempt(world: World) -> None:
    """
    The attempt ends as failed with a timeout error: a finish, by this runner.
    """
    node = world.node()

    @node.scheduler.every("job", "1h", offset="10s", timeout="1.5s")
    async def job(ctx: RunContext) -> None:
        try:
            await world.pass_ms(60_000)
        finally:
            world.note(ctx, "finally")

    await node.start()
    (finish,) = await node.hears("finish")

    assert (Status.FAILED, Reason.TIMEOUT, 1_500) == (
        finish.status,
        finish.reason,
        finish.duration_ms,
    )
    assert "ran longer than 1.5 s" == str(finish.error)
    assert isinstance(finish.error, TimeoutError)
    assert 1 == len(world.slots("finally"))
    (record,) = await world.history("job")

    assert "TimeoutError: ran longer than 1.5 s" == record.error
    assert [] == node.told("handover") + node.told("lost")


@pytest.mark.parametrize("ending", ["swallows", "raises its own"])
async def test_timeout_is_a_failure_whatever_the_handler_makes_of_it(
    world: World, ending: str
) -> None:
    """
    It swallowed the cancellation, or turned it into something else: it was too slow all the same.
    """
    node = world.node()

    @node.scheduler.every("job", "1h", offset="10s", timeout="1s")
    async def job() -> None:
        try:
            await world.pass_ms(60_000)
        except asyncio.CancelledError:
            if ending != "swallows":
                raise TimeoutError("mine") from None

    await node.start()
    (finish,) = await node.hears("finish")

    assert (Status.FAILED, Reason.TIMEOUT) == (finish.status, finish.reason)
    assert ("mine" if ending != "swallows" else "ran longer than 1 s") == str(finish.error)


async def test_plain_handler_past_its_timeout_stays_owned_until_its_thread_ends(
    world: World,
) -> None:
    """
    Nothing can stop a thread: no other instance starts the run, and its end is recorded as a timeout.
    """
    nodes, latch = [world.node() for _ in range(2)], world.latch()
    for node in nodes:

        @node.scheduler.every("job", "1h", offset="10s", timeout="1s")
        def job(ctx: RunContext) -> None:
            world.note(ctx)
            latch.wait()

        await node.start()
    await world.until(lambda: world.notes)
    await world.pass_ms(30_000)

    assert 1 == len(world.notes)
    (record,) = await world.history("job")

    assert Status.RUNNING == record.status
    latch.open()
    await world.until(lambda: any(node.told("finish") for node in nodes))
    (record,) = await world.history("job")

    assert (Status.FAILED, Reason.TIMEOUT) == (record.status, record.reason)


async def test_timeout_of_what_a_plain_handler_returned_cancels_it(world: World) -> None:
    """
    The thread ended in time and the awaitable did not: it is cancelled as an async handler is.
    """
    node = world.node()
    node.scheduler.every("job", "1h", lambda: world.pass_ms(60_000), offset="10s", timeout="2s")
    await node.start()
    (finish,) = await node.hears("finish")

    assert (Reason.TIMEOUT, 2_000) == (finish.reason, finish.duration_ms)


async def test_awaitable_is_not_begun_when_the_run_was_cut_in_the_thread(world: World) -> None:
    """
    The timeout fell while the thread still worked: what it returns is closed, not run.
    """
    node, latch, begun = world.node(), world.latch(), []

    async def rest() -> None:
        begun.append(True)

    def job() -> Any:
        latch.wait()
        return rest()

    node.scheduler.every("job", "1h", job, offset="10s", timeout="1s")
    await node.start()
    await node.hears("start")
    await world.pass_ms(5_000)
    latch.open()
    (finish,) = await node.hears("finish")

    assert Reason.TIMEOUT == finish.reason
    assert [] == begun


async def test_task_that_a_cut_handler_returns_is_cancelled(world: World) -> None:
    """
    The same when the thread had the awaitable begun already, on the loop.
    """
    node, latch = world.node(), world.latch()
    begun: asyncio.Future[None] = world.loop.create_future()

    def job() -> Any:
        latch.wait()
        return begun

    node.scheduler.every("job", "1h", job, offset="10s", timeout="1s")
    await node.start()
    await node.hears("start")
    await world.pass_ms(5_000)
    latch.open()
    await node.hears("finish")

    assert begun.cancelled()


async def test_any_awaitable_that_a_cut_handler_returns_is_forgotten(world: World) -> None:
    """
    An object that can be awaited, and nothing else, needs no end.
    """

    class Own:
        """
        An awaitable of the user's own.
        """

        def __await__(self) -> Generator[Any, None, None]:
            """
            Tell that somebody awaits it.
            """
            awaited.append(True)
            yield from asyncio.sleep(0).__await__()

    awaited: list[bool] = []
    node, latch = world.node(), world.latch()

    def job() -> Own:
        latch.wait()
        return Own()

    node.scheduler.every("job", "20s", job, offset="10s", timeout="1s")
    await node.start()
    await node.hears("start")
    await world.pass_ms(5_000)
    latch.open()
    await node.hears("finish")

    assert [] == awaited
    await node.hears("finish", count=2)

    assert [True] == awaited


@pytest.mark.parametrize("swallow", [True, False])
async def test_handler_that_swallows_the_stop_is_released_all_the_same(
    world: World, *, swallow: bool
) -> None:
    """
    Nobody completed it, whatever it returns after the cancellation.
    """
    node = world.node(stop_timeout=1)

    @node.scheduler.every("job", "1h", offset="10s")
    async def job() -> None:
        try:
            await world.pass_ms(60_000)
        except asyncio.CancelledError:
            if not swallow:
                raise ValueError("while cleaning up") from None

    await node.start()
    await node.hears("start")
    await node.stop()

    assert 1 == len(node.told("handover"))
    assert [] == node.told("finish")


async def test_timeout_and_task_group_inside_a_handler_work_as_elsewhere(world: World) -> None:
    """
    The gate drives the coroutine itself; asyncio.timeout, TaskGroup, gather and wait_for do not notice.
    """
    node = world.node()

    @node.scheduler.every("job", "1h", offset="10s")
    async def job(ctx: RunContext) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await world.pass_ms(60_000)
        async with asyncio.TaskGroup() as group:
            for _ in range(3):
                group.create_task(world.pass_ms(100))
        with pytest.raises(ExceptionGroup):
            await failing_group()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(world.pass_ms(60_000), 0.5)
        results = await asyncio.gather(failing(), world.pass_ms(1), return_exceptions=True)
        assert isinstance(results[0], ValueError)
        world.note(ctx)

    async def failing() -> None:
        raise ValueError

    async def failing_group() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(failing())
            group.create_task(world.pass_ms(60_000))

    await node.start()
    (finish,) = await node.hears("finish")

    assert (Status.SUCCESS, None) == (finish.status, finish.error)


async def test_tasks_of_a_task_group_are_cancelled_with_the_handler(world: World) -> None:
    """
    The cancellation at the stop timeout reaches what the handler started.
    """
    node, ended = world.node(stop_timeout=1), []

    async def part() -> None:
        try:
            await world.pass_ms(60_000)
        finally:
            ended.append(True)

    @node.scheduler.every("job", "1h", offset="10s")
    async def job() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(part())
            group.create_task(part())

    await node.start()
    await node.hears("start")
    await node.stop()

    assert [True, True] == ended


async def test_cancelled_error_of_something_awaited_is_the_handlers_failure(world: World) -> None:
    """
    Nobody cancelled the handler: a task that it awaits was cancelled by somebody else.
    """
    node = world.node()

    @node.scheduler.every("job", "1h", offset="10s")
    async def job() -> None:
        task = asyncio.ensure_future(world.pass_ms(60_000))
        task.cancel()
        await task

    await node.start()
    (finish,) = await node.hears("finish")

    assert (Status.FAILED, Reason.ERROR) == (finish.status, finish.reason)


async def test_failed_task_group_before_it_changes_nothing_about_that(world: World) -> None:
    """
    A task's count of cancellations may stay up after a TaskGroup that failed; it decides nothing.
    """
    node = world.node()

    async def failing() -> None:
        raise ValueError

    async def failing_group() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(failing())
            group.create_task(world.pass_ms(60_000))

    @node.scheduler.every("job", "1h", offset="10s")
    async def job() -> None:
        with pytest.raises(ExceptionGroup):
            await failing_group()
        task = asyncio.ensure_future(world.pass_ms(60_000))
        task.cancel()
        await task

    await node.start()
    (finish,) = await node.hears("finish")

    assert (Status.FAILED, Reason.ERROR) == (finish.status, finish.reason)


async def test_task_that_is_cancelled_from_outside_is_handed_over(world: World) -> None:
    """
    Who cancels every task of the loop ends the handler, clean-up included; nobody completed the run.
    """
    node, cleaned = world.node(), []

    @node.scheduler.every("job", "1h", offset="10s")
    async def job() -> None:
        try:
            await world.pass_ms(60_000)
        finally:
            await world.pass_ms(10)
            cleaned.append(True)

    await node.start()
    await node.hears("start")
    (run,) = [task for task in asyncio.all_tasks() if task.get_name().startswith("anarchon-run-")]
    run.cancel()
    await node.hears("handover")

    assert [True] == cleaned


async def begin(world: World, node: Node) -> None:
    """
    Start a node and wait until its handler runs.
    """
    await node.start()
    await node.hears("start")


async def test_three_ends_are_told_apart(world: World) -> None:
    """
    Timeout, stop and a lost lease arrive as cancellations; the records say which it was.
    """
    nodes = {name: world.node(name, stop_timeout=1) for name in ("timeout", "stop", "lost")}
    for name, node in nodes.items():
        timeout = "1s" if name == "timeout" else None
        node.scheduler.every(
            name, "1h", functools.partial(world.pass_ms, 60_000), offset="10s", timeout=timeout
        )
        await node.start()
    for node in nodes.values():
        await node.hears("start")
    nodes["lost"].faults.dead = True
    await nodes["stop"].stop()
    await nodes["timeout"].hears("finish")
    await nodes["lost"].hears("lost")
    nodes["lost"].faults.dead = False
    await nodes["lost"].hears("handover")
    reasons = {record.job: (record.status, record.reason) for record in await world.history()}

    assert (Status.FAILED, Reason.TIMEOUT) == reasons["timeout"]
    assert (Status.INTERRUPTED, Reason.HANDED_OVER) == reasons["stop"]
    assert 1 == len(nodes["lost"].told("lost"))
    assert [] == nodes["stop"].told("lost") + nodes["timeout"].told("lost")
