"""
start, stop, wait, use: which calls fit which state, and what start() raises.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from virtual import Node, Served, World, fail, fail_items, hang

from anarchon import (
    BackendStateError,
    Jobs,
    MemoryBackend,
    MemoryClaimBackend,
    MemoryStore,
    ProtocolVersionError,
    RequestError,
    RunContext,
    Scheduler,
    SchedulerStateError,
    ServerTooOldError,
    StoreRefusedError,
    StoreUnavailableError,
    UnsupportedByBackendError,
)


def ticking(world: World, **options: Any) -> Node:
    """
    Make a node with a job every ten seconds.
    """
    node = world.node(**options)

    @node.scheduler.every("tick", "10s")
    async def tick(ctx: RunContext) -> None:
        world.note(ctx)

    return node


async def test_start_twice_is_an_error(world: World) -> None:
    """
    A scheduler that runs cannot be started; the running one goes on.
    """
    node = ticking(world)
    await node.start()
    with pytest.raises(SchedulerStateError, match=r"start\(\) begins .* this one is running"):
        await node.scheduler.start()
    await world.pass_ms(10_500)

    assert [10] == world.slots()


async def test_start_after_stop_begins_a_new_life(world: World) -> None:
    """
    The same scheduler may live several times, on a fresh connection to the same store each time.
    """
    node = ticking(world)
    for _ in range(3):
        await node.start()
        await world.pass_ms(10_500)
        await node.stop()

    assert [10, 20, 30] == world.slots()
    assert 3 == len(node.told("scheduler_started"))


def test_start_on_another_event_loop_is_allowed() -> None:
    """
    One scheduler, two loops after each other, one store.
    """
    scheduler = Scheduler(MemoryBackend(), heartbeat="1s")
    ran: list[int] = []
    scheduler.every("tick", "100ms", lambda ctx: ran.append(ctx.slot))

    async def life() -> int:
        before = len(ran)
        done = asyncio.Event()
        scheduler.on("finish", lambda _: done.set())
        async with scheduler:
            await done.wait()
            return len(await scheduler.history()) - before

    assert asyncio.run(life()) >= 1
    assert asyncio.run(life()) >= 1
    assert len(set(ran)) == len(ran)


async def test_jobs_are_defined_before_start(world: World) -> None:
    """
    Code is the single source of jobs: nothing is added while running.
    """
    node = ticking(world)
    await node.start()
    with pytest.raises(SchedulerStateError, match="jobs are defined before start"):
        node.scheduler.every("late", "1s", lambda: None)
    with pytest.raises(SchedulerStateError, match="jobs are defined before start"):
        node.scheduler.include(Jobs())
    await node.stop()
    node.scheduler.every("late", "1s", lambda: None)

    assert ["tick", "late"] == [job.name for job in node.scheduler.jobs]


async def test_use_changes_the_store_of_a_stopped_scheduler(world: World) -> None:
    """
    Only while stopped; jobs are checked against the new backend, and kept if they do not fit it.
    """
    node = ticking(world)
    await node.start()
    with pytest.raises(SchedulerStateError, match=r"use\(\) .* this one is running"):
        node.scheduler.use("memory:")
    await node.stop()
    node.scheduler.every("all", "1s", lambda: None, catch_up="all")
    with pytest.raises(UnsupportedByBackendError, match="job 'all': the option catch_up='all'"):
        node.scheduler.use(MemoryClaimBackend())
    await node.start()
    await node.stop()
    other = MemoryBackend()
    node.scheduler.use(other)
    await node.start()
    assert len(await other.history(None, limit=5, timeout_ms=1_000)) <= 5
    await node.stop()


async def test_backend_that_another_scheduler_uses_is_refused_and_left_alone(world: World) -> None:
    """
    A scheduler owns its backend: the second one raises, and the first one does not notice.
    """
    backend = MemoryBackend(world.store)
    first, second = world.node(), world.node()
    for node in (first, second):
        node.scheduler.use(backend)

        @node.scheduler.every("tick", "10s")
        async def tick(ctx: RunContext) -> None:
            world.note(ctx)

    await first.start()
    with pytest.raises(BackendStateError, match="opened before"):
        await second.start()
    await world.pass_ms(25_000)

    assert [10, 20] == world.slots()
    assert [] == first.told("outage") + first.told("error")


@pytest.mark.parametrize(
    "error",
    [
        StoreRefusedError("no login"),
        ServerTooOldError("7.0 was found and 7.2 is needed"),
        ProtocolVersionError("version 2"),
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("method", ["open", "time", "register"])
async def test_refusal_raises_at_once_from_start(
    world: World, method: str, error: Exception
) -> None:
    """
    Asking again will not help, so start() does not wait; afterwards it may be tried again.
    """
    node = ticking(world)
    node.faults.next(method, fail(error))
    with pytest.raises(type(error)) as raised:
        await node.start()

    assert error is raised.value
    assert world.now_ms <= 300
    assert [] == node.told("scheduler_started")
    await node.start()
    await world.pass_ms(10_500)

    assert [10] == world.slots()


async def test_job_that_the_store_refuses_raises_from_start(world: World) -> None:
    """
    One job's registration failed by itself: start() says so.
    """
    node = ticking(world)
    node.faults.next("register", fail_items(RequestError("ahead of the store's clock")))
    with pytest.raises(RequestError, match="ahead of the store"):
        await node.start()


@pytest.mark.parametrize(
    ("start_timeout", "open_ms"), [(None, 9_900), (60, 9_900), (15, 4_900), (2, 900)]
)
async def test_opening_may_take_longer_than_a_call(
    world: World, start_timeout: int | None, open_ms: int
) -> None:
    """
    Opening takes several round trips on a machine that is busy with a deploy: a third of start_timeout,
    ten seconds at most, and never less than a call has. Two tries that began anew would be two outages.
    """
    node = ticking(world, start_timeout=start_timeout)

    async def slowly(served: Served) -> Any:
        await asyncio.sleep(open_ms / 1_000)  # On virtual time: a slow login.
        return await served()

    node.faults.next("open", slowly)
    starting = asyncio.ensure_future(node.start())
    await world.pass_ms(open_ms + 10)
    await starting

    assert [] == node.told("outage")


@pytest.mark.parametrize("hangs", [True, False])
async def test_start_ends_when_the_store_does_not_answer(world: World, *, hangs: bool) -> None:
    """
    StoreUnavailableError after start_timeout, with the last trouble as its cause.
    """
    node = ticking(world, start_timeout=7)
    node.faults.always("open", hang if hangs else fail(StoreUnavailableError("refused")))
    with pytest.raises(StoreUnavailableError, match="has not answered within 7000 ms") as raised:
        await node.start()

    assert 7_000 <= world.now_ms <= 7_400
    assert isinstance(raised.value.__cause__, StoreUnavailableError)
    assert 1 == len(node.told("outage"))
    with pytest.raises(SchedulerStateError):
        await node.scheduler.history()


async def test_start_without_a_timeout_waits_for_ever_and_reports_the_outage(
    world: World,
) -> None:
    """
    An hour without a store, and then it starts.
    """
    node = ticking(world, start_timeout=None)
    node.faults.down = StoreUnavailableError("gone")
    starting = asyncio.ensure_future(node.start())
    await world.pass_ms(3_600_000)

    assert not starting.done()
    assert 1 == len(node.told("outage"))
    with pytest.raises(SchedulerStateError, match=r"history\(\) works from start"):
        await node.scheduler.history()
    with pytest.raises(SchedulerStateError, match="this one is starting"):
        node.scheduler.use("memory:")
    node.faults.down = None
    await starting

    assert 1 == len(node.told("recovered"))


async def test_start_that_is_cancelled_leaves_a_stopped_scheduler(world: World) -> None:
    """
    All or nothing: no half-started instance claims anything.
    """
    node = ticking(world)
    node.faults.always("register", hang)
    starting = asyncio.ensure_future(node.scheduler.start())
    await world.pass_ms(500)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    await world.pass_ms(30_000)

    assert [] == world.notes
    node.faults.always("register", None)
    await node.start()
    await world.pass_ms(10_500)

    assert 1 == len(world.notes)


async def test_stop_while_starting_ends_the_start(world: World) -> None:
    """
    Whoever stops a scheduler that is still waiting for its store finds it stopped.
    """
    node = ticking(world, start_timeout=None)
    node.faults.down = StoreUnavailableError("gone")
    starting = asyncio.ensure_future(node.scheduler.start())
    await world.pass_ms(5_000)
    waiting = asyncio.ensure_future(node.scheduler.wait())
    await node.scheduler.stop()
    with pytest.raises(SchedulerStateError, match=r"stop\(\) was called before start\(\)"):
        await starting
    await waiting
    node.faults.down = None
    await world.pass_ms(60_000)

    assert [] == world.notes
    await node.start()
    await world.pass_ms(10_500)

    assert 1 == len(world.notes)


async def test_start_that_fails_ends_every_wait(world: World) -> None:
    """
    Whoever waits for the end of a scheduler that never came to life is not left waiting.
    """
    node = ticking(world, start_timeout=3)
    node.faults.down = StoreUnavailableError("gone")
    starting = asyncio.ensure_future(node.scheduler.start())
    await world.pass_ms(1_000)
    waiting = asyncio.ensure_future(node.scheduler.wait())
    with pytest.raises(StoreUnavailableError):
        await starting
    await waiting
    node.faults.down = None


async def test_stop_in_the_instant_of_the_start_stops(world: World) -> None:
    """
    start() had just succeeded when stop() came: it is stopped as ever.
    """
    node = ticking(world)
    stopping: list[asyncio.Future[None]] = []

    def stop(_: object) -> None:
        stopping.append(asyncio.ensure_future(node.stop()))

    node.scheduler.on("scheduler_started", stop)
    await asyncio.gather(node.start(), return_exceptions=True)
    await asyncio.gather(*stopping)
    await world.pass_ms(30_000)

    assert [] == world.notes
    with pytest.raises(SchedulerStateError):
        await node.scheduler.history()


async def test_wait_returns_when_stop_has_ended(world: World) -> None:
    """
    Before start() there is nothing to wait for.
    """
    node = ticking(world)
    await node.scheduler.wait()
    await node.start()
    waiting = asyncio.ensure_future(node.scheduler.wait())
    await world.pass_ms(1_000)

    assert not waiting.done()
    await node.stop()
    await waiting
    await node.scheduler.wait()


async def test_wait_with_signals_returns_when_stop_has_ended_too(world: World) -> None:
    """
    A stop from elsewhere ends it as well as a signal does.
    """
    node = ticking(world)
    await node.start()
    waiting = asyncio.ensure_future(node.scheduler.wait(signals=True))
    await world.pass_ms(1_000)

    assert not waiting.done()
    await node.stop()
    await waiting


async def test_async_with_starts_and_stops_also_when_the_body_raises(world: World) -> None:
    """
    The error is the user's, and passes.
    """
    node = ticking(world)

    async def body() -> None:
        async with node.scheduler as running:
            assert node.scheduler is running
            raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        await body()

    assert 1 == len(node.told("scheduler_stopped"))


async def test_instance_id_is_what_was_given_or_names_host_and_process(world: World) -> None:
    """
    A label: known before start() and the same while running.
    """
    node = ticking(world)
    await node.start()

    assert node.name == node.scheduler.instance_id
    host, _, pid = Scheduler(MemoryBackend()).instance_id.rpartition(":")

    assert host
    assert pid.isdigit()


async def test_several_schedulers_in_one_process_are_fine(world: World) -> None:
    """
    Each with its own backend object, on one store or on several.
    """
    elsewhere = MemoryBackend(MemoryStore(clock=world.store_clock))
    one, two, other = ticking(world), ticking(world), ticking(world, backend=elsewhere)
    for node in (one, two, other):
        await node.start()
    await world.pass_ms(10_500)

    assert [10, 10] == world.slots()
    assert 1 == len(other.told("finish"))


async def test_include_takes_all_jobs_of_a_collection_or_none(world: World) -> None:
    """
    A collection is defined in a module that has no scheduler.
    """
    node = world.node(timezone="Asia/Kolkata")
    jobs = Jobs()
    jobs.every("a", "10s", lambda: None)

    @jobs.cron("b", "0 8 * * *")
    def b() -> None: ...

    jobs.once("c", 0, lambda: None)
    jobs.job("d", _Never(), lambda: None)
    node.scheduler.every("before", "1s", lambda: None)
    node.scheduler.include(jobs)

    assert ["before", "a", "b", "c", "d"] == [job.name for job in node.scheduler.jobs]
    (cron,) = [job for job in node.scheduler.jobs if job.name == "b"]

    assert "Asia/Kolkata" in repr(cron.schedule)
    assert [spec.name for spec in jobs.specs] == ["a", "b", "c", "d"]


class _Never:
    """
    A schedule without slots.
    """

    def next_slot(self, after_ms: int) -> int | None:
        """
        Nothing to come.
        """
        return None

    def last_slot(self, at_ms: int) -> int | None:
        """
        Nothing gone.
        """
        return None
