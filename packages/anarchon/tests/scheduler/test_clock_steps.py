"""
Wall clocks are wrong, and step: leases, order and slots do not notice.
"""

from __future__ import annotations

import itertools

import pytest
from virtual import START_MS, Action, Node, World, answer_late, arrive_late

from anarchon import RunContext

HOUR_MS = 3_600_000
DECADE_MS = 10 * 365 * 86_400_000


def add_tick(world: World, *nodes: Node, interval: str = "1s") -> None:
    """
    Let nodes run a job that only notes that it ran.
    """

    async def tick(ctx: RunContext) -> None:
        world.note(ctx)

    for node in nodes:
        node.scheduler.every("tick", interval, tick)


def starts_before_its_slot(world: World) -> list[int]:
    """
    Return the slots whose handler began before them, by the true time and the store's tolerance.
    """
    return [note.slot for note in world.notes if START_MS + note.at_ms < note.slot - 500]


async def test_clock_set_back_an_hour_runs_nothing_twice(world: World) -> None:
    """
    The slots of the hour are not claimed again; when the clock is right again all goes on.
    """
    node = world.node()
    add_tick(world, node)
    await node.start()
    await world.pass_ms(10_500)
    node.clock.step(-HOUR_MS)
    await world.pass_ms(60_000)
    node.clock.step(HOUR_MS)
    await world.pass_ms(60_000)

    assert len(set(world.slots())) == len(world.slots())
    assert sorted(world.slots()) == world.slots()
    assert 125 <= world.slots()[-1]
    assert [-HOUR_MS, HOUR_MS] == [event.step_ms for event in node.told("clock")]
    assert {"own"} == {event.which for event in node.told("clock")}
    assert node.faults.count("claim") < 200


async def test_clock_set_forward_ten_years_does_bounded_work_and_runs_nothing_early(
    world: World,
) -> None:
    """
    The store's time is known: the slots of ten years are not run, nor asked for.
    """
    node = world.node()
    add_tick(world, node)
    await node.start()
    await world.pass_ms(10_500)
    node.clock.step(DECADE_MS)
    await world.pass_ms(60_000)

    assert [] == starts_before_its_slot(world)
    assert list(range(1, 71)) == world.slots()
    node.clock.step(-DECADE_MS)
    await world.pass_ms(60_000)

    assert len(set(world.slots())) == len(world.slots())
    assert 120 <= world.slots()[-1]
    assert node.faults.count("claim") < 300


@pytest.mark.parametrize("offset_ms", [600_000, -600_000, 700, -700, 400, -400])
async def test_instances_that_disagree_by_minutes_run_each_slot_once(
    world: World, offset_ms: int
) -> None:
    """
    One clock is wrong by up to ten minutes: each slot once, none before its time by the store.
    """
    wrong, right = world.node(offset_ms=offset_ms), world.node()
    add_tick(world, wrong, right, interval="5s")
    await wrong.start()
    await world.pass_ms(2_000)
    await right.start()
    await world.pass_ms(119_000)

    assert list(range(5, 121, 5)) == world.slots()
    assert [] == starts_before_its_slot(world)
    assert {"skip", "scheduler_started", "claim", "start", "finish"} >= {
        event.type for node in (wrong, right) for _, event in node.events
    }


async def test_fast_clock_alone_waits_for_the_stores_time(world: World) -> None:
    """
    An instance that is ten minutes fast is early for nothing and late for nothing.
    """
    node = world.node(offset_ms=600_000)
    add_tick(world, node, interval="10s")
    await node.start()
    await world.pass_ms(65_000)

    assert [10, 20, 30, 40, 50, 60] == world.slots()
    assert [slot * 1_000 for slot in world.slots()] == [note.at_ms for note in world.notes]


async def test_slow_clock_alone_is_late_and_misses_nothing(world: World) -> None:
    """
    Slots come from the instance's own clock: ten minutes slow is ten minutes late, each slot once.
    """
    node = world.node(offset_ms=-600_000)
    add_tick(world, node, interval="10s")
    await node.start()
    await world.pass_ms(65_000)

    assert len(set(world.slots())) == len(world.slots())
    assert [] == starts_before_its_slot(world)


async def test_slot_that_the_store_calls_early_is_asked_for_again(world: World) -> None:
    """
    The store's clock went back since it was last heard: the claim is refused, and repeated in time.
    """
    node = world.node()
    add_tick(world, node, interval="10m")
    await node.start()
    await world.pass_ms(1_000)
    world.store_clock.step(-20_000)
    await world.pass_ms(HOUR_MS + 30_000)

    assert [600 * number for number in range(1, 7)] == world.slots()
    (early,) = [event for event in node.told("skip") if event.reason == "early"]

    assert START_MS + 600_000 == early.slot
    assert [(600 * number + 20) * 1_000 for number in range(1, 7)] == [
        note.at_ms for note in world.notes
    ]
    assert [("store", -20_000)] == [(e.which, e.step_ms) for e in node.told("clock")]


