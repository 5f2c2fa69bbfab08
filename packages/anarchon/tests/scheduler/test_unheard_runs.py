"""
An instance that has never heard of a run hears of it by the next answer, whatever that says.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from virtual import START_MS, Action, Node, Served, World, arrive_late, fail_items

from anarchon import AnswerReason, ClaimAnswer, RequestError, RunContext, RunView, Verdict

LEASE_MS = 3_000
HEARTBEAT_MS = 1_000

# The claim of the run's own slot is refused for good: this instance does not hear who has won it.
DEAF = fail_items(RequestError("a key of the wrong type"))


async def one_who_never_heard(
    world: World, *actions: Action, interval: str = "20s", **options: Any
) -> tuple[Node, Node]:
    """
    Let one node run a job for an hour from 10 s on, and a second one not hear of the run.

    What goes wrong with the claims of the second one: *actions*, in order.
    """

    async def long(ctx: RunContext) -> None:
        with world.body(ctx):
            world.note(ctx)
            await world.pass_ms(3_600_000)

    runner, other = world.node("runner"), world.node("other")
    for node in (runner, other):
        node.scheduler.every("long", interval, long, offset="10s", **options)
        await node.start()
    other.faults.next("claim", *actions)
    return runner, other


async def dies_and_is_replaced(world: World, runner: Node, other: Node) -> None:
    """
    The runner dies; whoever heard of its run starts the next attempt in time.
    """
    await runner.crash()
    await other.hears("takeover", within_ms=LEASE_MS + 2 * HEARTBEAT_MS)
    await world.until(lambda: len(world.notes) == 2)

    assert [(START_MS + 10_000, 1), (START_MS + 10_000, 2)] == [
        (note.slot, note.attempt) for note in world.notes
    ]
    assert 1 == world.bodies_max["long"]


async def test_slot_that_is_done_names_the_older_run_that_goes_on(world: World) -> None:
    """
    Slot 30 was skipped by somebody else; its `done` says that slot 10 is still live.
    """
    runner, other = await one_who_never_heard(world, DEAF, arrive_late(0.2))
    await world.until(lambda: "done" in [event.reason for event in other.told("skip")])

    await dies_and_is_replaced(world, runner, other)


async def test_early_answer_names_the_run_that_goes_on(world: World) -> None:
    """
    The store's clock went back: slot 30 is early, and who asked for it hears of slot 10 at least.
    """
    runner, other = await one_who_never_heard(world, DEAF)
    await runner.hears("start")
    world.store_clock.step(-15_000)
    (early,) = await other.hears("skip")

    assert ("early", START_MS + 30_000) == (early.reason, early.slot)
    await dies_and_is_replaced(world, runner, other)


async def test_claim_that_expired_names_the_run_that_is_live(world: World) -> None:
    """
    A claim that came too late to be granted still tells whose the slot is.
    """
    runner, other = await one_who_never_heard(world, *[arrive_late(1.5)] * 3, interval="1h")
    await world.until(lambda: other.told("skip"))

    assert ["late"] == [event.reason for event in other.told("skip")]
    await dies_and_is_replaced(world, runner, other)


async def test_look_that_expired_is_not_repeated_without_a_pause(world: World) -> None:
    """
    Nothing is left of the lease, and every look expires: the store is asked once a heartbeat, not without end.
    """
    runner, other = await one_who_never_heard(world, arrive_late(0.2), interval="1h")
    await runner.hears("start")
    await world.pass_ms(500)
    await runner.crash()
    dead = RunView(slot=START_MS + 10_000, attempt=1, remaining_ms=0, instance_id="runner")
    expired = ClaimAnswer(
        verdict=Verdict.LATE, reason=AnswerReason.EXPIRED, store_now_ms=world.wall_ms, run=dead
    )

    async def expire(_: Served) -> Any:
        await world.pass_ms(1)
        return [expired]

    other.faults.always("claim", expire)
    await world.pass_ms(4_000)
    asked = other.faults.count("claim")
    await world.pass_ms(20_000)

    assert 10 <= other.faults.count("claim") - asked <= 20
    other.faults.always("claim", None)
    await other.hears("takeover", within_ms=2 * HEARTBEAT_MS)


async def test_look_that_expired_ends_the_watch_of_a_run_that_is_over(world: World) -> None:
    """
    Also an answer that grants nothing says that nothing is live: catching up goes on.
    """
    runner, other = await one_who_never_heard(world, arrive_late(0.2), catch_up="all")
    await runner.hears("start")
    await world.pass_ms(500)
    await runner.crash()
    world.store_clock.step(60_000)
    # Somebody else has taken the run over, and finished it, between two looks of this one.
    ended = world.store.states["long"]
    world.store.states["long"] = replace(ended, live=None)
    await other.hears("start")

    assert [(START_MS + 10_000, "runner"), (START_MS + 30_000, "other")] == [
        (note.slot, note.node) for note in world.notes
    ]
