"""
Every kind of handler runs, and however it ends the record says so.
"""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable
from typing import Any

import pytest
from virtual import START_MS, World

from anarchon import Reason, RunContext, Status


class Asynchronous:
    """
    An object whose call is asynchronous.
    """

    def __init__(self, world: World) -> None:
        self._world = world

    async def __call__(self, ctx: RunContext) -> None:
        """
        Note that it ran.
        """
        self._world.note(ctx)

    async def method(self, ctx: RunContext) -> None:
        """
        Note that it ran.
        """
        self._world.note(ctx)


class Plain:
    """
    An object whose call is a plain one.
    """

    def __init__(self, world: World) -> None:
        self._world = world

    def __call__(self, ctx: RunContext) -> None:
        """
        Note that it ran.
        """
        self._world.note(ctx)


def handlers(world: World, noted: Callable[[], None]) -> dict[str, Any]:
    """
    Make one handler of each kind.
    """

    async def with_context(ctx: RunContext) -> None:
        world.note(ctx)

    async def without() -> None:
        noted()

    def plain(ctx: RunContext) -> None:
        world.note(ctx)

    async def configured(_: str, ctx: RunContext, *, more: int = 0) -> None:
        world.note(ctx)

    return {
        "async": with_context,
        "async without a context": without,
        "plain": plain,
        "plain without a context": noted,
        "partial of async": functools.partial(configured, "x", more=1),
        "partial of a partial": functools.partial(functools.partial(configured, "x"), more=1),
        "lambda that returns an awaitable": lambda ctx: with_context(ctx),  # noqa: PLW0108 - the lambda is the case
        "lambda of nothing that returns an awaitable": lambda: without(),  # noqa: PLW0108 - the lambda is the case
        "lambda with a default": lambda item=noted: item(),
        "async object": Asynchronous(world),
        "bound async method": Asynchronous(world).method,
        "plain object": Plain(world),
        "any arguments": lambda *args: world.note(args[0]),
        "partial of an async object": functools.partial(Asynchronous(world)),
    }


KINDS = [
    "async",
    "async without a context",
    "plain",
    "plain without a context",
    "partial of async",
    "partial of a partial",
    "lambda that returns an awaitable",
    "lambda of nothing that returns an awaitable",
    "lambda with a default",
    "async object",
    "bound async method",
    "plain object",
    "any arguments",
    "partial of an async object",
]


@pytest.mark.parametrize("kind", KINDS)
async def test_handler_of_each_kind_runs_and_succeeds(world: World, kind: str) -> None:
    """
    Asynchrony is judged on what a handler is and on what it returns.
    """
    node, ran = world.node(), threading.Event()
    handler = handlers(world, ran.set)[kind]

    assert KINDS == list(handlers(world, ran.set))
    assert handler is node.scheduler.every("job", "1h", handler, offset="10s")
    await node.start()
    (finish,) = await node.hears("finish")

    assert Status.SUCCESS == finish.status
    assert ran.is_set() or 1 == len(world.notes)


async def test_decorators_return_the_very_function(world: World) -> None:
    """
    A decorated function can still be called and imported.
    """
    scheduler = world.node().scheduler

    def function() -> None: ...

    assert function is scheduler.every("every", "1s")(function)
    assert function is scheduler.cron("cron", "* * * * *")(function)
    assert function is scheduler.once("once", START_MS)(function)
    assert function is scheduler.on("claim")(function)


async def test_plain_handler_runs_in_a_thread_with_its_result_awaited_on_the_loop(
    world: World,
) -> None:
    """
    A plain function is called in a worker thread; what it returns runs where the scheduler does.
    """
    node, where = world.node(), []

    async def rest() -> None:
        where.append(threading.current_thread())

    def plain(ctx: RunContext) -> Any:
        where.append(threading.current_thread())
        return rest()

    node.scheduler.every("job", "1h", plain, offset="10s")
    await node.start()
    await node.hears("finish")

    assert where[0].daemon
    assert threading.main_thread() is not where[0]
    assert threading.current_thread() is where[1]


class Custom(BaseException):
    """
    Not even an Exception.
    """


@pytest.mark.parametrize("sync", [True, False], ids=["plain", "async"])
@pytest.mark.parametrize(
    "error",
    [ValueError("broken"), SystemExit(3), Custom("odd"), asyncio.CancelledError("own")],
    ids=lambda error: type(error).__name__,
)
async def test_handlers_exception_is_final(
    world: World,
    *,
    sync: bool,
    error: BaseException,
) -> None:
    """
    The attempt has failed, with the error in its record; there is no retry, and the scheduler goes on.
    """
    node = world.node()

    def plain() -> None:
        raise error

    async def asynchronous() -> None:
        raise error

    node.scheduler.every("job", "10s", plain if sync else asynchronous)
    await node.start()
    first, second = (await node.hears("finish", count=2))[:2]

    assert (Status.FAILED, Reason.ERROR) == (first.status, first.reason)
    assert 10_000 == second.slot - first.slot
    (record, _) = await world.history("job")

    assert record.error is not None
    assert type(error).__name__ in record.error
    assert 1 == record.attempt


async def test_context_says_which_run_it_is(world: World) -> None:
    """
    Each attribute of a RunContext, with the state that was given to the scheduler.
    """
    state, seen = {"pool": object()}, []
    node = world.node("me", state=state)

    @node.scheduler.every("job", "1h", offset="10s", timeout="5m")
    async def job(ctx: RunContext) -> None:
        seen.append(ctx)
        ctx.check()

    await node.start()
    await node.hears("finish")
    (ctx,) = seen

    assert ("job", START_MS + 10_000, 1, "me") == (ctx.job, ctx.slot, ctx.attempt, ctx.instance_id)
    assert state is ctx.state
    assert "2026-01-01T00:00:10+00:00" == ctx.slot_time.isoformat()
    assert (ctx.slot, 1) == ctx.fence
    assert ctx.token
    assert not ctx.stopping.is_set()
    assert not ctx.lost.is_set()
    assert ctx.deadline is not None
    assert "2026-01-01T00:05:10+00:00" == ctx.deadline.isoformat()
    assert "<RunContext job='job' slot=1767225610000 attempt=1>" == repr(ctx)


async def test_deadline_is_none_without_a_timeout(world: World) -> None:
    """
    A handler can tell that nothing will cancel it for being slow.
    """
    node, deadlines = world.node(), []
    node.scheduler.every("job", "10s", lambda ctx: deadlines.append(ctx.deadline))
    await node.start()
    await node.hears("finish")

    assert [None] == deadlines
