"""
An error is not a win: whatever goes wrong in a claim, the handler is not called by mistake, and no run is doubled.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from virtual import (
    Node,
    Served,
    World,
    answer_late,
    arrive_late,
    fail,
    fail_items,
    hang,
    lose_answer,
)
from virtual.faults import Action

from anarchon import RequestError, RunContext, Status, StoreRefusedError, StoreUnavailableError

GONE = StoreUnavailableError("gone")


def add_tick(world: World, *nodes: Node, interval: str = "30s", **options: Any) -> None:
    """
    Let nodes run a job that only notes that it ran.
    """

    async def tick(ctx: RunContext) -> None:
        world.note(ctx)

    for node in nodes:
        node.scheduler.every("tick", interval, tick, **options)


ACTIONS: dict[str, Action] = {
    "raises": fail(GONE),
    "raises something odd": fail(KeyError("odd")),
    "raises a timeout of its own": fail(TimeoutError()),
    "raises a refusal": fail(StoreRefusedError("no right")),
    "never answers": hang,
    "loses the answer": lose_answer(GONE),
    "loses the answer oddly": lose_answer(OSError("reset")),
    "answers after the deadline": answer_late(30),
    "arrives after the deadline": arrive_late(8),
}


@pytest.mark.parametrize("action", ACTIONS.values(), ids=ACTIONS)
async def test_claim_that_goes_wrong_once_runs_the_slot_once(world: World, action: Action) -> None:
    """
    It is asked again with the same token, so that it is neither lost nor doubled.
    """
    node = world.node()
    add_tick(world, node)
    await node.start()
    node.faults.next("claim", action)
    await world.pass_ms(59_000)

    assert [30] == world.slots()
    (record,) = await world.history("tick")

    assert (Status.SUCCESS, 1) == (record.status, record.attempt)


@pytest.mark.parametrize("action", ACTIONS.values(), ids=ACTIONS)
async def test_claim_that_always_goes_wrong_calls_no_handler(world: World, action: Action) -> None:
    """
    Fail closed: the other instance runs the slot, this one does not act as if it had won.
    """
    broken, sound = world.node(), world.node()
    add_tick(world, broken, sound, takeover=False)
    await broken.start()
    broken.faults.always("claim", action)
    await world.pass_ms(1_000)
    await sound.start()
    await world.pass_ms(179_500)
    broken.faults.always("claim", None)

    assert [] == broken.told("start")
    assert len(world.slots()) == len(set(world.slots()))


@pytest.mark.parametrize("method", ["finish", "release", "claim", "renew"])
@pytest.mark.parametrize("times", [1, 2, 3])
@pytest.mark.parametrize(
    "action", [lose_answer(GONE), fail(GONE), hang], ids=["lost", "down", "hung"]
)
async def test_answers_of_every_call_may_get_lost(
    world: World, method: str, times: int, action: Action
) -> None:
    """
    Repeated requests are recognised: every slot has one attempt, and each ended as it did.
    """
    node = world.node()

    @node.scheduler.every("tick", "30s", offset="5s")
    async def tick(ctx: RunContext) -> None:
        world.note(ctx)
        await world.pass_ms(3_000)

    await node.start()
    node.faults.next(method, *[action] * times)
    await world.until(lambda: len(node.told("finish")) == 2)
    if method == "release":
        await world.until(lambda: len(node.told("start")) == 3)
        await node.stop()

    assert [5, 35] == world.slots()[:2]
    records = await world.history("tick")

    assert [Status.SUCCESS, Status.SUCCESS] == [record.status for record in records[:2]]
    assert {1} == {record.attempt for record in records}


async def test_one_items_error_concerns_that_item_alone(world: World) -> None:
    """
    A request that cannot be served is told with the job's name; its neighbours run.
    """
    node = world.node()
    add_tick(world, node)
    node.scheduler.every("other", "30s", lambda ctx: world.note(ctx, "other"))

    async def spoil(served: Served) -> Any:
        return [RequestError("a key of the wrong type"), *(await served())[1:]]

    await node.start()
    node.faults.next("claim", spoil)
    await world.pass_ms(65_000)

    assert [30, 60] == world.slots("other")
    (error,) = node.told("error")

    assert (error.job, error.slot % 30_000, error.attempt) == ("tick", 0, 1)
    assert "the claim of slot" in error.message
    assert "a key of the wrong type" in error.message
    assert isinstance(error.error, RequestError)


async def test_items_that_fail_for_now_are_asked_again(world: World) -> None:
    """
    An item whose outcome is unknown is repeated with the same token.
    """
    node = world.node()
    add_tick(world, node)
    await node.start()
    node.faults.next("claim", fail_items(GONE))
    node.faults.next("finish", fail_items(GONE))
    await world.pass_ms(50_000)
    (record,) = await world.history("tick")

    assert (Status.SUCCESS, 1) == (record.status, record.attempt)
    assert 1 == len(node.told("error"))


async def test_finish_that_is_refused_item_by_item_ends_the_wait(world: World) -> None:
    """
    A finish that can never be served is not asked for ever; the run's lease runs out.
    """
    node = world.node()
    add_tick(world, node, interval="1h")
    await node.start()
    node.faults.next("finish", fail_items(RequestError("no such thing")))
    await node.hears("start", within_ms=3_700_000)
    await node.hears("finish")

    assert 2 == node.faults.count("finish")
    (first, second) = await world.history("tick")

    assert (Status.INTERRUPTED, Status.SUCCESS) == (first.status, second.status)


async def test_claim_that_waits_in_the_network_starts_no_run_that_nobody_executes(
    world: World,
) -> None:
    """
    It arrives long after its sender has given it up: the store refuses it.
    """
    node = world.node()
    add_tick(world, node, interval="1h")
    await node.start()
    node.faults.next("claim", arrive_late(40))
    node.faults.always("claim", hang)
    await world.pass_ms(3_600_000 + 500)
    await node.crash()
    await world.pass_ms(120_000)

    assert [] == await world.history("tick")


async def test_older_claim_is_not_repeated_when_a_newer_slot_has_come_due(world: World) -> None:
    """
    During an outage only the newest slot is asked for; the others are told as missed.
    """
    node = world.node()
    add_tick(world, node, interval="10s")
    await node.start()
    await world.pass_ms(15_000)
    node.faults.down = GONE
    await world.pass_ms(40_000)
    node.faults.down = None
    await world.pass_ms(12_000)

    assert [10, 50, 60] == world.slots()
    (miss,) = node.told("miss")

    assert (3, "unclaimed") == (miss.count, miss.reason)


async def test_expired_claim_is_followed_by_the_latest_slot(world: World) -> None:
    """
    After an outage that outlasted its patience, the missed slot is caught up once.
    """
    node = world.node()
    add_tick(world, node, interval="1h")
    await node.start()
    await world.pass_ms(3_599_000)
    node.faults.down = GONE
    await world.pass_ms(60_000)
    node.faults.down = None
    await world.pass_ms(20_000)

    assert [3_600] == world.slots()
    assert ["late"] == [event.reason for event in node.told("skip")]


async def test_expired_claim_stays_missed_when_nothing_is_caught_up(world: World) -> None:
    """
    Under catch_up = "none" the next slot's winner tells it as missed.
    """
    node = world.node()
    add_tick(world, node, interval="1h", catch_up="none")
    await node.start()
    await world.pass_ms(3_599_000)
    node.faults.down = GONE
    await world.pass_ms(60_000)
    node.faults.down = None
    await world.pass_ms(3_600_000)

    assert [7_200] == world.slots()
    (miss,) = node.told("miss")

    assert (1, miss.first_slot) == (miss.count, miss.last_slot)


async def test_cancelling_one_waiter_leaves_its_batch_alone(world: World) -> None:
    """
    Two runs end together; one of them is stopped waiting, the other is recorded.
    """
    node = world.node(stop_timeout=1)
    for name in ("one", "two"):
        node.scheduler.every(name, "30s", lambda: asyncio.sleep(0))
    await node.start()
    node.faults.always("finish", hang)
    await node.hears("start", count=2)
    node.faults.always("finish", None)
    await node.hears("finish", count=2)

    assert {"one", "two"} == {event.job for event in node.told("finish")}
