"""
Answers that come at the wrong moment: each changes nothing that it should not.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from virtual import (
    START_MS,
    Node,
    Served,
    World,
    answer_late,
    arrive_late,
    fail,
    fail_items,
    hang,
    steal,
)

from anarchon import (
    AnswerReason,
    ClaimAnswer,
    Reason,
    RequestError,
    RunContext,
    Status,
    StoreUnavailableError,
    Verdict,
)
from anarchon.scheduler.pursuit import Pursuit, Watch

GONE = StoreUnavailableError("gone")


def add_job(
    world: World, node: Node, duration_ms: int, interval: str = "1h", **options: Any
) -> None:
    """
    Let a node run a job of that length, from 10 s on.
    """

    async def job(ctx: RunContext) -> None:
        world.note(ctx, "began")
        await world.pass_ms(duration_ms)
        world.note(ctx)

    node.scheduler.every("job", interval, job, offset="10s", **options)


async def watched(world: World, **options: Any) -> tuple[Node, Node]:
    """
    Let one node run a job that never ends, and another one watch it.
    """
    runner, backup = world.node("runner"), world.node("backup", **options)
    for node in (runner, backup):
        add_job(world, node, 3_000_000)
    await runner.start()
    await runner.hears("start")
    await backup.start()
    await world.pass_ms(500)
    return runner, backup


async def test_look_that_arrives_expired_is_repeated(world: World) -> None:
    """
    The store's clock went ahead: the backup's check is refused as expired, and the backup goes on looking.
    """
    runner, backup = await watched(world)
    world.store_clock.step(60_000)
    await world.pass_ms(5_000)
    await runner.crash()
    await backup.hears("takeover", within_ms=5_000)

    assert [] == [event for event in backup.told("skip") if event.reason == "late"]


@pytest.mark.parametrize("error", [RequestError("a key of the wrong type"), GONE])
async def test_look_that_fails_by_itself_is_repeated(world: World, error: Any) -> None:
    """
    Whatever the trouble with one look was, the run is still watched.
    """
    runner, backup = await watched(world)
    backup.faults.next("claim", fail_items(error))
    await backup.hears("error")
    await runner.crash()
    await backup.hears("takeover", within_ms=6_000)


async def test_answer_without_the_run_in_the_way_ends_the_watch(world: World) -> None:
    """
    There is nothing to look at; the next slot's claim will say more.
    """
    _, backup = await watched(world)

    async def forget_run(served: Served) -> Any:
        return [replace(answer, run=None) for answer in await served()]

    backup.faults.next("claim", forget_run)
    await world.until(lambda: backup.faults.count("claim"))
    calls = backup.faults.count("claim")
    await world.pass_ms(60_000)

    assert calls == backup.faults.count("claim")


@pytest.mark.parametrize(
    "answer",
    [
        ClaimAnswer(verdict=Verdict.LATE, reason=AnswerReason.SUPERSEDED),
        ClaimAnswer(verdict=Verdict.LATE, reason=AnswerReason.EXPIRED),
        ClaimAnswer(verdict=Verdict.RUNNING),
        RequestError("odd"),
        GONE,
    ],
    ids=str,
)
async def test_answer_to_a_look_that_was_replaced_changes_nothing(
    world: World, answer: ClaimAnswer | Exception
) -> None:
    """
    Meanwhile another run is watched.
    """
    _, backup = await watched(world)
    runner: Any = backup.scheduler._engine._runner  # type: ignore[union-attr]  # it runs
    view = runner._views["job"]
    old = Watch(1, 1, "old", "old-token")
    current = view.watch
    runner._answered(Pursuit(view, 1, 2, "old-token", watch=old), answer)

    assert current is view.watch
    assert not runner._wanted(Pursuit(view, 1, 2, "old-token", watch=old))


async def test_answer_to_an_older_claim_leaves_the_newer_one_alone(world: World) -> None:
    """
    A slot came due while the claim of the one before was on its way.
    """
    for claim_only in (False, True):
        node = world.node(claim_only=claim_only, heartbeat="2s")

        @node.scheduler.every(f"fast-{claim_only}", "300ms")
        async def fast(ctx: RunContext) -> None:
            world.note(ctx, ctx.job)

        await node.start()
        for action in (answer_late(0.7), fail_items(RequestError("odd"))):
            node.faults.next("claim", action, answer_late(0.7))
            await world.pass_ms(3_000)
        slots = [note.slot for note in world.notes if note.what == f"fast-{claim_only}"]

        assert len(slots) > 10
        assert len(set(slots)) == len(slots)
        await node.stop()


@pytest.mark.parametrize("claim_only", [True, False])
async def test_refusal_of_an_older_claim_leaves_the_newer_one_alone(
    world: World, *, claim_only: bool
) -> None:
    """
    The same when the older claim is refused by itself.
    """
    node = world.node(claim_only=claim_only, heartbeat="2s")

    @node.scheduler.every("fast", "300ms")
    async def fast(ctx: RunContext) -> None:
        world.note(ctx)

    async def refuse_late(served: Served) -> Any:
        await world.pass_ms(400)
        return [RequestError("odd")] * served.items

    await node.start()
    node.faults.next("claim", refuse_late)
    await world.pass_ms(3_000)

    assert 1 == len(node.told("error"))
    assert len(world.notes) >= 7


async def test_slot_that_is_asked_for_already_is_not_asked_for_twice(world: World) -> None:
    """
    The clock went back while a claim was waiting for its answer: the same slot comes due again.
    """
    node = world.node()
    add_job(world, node, 100, interval="50s")
    node.scheduler.every("wakes the timers", "1s", lambda: None)
    await node.start()
    await world.pass_ms(9_500)
    node.faults.down = GONE
    await world.pass_ms(2_000)
    node.clock.step(-5_000)
    await world.pass_ms(7_000)
    runner: Any = node.scheduler._engine._runner  # type: ignore[union-attr]  # it runs

    assert ["job"] == [
        item.view.job.name for item in runner.pump._items if "job" == item.view.job.name
    ]
    node.faults.down = None
    await world.pass_ms(60_000)

    assert len(set(world.slots())) == len(world.slots())
    assert [] == node.told("error")


async def test_run_of_another_instance_is_looked_at_when_the_own_thread_has_ended(
    world: World,
) -> None:
    """
    The run was lost while a later claim was on its way; until the thread ends nothing is claimed here.
    """
    node, latch = world.node(heartbeat="3s"), world.latch()

    def job() -> None:
        latch.wait()

    node.scheduler.every("job", "2s", job)
    await node.start()
    await node.hears("start")
    node.faults.always("renew", hang)
    await world.pass_ms(7_500)
    node.faults.next("claim", arrive_late(1.4))
    await world.pass_ms(1_600)
    steal(world.store, "job")
    await world.pass_ms(20_000)
    node.faults.always("renew", None)
    calls = node.faults.count("claim")
    await world.pass_ms(10_000)

    assert calls == node.faults.count("claim")
    latch.open()
    await world.until(lambda: node.faults.count("claim") > calls)

    assert [] == node.told("finish") + node.told("takeover")


async def test_once_under_all_runs_once(world: World) -> None:
    """
    After its only slot there is nothing to chase.
    """
    node = world.node()

    @node.scheduler.once("once", START_MS + 10_000, catch_up="all")
    async def once(ctx: RunContext) -> None:
        world.note(ctx)

    await node.start()
    await world.pass_ms(60_000)

    assert [10] == world.slots()


async def test_finish_on_its_way_when_the_line_is_cut_is_no_lost_run(world: World) -> None:
    """
    No body runs any more: what the finish is answered decides, however late.
    """
    node = world.node()
    add_job(world, node, 100)
    await node.start()
    await node.hears("start")
    node.faults.down = GONE
    await world.pass_ms(10_000)
    node.faults.down = None
    (finish,) = await node.hears("finish")

    assert Status.SUCCESS == finish.status
    assert [] == node.told("lost")


async def test_doubt_that_is_settled_after_the_handler_has_ended_loses_no_run(
    world: World,
) -> None:
    """
    The thread ended while the store was asked whose its run is: the finish decides, not the fence.
    """
    node, latch = world.node(), world.latch()
    node.scheduler.every("job", "1h", latch.wait, offset="10s")
    await node.start()
    await node.hears("start")
    for method in ("renew", "finish"):
        node.faults.always(method, hang)
    world.loop.jump(10)
    await world.pass_ms(200)
    latch.open()
    await world.pass_ms(5_000)

    assert [] == node.told("lost")
    for method in ("renew", "finish"):
        node.faults.always(method, None)
    (finish,) = await node.hears("finish")

    assert Status.SUCCESS == finish.status


async def test_thread_that_was_waited_for_too_long_begins_no_body(world: World) -> None:
    """
    The pool was full: a handler whose timeout fell, or whose run was lost meanwhile, is not called.
    """
    node, latch = world.node(threads_max=1), world.latch()
    called: list[str] = []
    node.scheduler.every("first", "1h", latch.wait, offset="10s")
    node.scheduler.every(
        "second", "1h", lambda: called.append("second"), offset="11s", timeout="3s"
    )
    node.scheduler.every("third", "1h", lambda: called.append("third"), offset="12s")
    await node.start()
    await node.hears("claim", count=3)
    await world.pass_ms(5_000)
    world.loop.jump(10)
    steal(world.store, "third")
    await node.hears("lost")
    latch.open()
    await node.hears("finish", count=2)
    await world.pass_ms(5_000)

    assert [] == called
    outcomes = {event.job: (event.status, event.reason) for event in node.told("finish")}

    assert (Status.FAILED, Reason.TIMEOUT) == outcomes["second"]
    assert (Status.SUCCESS, None) == outcomes["first"]
    assert ["third"] == [event.job for event in node.told("lost")]


async def test_renewals_that_fail_item_by_item_are_asked_again(world: World) -> None:
    """
    One item's error is "unknown", not "lost".
    """
    node = world.node()
    add_job(world, node, 8_000)
    await node.start()
    await node.hears("start")
    node.faults.next("renew", *[fail_items(RequestError("odd"))] * 3)
    (finish,) = await node.hears("finish")

    assert Status.SUCCESS == finish.status
    assert [] == node.told("lost")


async def test_start_that_was_connected_does_not_connect_again(world: World) -> None:
    """
    The store stumbled after the connection was made: only the rest is repeated.
    """
    node = world.node()
    add_job(world, node, 100)
    node.faults.next("time", fail(GONE))
    await node.start()
    opened = [call for call in node.faults.calls if call.method == "open" and not call.connection]

    assert 1 == len(opened)


async def test_thread_whose_finish_is_on_its_way_at_stop_is_not_adopted(world: World) -> None:
    """
    It has ended; nobody else will report it.
    """
    node = world.node(stop_timeout=0)
    node.scheduler.every("job", "10s", lambda: None)
    await node.start()
    node.faults.next("finish", answer_late(0.9))
    await world.until(lambda: node.faults.count("finish"))
    await node.stop()
    (record,) = await world.history("job")

    assert Status.SUCCESS == record.status


@pytest.mark.parametrize("duration_s", [0.5, 0.5 - 5e-7], ids=["just after", "just before"])
async def test_answer_in_the_instant_in_which_stop_gives_up_is_harmless(
    world: World, duration_s: float
) -> None:
    """
    Whoever waited has gone, or has just been answered.
    """
    node = world.node(stop_timeout=0)
    add_job(world, node, 60_000)
    await node.start()
    await node.hears("start")
    node.faults.next("release", answer_late(duration_s))
    await node.stop()
    (record,) = await world.history("job")

    assert (Status.INTERRUPTED, Reason.HANDED_OVER) == (record.status, record.reason)


async def test_clean_up_that_outlasts_stop_is_released_although_the_store_stumbles(
    world: World,
) -> None:
    """
    After stop() the release is asked for until it is answered.
    """
    node = world.node(stop_timeout=0)

    @node.scheduler.every("job", "1h", offset="10s")
    async def job() -> None:
        try:
            await world.pass_ms(60_000)
        finally:
            await world.pass_ms(5_000)

    await node.start()
    await node.hears("start")
    await node.stop()
    node.faults.next("release", fail(GONE), hang)
    await world.pass_ms(20_000)
    (record,) = await world.history("job")

    assert (Status.INTERRUPTED, Reason.HANDED_OVER) == (record.status, record.reason)
    assert {} == _renewals(node)


def _renewals(node: Node) -> dict[str, Any]:
    """
    Return the leases that the store still shows as held by that node's jobs.
    """
    return {
        job: state.live
        for job, state in node.world.store.states.items()
        if state.live is not None and state.live.token is not None
    }


async def test_lateness_is_judged_by_the_own_clock_where_the_store_tells_no_time(
    world: World,
) -> None:
    """
    A claim-only store without a clock: the runner's is all there is.
    """
    node = world.node(claim_only=True)

    async def no_time(_: object) -> None:
        return None

    async def no_clock(served: Served) -> Any:
        return [replace(answer, store_now_ms=None) for answer in await served()]

    node.faults.always("time", no_time)
    node.faults.always("claim", no_clock)
    add_job(world, node, 100, interval="20s", max_lateness="5s")
    await node.start()
    await world.pass_ms(29_000)
    world.loop.jump(15)
    await world.pass_ms(10_000)

    assert [10, 50] == world.slots()
    assert ["late"] == [event.reason for event in node.told("skip")]
