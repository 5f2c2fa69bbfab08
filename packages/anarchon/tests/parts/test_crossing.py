"""
A coroutine on another loop: its result, its error, its cancellation, and loops that have ended.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest

from anarchon import StoreUnavailableError
from anarchon.scheduler.renewals import run_on

PATIENCE_S = 60


@pytest.fixture
def there() -> Iterator[asyncio.AbstractEventLoop]:
    """
    Run another loop in a thread.
    """
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield loop
    loop.call_soon_threadsafe(loop.stop)
    thread.join(PATIENCE_S)
    loop.close()


async def test_result_and_error_come_back(there: asyncio.AbstractEventLoop) -> None:
    """
    As if it had run here.
    """

    async def work() -> threading.Thread:
        return threading.current_thread()

    async def broken() -> None:
        raise ValueError("broken")

    assert threading.current_thread() is not await run_on(there, work)
    with pytest.raises(ValueError, match="broken"):
        await run_on(there, broken)


async def test_cancellation_crosses_over(there: asyncio.AbstractEventLoop) -> None:
    """
    Whoever waits here is cancelled, and so is what runs there.
    """
    begun, ended = threading.Event(), threading.Event()

    async def work() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    waiting = asyncio.ensure_future(run_on(there, work))
    assert await asyncio.to_thread(begun.wait, PATIENCE_S)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting

    assert await asyncio.to_thread(ended.wait, PATIENCE_S)


async def test_cancellation_over_there_comes_back(there: asyncio.AbstractEventLoop) -> None:
    """
    The other loop ends its tasks: whoever waits here hears of it.
    """

    async def work() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    with pytest.raises(asyncio.CancelledError):
        await run_on(there, work)


async def test_crossing_that_is_cancelled_before_it_began_is_harmless(
    there: asyncio.AbstractEventLoop,
) -> None:
    """
    The other loop has not come to it yet.
    """
    held, ran = threading.Event(), threading.Event()
    there.call_soon_threadsafe(held.wait, PATIENCE_S)

    async def work() -> None:
        ran.set()

    waiting = asyncio.ensure_future(run_on(there, work))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    held.set()

    async def other() -> None: ...

    await run_on(there, other)

    assert not ran.is_set()


async def test_loop_that_has_ended_is_a_store_that_does_not_answer() -> None:
    """
    The renewals' thread has gone: their connection has, too.
    """
    loop = asyncio.new_event_loop()
    loop.close()

    async def work() -> None: ...

    with pytest.raises(StoreUnavailableError, match="the loop of the other connection has ended"):
        await run_on(loop, work)


def test_result_for_a_loop_that_has_ended_is_dropped(there: asyncio.AbstractEventLoop) -> None:
    """
    Nobody is left to tell, and nothing breaks over there.
    """
    go, done = threading.Event(), threading.Event()

    async def work() -> None:
        await asyncio.to_thread(go.wait, PATIENCE_S)
        there.call_soon(done.set)

    async def here() -> None:
        loop = asyncio.get_running_loop()
        abandoned.append(run_on(there, work))
        abandoned[0].send(None)
        assert loop.is_running()

    abandoned: list[Coroutine[Any, Any, None]] = []
    asyncio.run(here())
    go.set()

    assert done.wait(PATIENCE_S)
    abandoned[0].close()