async def test_drift_of_the_own_clock_needs_no_answer_to_be_seen(world: World) -> None:
    """
    Steps too small to be told add up: no claim is made ahead of the store's time for them.
    """
    node = world.node()
    add_tick(world, node, interval="10m")
    await node.start()
    for _ in itertools.repeat(None, 6):
        node.clock.step(900)
        await world.pass_ms(30_000)
    await world.pass_ms(HOUR_MS)

    assert [600 * number for number in range(1, 7)] == world.slots()
    assert [] == node.told("skip") + node.told("clock")
    assert [] == starts_before_its_slot(world)


@pytest.mark.parametrize("slow", [arrive_late(0.4), answer_late(0.4)], ids=["request", "answer"])
@pytest.mark.parametrize("claim_only", [False, True], ids=["leases", "claims"])
async def test_a_slow_answer_makes_a_fast_clock_early_for_nothing(
    world: World, slow: Action, *, claim_only: bool
) -> None:
    """
    When the store read its clock while the question was under way is not known: a wrong clock is set back by the
    most that it can be ahead, and is late by no more than the answer took.
    """
    node = world.node(offset_ms=600_000, claim_only=claim_only)
    add_tick(world, node, interval="10m")
    node.faults.next("time", slow)
    await node.start()
    await world.pass_ms(600_000 + 1_000)

    assert [600] == world.slots()
    assert 600_000 <= world.notes[0].at_ms <= 600_400


async def test_correction_of_a_slow_clock_is_followed_at_once(world: World) -> None:
    """
    The clock was ten minutes slow and is set right: the slots that came due meanwhile do not wait for an answer.
    """
    node = world.node(offset_ms=-600_000)
    add_tick(world, node, interval="1h")
    await node.start()
    await world.pass_ms(HOUR_MS - 60_000)
    node.clock.step(600_000)
    await world.pass_ms(61_000)

    assert [3_600] == world.slots()
    assert [HOUR_MS] == [note.at_ms for note in world.notes]


async def test_correction_is_followed_where_the_store_tells_no_time(world: World) -> None:
    """
    Without a store's clock the own one is all there is, before a step and after it.
    """
    node = world.node(offset_ms=-600_000, claim_only=True)

    async def no_time(_: object) -> None:
        return None

    node.faults.always("time", no_time)
    add_tick(world, node, interval="1h")
    await node.start()
    await world.pass_ms(HOUR_MS - 60_000)
    node.clock.step(600_000)
    await world.pass_ms(61_000)

    assert [0, 3_600] == world.slots()
    assert [600_000, HOUR_MS] == [note.at_ms for note in world.notes]


async def test_step_of_the_stores_clock_is_told(world: World) -> None:
    """
    Every answer carries the store's time, so a step shows against the own clock.
    """
    node = world.node()
    add_tick(world, node, interval="10s")
    await node.start()
    await world.pass_ms(15_000)
    world.store_clock.step(60_000)
    await world.pass_ms(10_000)
    world.store_clock.step(-120_000)
    await world.pass_ms(10_000)
    told = node.told("clock")

    assert ["store", "store"] == [event.which for event in told]
    assert [60_000, -120_000] == [event.step_ms for event in told]


async def test_slow_answers_are_no_step_of_the_stores_clock(world: World) -> None:
    """
    Latency of any length, on the way there or back, is not taken for a step.
    """
    node = world.node(heartbeat=10)
    add_tick(world, node, interval="10s")
    await node.start()

    async def slow(served: object) -> object:
        await world.pass_ms(1_800)
        answers = await served()  # type: ignore[operator]  # a Served
        await world.pass_ms(1_800)
        return answers

    for _ in range(5):
        node.faults.next("claim", slow)
        await world.pass_ms(20_000)

    assert [] == node.told("clock")


async def test_early_wake_late_wake_and_a_small_step_back_run_each_slot_once(
    world: World,
) -> None:
    """
    The armed slot is run, "now" is never matched: 1 s ahead, 90 s late, 3 s back.
    """
    node = world.node()
    add_tick(world, node, interval="1m")
    await node.start()
    await world.pass_ms(59_500)
    node.clock.step(1_000)
    await world.pass_ms(30_000)
    node.clock.step(-1_000)
    world.loop.jump(100)
    await world.pass_ms(60_000)
    node.clock.step(-3_000)
    await world.pass_ms(120_000)

    assert [60, 180, 240, 300, 360] == world.slots()
    assert [1] == [event.count for event in node.told("miss")]
    assert [] == starts_before_its_slot(world)
