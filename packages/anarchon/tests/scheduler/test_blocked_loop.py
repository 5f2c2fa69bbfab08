"""
A handler that blocks its event loop keeps its lease, since renewals have a thread of their own.

These run in real time, on real threads, with short heartbeats; they wait for what must happen.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from anarchon import MemoryBackend, MemoryStore, RunContext, Runtime, Scheduler, Status
from anarchon.events import BlockEvent, Event, FinishEvent, LostEvent
from anarchon.runtime import on_handlers_loop

pytestmark = pytest.mark.slow

PATIENCE_S = 60
HEARTBEAT = "100ms"


class CountingBackend(MemoryBackend):
    """
    A backend that counts renewals, in whichever thread they happen.
    """

    renewals = 0

    async def renew(self, requests: Any, *, timeout_ms: int) -> Any:
        """
        Count, and renew.
        """
        type(self).renewals += 1
        return await super().renew(requests, timeout_ms=timeout_ms)


@contextmanager
def beside(main: Coroutine[Any, Any, None]) -> Iterator[None]:
    """
    Run another event loop in a thread of its own meanwhile.
    """
    errors: list[BaseException] = []

    def body() -> None:
        try:
            asyncio.run(main)
        except BaseException as error:  # noqa: BLE001 - it belongs to the test
            errors.append(error)

    thread = threading.Thread(target=body)
    thread.start()
    try:
        yield
    finally:
        thread.join(PATIENCE_S)
    assert [] == errors
    assert not thread.is_alive()


async def until(condition: Callable[[], object]) -> None:
    """
    Wait in a loop for what happens in other threads.
    """
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 - nobody over there can set an event here
            await asyncio.sleep(0.01)


def block_until(condition: Callable[[], object]) -> None:
    """
    Keep this thread, and with it its loop, from doing anything else until then.
    """
    tick = threading.Event()
    for _ in range(PATIENCE_S * 100):
        if condition():
            return
        tick.wait(0.01)
    raise AssertionError("it never happened")


def test_handler_that_blocks_the_loop_for_three_leases_keeps_its_run() -> None:
    """
    One run, no takeover, and an event that names the job and how long it lasted.
    """
    store = MemoryStore()
    entered, watching, ended = threading.Event(), threading.Event(), threading.Event()
    blocks: list[BlockEvent] = []
    troubles: list[Event] = []
    attempts: list[int] = []
    slot_ms = store.clock.wall_ms() + 300

    async def job(ctx: RunContext) -> None:
        attempts.append(ctx.attempt)
        entered.set()
        assert watching.wait(PATIENCE_S)
        before = CountingBackend.renewals
        # Nine heartbeats are three leases.
        block_until(lambda: CountingBackend.renewals >= before + 9)

    async def run_backup() -> None:
        await until(entered.is_set)
        backup = Scheduler(MemoryBackend(store), heartbeat=HEARTBEAT, instance_id="backup")
        backup.once("blocking", slot_ms, job)
        backup.on("takeover", troubles.append)
        async with backup:
            watching.set()
            await until(ended.is_set)

    async def main() -> None:
        runner = Scheduler(CountingBackend(store), heartbeat=HEARTBEAT, instance_id="runner")
        runner.once("blocking", slot_ms, job)
        runner.on("block", blocks.append)
        runner.on("lost", troubles.append)
        async with runner:
            await until(lambda: blocks)
        ended.set()

    with beside(run_backup()):
        asyncio.run(main())

    assert [] == troubles
    assert [1] == attempts
    (block, *_) = blocks

    assert ("blocking", slot_ms, 1) == (block.job, block.slot, block.attempt)
    assert block.duration_ms >= 600


def test_renewals_on_the_handlers_loop_lose_the_run_once_fenced_and_reported() -> None:
    """
    What the thread is for: without it the run is taken over, and the first runner is fenced.
    """
    store = MemoryStore()
    taken, finished = threading.Event(), threading.Event()
    lost: list[LostEvent] = []
    steps: list[str] = []
    takeovers: list[Event] = []
    finishes: list[FinishEvent] = []

    async def run_backup() -> None:
        await until(entered.is_set)
        backup = Scheduler(MemoryBackend(store), heartbeat=HEARTBEAT, instance_id="backup")

        async def job() -> None:
            steps.append("backup")
            taken.set()

        def took(event: Event) -> None:
            takeovers.append(event)

        def ended(event: FinishEvent) -> None:
            finishes.append(event)
            finished.set()

        backup.on("takeover", took)
        backup.on("finish", ended)
        backup.once("blocking", slot_ms, job)
        async with backup:
            await until(finished.is_set)

    async def main() -> None:
        runtime = Runtime(start_loop=on_handlers_loop)
        runner = Scheduler(
            MemoryBackend(store), heartbeat=HEARTBEAT, instance_id="runner", runtime=runtime
        )
        heard = asyncio.Event()

        async def job() -> None:
            steps.append("began")
            entered.set()
            assert taken.wait(PATIENCE_S)
            await asyncio.sleep(0)
            steps.append("a step too much")

        def told(event: LostEvent) -> None:
            lost.append(event)
            heard.set()

        runner.on("lost", told)
        runner.once("blocking", slot_ms, job)
        async with runner, asyncio.timeout(PATIENCE_S):
            await heard.wait()

    entered = threading.Event()
    slot_ms = store.clock.wall_ms() + 300

    with beside(run_backup()):
        asyncio.run(main())

    assert ["began", "backup"] == steps
    assert 1 == len(takeovers)
    assert ["token"] == [event.reason for event in lost]
    assert [(2, Status.SUCCESS)] == [(event.attempt, event.status) for event in finishes]


def test_block_that_no_handler_made_is_reported_without_a_job() -> None:
    """
    Somebody else's code in the same loop: the event says how long, and names nobody.
    """
    blocks: list[BlockEvent] = []

    async def main() -> None:
        scheduler = Scheduler(CountingBackend(), heartbeat=HEARTBEAT)
        begun = asyncio.Event()
        heard = asyncio.Event()

        async def job(ctx: RunContext) -> None:
            begun.set()
            await heard.wait()

        def told(event: BlockEvent) -> None:
            blocks.append(event)
            heard.set()

        scheduler.on("block", told)
        scheduler.every("waiting", "100ms", job)
        async with scheduler, asyncio.timeout(PATIENCE_S):
            await begun.wait()
            before = CountingBackend.renewals
            block_until(lambda: CountingBackend.renewals >= before + 5)
            await heard.wait()

    asyncio.run(main())

    assert None is blocks[0].job
    assert (None, None) == (blocks[0].slot, blocks[0].attempt)
    assert blocks[0].duration_ms >= 200


def test_async_handler_that_blocks_past_its_timeout_and_a_lease_loses_its_run() -> None:
    """
    The exception to "renewals last until the handler has ended": it cannot be cancelled while it blocks.
    """
    store, lost, taken = MemoryStore(), threading.Event(), threading.Event()
    slot_ms = store.clock.wall_ms() + 300

    async def run_backup() -> None:
        await until(entered.is_set)
        backup = Scheduler(MemoryBackend(store), heartbeat=HEARTBEAT)
        backup.once("blocking", slot_ms, lambda: None, timeout="200ms")
        backup.on("takeover", lambda _: taken.set())
        async with backup:
            await until(lost.is_set)

    async def main() -> None:
        runner = Scheduler(MemoryBackend(store), heartbeat=HEARTBEAT)

        async def job() -> None:
            entered.set()
            assert taken.wait(PATIENCE_S)

        runner.once("blocking", slot_ms, job, timeout="200ms")
        runner.on("lost", lambda _: lost.set())
        async with runner:
            await until(lost.is_set)

    entered = threading.Event()

    with beside(run_backup()):
        asyncio.run(main())

    assert taken.is_set()


def test_thread_that_outlasts_the_handlers_loop_is_still_renewed_and_recorded() -> None:
    """
    stop() has returned and its loop is closed: the renewals' thread goes on until the handler's thread ends.
    """
    store, release, done = MemoryStore(), threading.Event(), threading.Event()

    async def main() -> None:
        scheduler = Scheduler(CountingBackend(store), heartbeat=HEARTBEAT, stop_timeout=0)
        begun = asyncio.Event()

        def job() -> None:
            release.wait(PATIENCE_S)

        scheduler.on("start", lambda _: begun.set())
        scheduler.every("plain", "100ms", job)
        async with scheduler, asyncio.timeout(PATIENCE_S):
            await begun.wait()

    async def watch() -> None:
        reader = MemoryBackend(store)
        await reader.open(timeout_ms=1_000)
        before = CountingBackend.renewals
        await until(lambda: CountingBackend.renewals >= before + 6)
        (record,) = await reader.history("plain", limit=5, timeout_ms=1_000)
        assert Status.RUNNING == record.status
        release.set()
        await until(lambda: store.states["plain"].live is None)
        (record,) = await reader.history("plain", limit=5, timeout_ms=1_000)
        assert (Status.SUCCESS, 1) == (record.status, record.attempt)
        done.set()

    asyncio.run(main())
    asyncio.run(asyncio.wait_for(watch(), PATIENCE_S))

    assert done.is_set()


def test_table_of_leases_is_safe_between_threads() -> None:
    """
    Many short runs begin and end while their leases are renewed: none is lost, and none stays behind.
    """
    store = MemoryStore()
    finished: list[FinishEvent] = []
    troubles: list[Event] = []

    async def main() -> None:
        scheduler = Scheduler(CountingBackend(store), heartbeat="10ms", lease="2s", jitter=0)
        enough = asyncio.Event()

        def ended(event: FinishEvent) -> None:
            finished.append(event)
            if len(finished) >= 2_000:
                enough.set()

        async def job() -> None:
            await asyncio.sleep(0.003)

        for number in range(200):
            scheduler.every(f"job-{number}", "100ms", job)
        scheduler.on("finish", ended)
        for event_type in ("lost", "error", "takeover"):
            scheduler.on(event_type, troubles.append)
        async with scheduler, asyncio.timeout(PATIENCE_S):
            await enough.wait()
            renewals = scheduler._engine._renewals  # type: ignore[union-attr]  # it runs
            await scheduler.stop()
        assert renewals is not None
        assert {} == renewals.table

    asyncio.run(main())

    assert [] == troubles
    assert {Status.SUCCESS} == {event.status for event in finished}
