"""
Backends without leases: one winner, history, at most one execution; nothing more.
"""

from __future__ import annotations

from typing import Any

import pytest
from virtual import START_MS, Node, World, fail, fail_items, hang, lose_answer

from anarchon import (
    BackendError,
    MemoryClaimBackend,
    Reason,
    RequestError,
    RunContext,
    Scheduler,
    Status,
    StoreUnavailableError,
    UnsupportedByBackendError,
)

GONE = StoreUnavailableError("gone")


def ticking(world: World, *, interval: str = "10s", job: Any = None, **options: Any) -> Node:
    """
    Make a claim-only node with a job that notes that it ran.
    """
    node = world.node(claim_only=True, stop_timeout=2)

    async def tick(ctx: RunContext) -> None:
        world.note(ctx)

    node.scheduler.every("tick", interval, job or tick, **options)
    return node


async def test_one_of_several_instances_wins_each_slot(world: World) -> None:
    """
    The losers hear that it is taken, and do nothing more.
    """
    nodes = [ticking(world) for _ in range(3)]
    for node in nodes:
        await node.start()
    await world.pass_ms(35_000)

    assert [10, 20, 30] == world.slots()
    skips = [event for node in nodes for event in node.told("skip")]

    assert 6 == len(skips)
    assert {"done"} == {event.reason for event in skips}
    records = await world.history("tick")

    assert [Status.SUCCESS] * 3 == [record.status for record in records]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"catch_up": "latest"}, "catch_up='latest'"),
        ({"catch_up": "all"}, "catch_up='all'"),
        ({"catch_up_window": "1m"}, "catch_up_window='1m'"),
        ({"max_crashes": 3}, "max_crashes=3"),
        ({"takeover": True}, "takeover=True"),
    ],
)
def test_options_that_need_leases_are_refused_when_the_job_is_defined(
    options: dict[str, Any], named: str
) -> None:
    """
    The message names the job, the option, the backend, and a backend that has it.
    """
    scheduler = Scheduler(MemoryClaimBackend())
    with pytest.raises(UnsupportedByBackendError) as raised:
        scheduler.every("job", "10s", lambda: None, **options)
    message = str(raised.value)

    assert f"job 'job': the option {named} needs a backend with leases" in message
    assert "MemoryClaimBackend has none" in message
    assert "memory (MemoryBackend)" in message


def test_options_that_need_no_leases_are_taken() -> None:
    """
    What a claim-only store can honour is allowed, also when it is said in full.
    """
    scheduler = Scheduler(MemoryClaimBackend())
    scheduler.every(
        "job",
        "10s",
        lambda: None,
        catch_up="none",
        takeover=False,
        jitter="1s",
        timeout="5s",
        max_lateness="5s",
    )
    (job,) = scheduler.jobs

    assert ("none", False) == (job.catch_up, job.takeover)


async def test_run_in_progress_at_stop_is_recorded_as_interrupted(world: World) -> None:
    """
    Nothing can take it over here, so it is closed.
    """
    node = ticking(world, job=lambda: world.pass_ms(3_600_000))
    await node.start()
    await node.hears("start")
    stopping_ms = world.now_ms
    await node.stop()
    (record,) = await world.history("tick")

    assert (Status.INTERRUPTED, Reason.STOPPED) == (record.status, record.reason)
    assert world.now_ms <= stopping_ms + 3_000


async def test_thread_in_progress_at_stop_is_recorded_as_interrupted_too(world: World) -> None:
    """
    It cannot be cancelled, and without a lease nobody could tell later what became of it.
    """
    latch = world.latch()
    node = ticking(world, job=latch.wait)
    await node.start()
    await node.hears("start")
    stopping_ms = world.now_ms
    await node.stop()
    (record,) = await world.history("tick")

    assert (Status.INTERRUPTED, Reason.STOPPED) == (record.status, record.reason)
    assert world.now_ms <= stopping_ms + 3_000
    latch.open()
    await world.pass_ms(5_000)
    (record,) = await world.history("tick")

    assert Status.INTERRUPTED == record.status


@pytest.mark.parametrize("error", [None, ValueError("broken")])
async def test_outcome_is_recorded(world: World, error: Exception | None) -> None:
    """
    Success, or the error of the handler.
    """

    def job() -> None:
        if error is not None:
            raise error

    node = ticking(world, job=job)
    await node.start()
    (finish,) = await node.hears("finish")
    (record,) = await world.history("tick")

    assert finish.status is record.status is (Status.SUCCESS if error is None else Status.FAILED)
    assert (None if error is None else "ValueError: broken") == record.error


@pytest.mark.parametrize(
    "action",
    [fail(GONE), lose_answer(GONE), hang, fail(OSError("odd"))],
    ids=["fails", "loses the answer", "hangs", "fails oddly"],
)
@pytest.mark.parametrize("method", ["claim", "finish"])
async def test_lost_answers_lose_and_double_nothing(world: World, method: str, action: Any) -> None:
    """
    The same token asked again is the same winner.
    """
    node = ticking(world)
    await node.start()
    node.faults.next(method, action)
    await world.pass_ms(25_000)

    assert [10, 20] == world.slots()
    records = await world.history("tick")

    assert [Status.SUCCESS] * 2 == [record.status for record in records]


@pytest.mark.parametrize("error", [RequestError("bad key"), GONE])
async def test_item_that_fails_calls_no_handler(world: World, error: BackendError) -> None:
    """
    Nobody has won anything, and the error names the job and the slot.
    """
    node = ticking(world)
    await node.start()
    node.faults.next("claim", fail_items(error))
    await world.pass_ms(25_000)

    assert [20] == world.slots()
    (told,) = node.told("error")

    assert ("tick", START_MS + 10_000, 1) == (told.job, told.slot, told.attempt)
    assert error is told.error


async def test_slot_ahead_of_the_stores_clock_is_asked_for_again(world: World) -> None:
    """
    Where the store tells its time, a fast clock is early for nothing.
    """
    node = ticking(world)
    await node.start()
    await world.pass_ms(1_000)
    world.store_clock.step(-20_000)
    await world.pass_ms(49_500)

    assert [10, 20, 30] == world.slots()
    assert "early" == node.told("skip")[0].reason
    assert [30_000, 40_000, 50_000] == [note.at_ms for note in world.notes]


async def test_slot_that_nobody_was_awake_for_is_late(world: World) -> None:
    """
    There is no catching up: a gap longer than a sleep drops the slot.
    """
    node = ticking(world, interval="1h")
    await node.start()
    await world.pass_ms(3_590_000)
    world.loop.jump(600)
    await world.pass_ms(3_600_000)

    assert [7_200] == world.slots()
    assert [("late", START_MS + 3_600_000)] == [(e.reason, e.slot) for e in node.told("skip")]


async def test_lateness_is_judged_by_the_runner(world: World) -> None:
    """
    A slot older than max_lateness is not claimed.
    """
    node = ticking(world, interval="1h", max_lateness="5s")
    await node.start()
    await world.pass_ms(3_590_000)
    world.loop.jump(20)
    await world.pass_ms(1_000)

    assert [] == world.slots()
    assert ["late"] == [event.reason for event in node.told("skip")]


async def test_claim_that_expired_is_late(world: World) -> None:
    """
    The store heard of it only after its sender had given up.
    """
    node = ticking(world, interval="1h")
    await node.start()
    await world.pass_ms(3_599_500)
    node.faults.down = GONE
    await world.pass_ms(30_000)
    node.faults.down = None
    await world.pass_ms(30_000)

    assert [] == world.slots()
    assert ["late"] == [event.reason for event in node.told("skip")]


async def test_clock_that_is_set_back_runs_nothing_twice(world: World) -> None:
    """
    The newest slot that was claimed here is remembered.
    """
    node = ticking(world)
    await node.start()
    await world.pass_ms(35_000)
    node.clock.step(-30_000)
    await world.pass_ms(80_000)

    assert len(set(world.slots())) == len(world.slots())
    assert 80 <= world.slots()[-1]


async def test_stop_returns_in_time_when_the_store_is_gone(world: World) -> None:
    """
    The record stays open; nothing else could be done.
    """
    node = ticking(world, job=lambda: world.pass_ms(3_600_000))
    await node.start()
    await node.hears("start")
    node.faults.dead = True
    stopping_ms = world.now_ms
    await node.stop()

    assert world.now_ms <= stopping_ms + 3_000
    node.faults.dead = False


async def test_timeout_fails_the_attempt(world: World) -> None:
    """
    The same rule as with leases.
    """
    node = ticking(world, job=lambda: world.pass_ms(3_600_000), timeout="1s")
    await node.start()
    (finish,) = await node.hears("finish")

    assert (Status.FAILED, Reason.TIMEOUT) == (finish.status, finish.reason)


async def test_claim_in_flight_at_stop_is_recorded_as_interrupted(world: World) -> None:
    """
    It is granted after stop() began: the handler is not called.
    """
    node = ticking(world)
    await node.start()

    async def slow(served: Any) -> Any:
        answers = await served()
        await world.pass_ms(500)
        return answers

    node.faults.next("claim", slow)
    await world.until(lambda: node.faults.count("claim"))
    await node.stop()
    (record,) = await world.history("tick")

    assert (Status.INTERRUPTED, Reason.STOPPED) == (record.status, record.reason)
    assert [] == node.told("start")
