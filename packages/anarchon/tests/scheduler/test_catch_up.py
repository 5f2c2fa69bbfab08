"""
What was missed while nobody was there, or could ask: the three policies and their limits.
"""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest
from virtual import START_MS, Node, World, arrive_late

from anarchon import Every, RunContext, Status, StoreUnavailableError


def add_tick(world: World, *nodes: Node, interval: Any = "10s", **options: Any) -> None:
    """
    Let nodes run a job that only notes that it ran.
    """

    async def tick(ctx: RunContext) -> None:
        world.note(ctx)

    for node in nodes:
        node.scheduler.every("tick", interval, tick, **options)


async def down_for(world: World, duration_ms: int, **options: Any) -> Node:
    """
    Run an instance for 25 s, have none for a while, and start another one.
    """
    first, second = world.node(), world.node()
    add_tick(world, first, second, **options)
    await first.start()
    await world.pass_ms(25_000)
    await first.stop()
    await world.pass_ms(duration_ms)
    await second.start()
    return second


async def test_latest_runs_the_newest_missed_slot_once(world: World) -> None:
    """
    The default: one run for the whole gap, and the slots before it are told as one range.
    """
    node = await down_for(world, 40_000)
    await world.pass_ms(4_000)

    assert [10, 20, 60] == world.slots()
    (miss,) = node.told("miss")

    assert (START_MS + 30_000, START_MS + 50_000, 3, False) == (
        miss.first_slot,
        miss.last_slot,
        miss.count,
        miss.at_least,
    )
    assert ("tick", "unclaimed") == (miss.job, miss.reason)
    await world.pass_ms(10_000)

    assert [70] == world.slots()[3:]


async def test_none_begins_with_the_next_slot(world: World) -> None:
    """
    Nothing is caught up; the next winner tells the gap.
    """
    node = await down_for(world, 40_000, catch_up="none")
    await world.pass_ms(4_000)

    assert [10, 20] == world.slots()
    await world.pass_ms(5_000)

    assert [10, 20, 70] == world.slots()
    (miss,) = node.told("miss")

    assert 4 == miss.count


async def test_all_runs_every_missed_slot_in_order(world: World) -> None:
    """
    Oldest first, one at a time; nothing is missed.
    """
    node = await down_for(world, 40_000, catch_up="all")
    await world.pass_ms(10_000)

    assert [10, 20, 30, 40, 50, 60, 70] == world.slots()
    assert [] == node.told("miss")
    records = await world.history("tick")
    ends = [(record.claimed_at, record.finished_at) for record in records]

    assert all(
        earlier[1] is not None and earlier[1] <= later[0]
        for earlier, later in itertools.pairwise(ends)
    )


async def test_nothing_missed_is_nothing_caught_up(world: World) -> None:
    """
    A restart between two slots runs neither again.
    """
    await down_for(world, 1_000)
    await world.pass_ms(2_000)

    assert [10, 20] == world.slots()


@pytest.mark.parametrize("catch_up", ["latest", "none", "all"])
async def test_new_job_has_missed_nothing(world: World, catch_up: str) -> None:
    """
    A job that the store has never seen begins with its next slot, whoever starts first.
    """
    await world.pass_ms(100_000)
    first, second = world.node(), world.node()
    add_tick(world, first, second, interval="1h", catch_up=catch_up)
    await first.start()
    await world.pass_ms(2_000)
    await second.start()
    await world.pass_ms(3_600_000 - 103_000)

    assert [] == world.notes
    await world.pass_ms(2_000)

    assert [3_600] == world.slots()


@pytest.mark.parametrize("catch_up", ["latest", "all"])
async def test_slots_older_than_the_window_stay_missed_and_are_told(
    world: World, catch_up: str
) -> None:
    """
    catch_up_window bounds how far back anything is caught up.
    """
    node = await down_for(world, 40_000, catch_up=catch_up, catch_up_window="22s")
    await world.pass_ms(9_000)

    assert [10, 20, *([50] if catch_up == "all" else []), 60, 70] == world.slots()
    (miss,) = node.told("miss")

    assert START_MS + 30_000 == miss.first_slot


async def test_latest_slot_out_of_the_window_is_not_run(world: World) -> None:
    """
    Down for a day with a window of a second: the newest slot is too old as well.
    """
    node = await down_for(world, 43_000, catch_up_window="1s")
    await world.pass_ms(1_000)

    assert [10, 20] == world.slots()
    await world.pass_ms(1_500)

    assert [10, 20, 70] == world.slots()
    (miss,) = node.told("miss")

    assert 4 == miss.count


@pytest.mark.parametrize("catch_up", ["latest", "all"])
async def test_slot_that_would_be_claimed_too_late_is_not_run(world: World, catch_up: str) -> None:
    """
    max_lateness is judged by the store; the slot is told as missed.
    """
    node = await down_for(world, 43_000, catch_up=catch_up, max_lateness="5s")
    await world.pass_ms(4_000)

    assert [10, 20, 70] == world.slots()
    (miss,) = node.told("miss")

    assert 4 == miss.count


async def test_lateness_without_a_limit_runs_the_slot_and_tells_how_late(world: World) -> None:
    """
    By default a late slot is run, and reported as late.
    """
    node = await down_for(world, 43_000)
    (start,) = await node.hears("start")

    assert 8_000 == start.late_ms


async def test_once_that_came_too_late_is_told_as_missed(world: World) -> None:
    """
    No later slot's winner will ever report it.
    """
    first, second = world.node(), world.node()
    for node in (first, second):
        node.scheduler.once("once", START_MS + 30_000, lambda: None, max_lateness="5s")
    await first.start()
    await first.stop()
    await world.pass_ms(60_000)
    await second.start()
    (miss,) = await second.hears("miss")

    assert ("once", START_MS + 30_000, START_MS + 30_000, 1, "unclaimed") == (
        miss.job,
        miss.first_slot,
        miss.last_slot,
        miss.count,
        miss.reason,
    )
    assert [] == second.told("start")


async def test_once_that_was_registered_in_time_is_caught_up(world: World) -> None:
    """
    Its instant passed while nobody was there; it is run once.
    """
    nodes = [world.node() for _ in range(3)]
    for node in nodes:

        @node.scheduler.once("once", START_MS + 30_000)
        async def once(ctx: RunContext) -> None:
            world.note(ctx)

    await nodes[0].start()
    await nodes[0].stop()
    await world.pass_ms(60_000)
    for node in nodes[1:]:
        await node.start()
    await world.pass_ms(3_600_000)

    assert [30] == world.slots()


async def test_once_already_past_at_first_sight_is_told_and_never_run(world: World) -> None:
    """
    A job new to the store whose only slot lies behind is reported as missed, once.
    """
    nodes = [world.node() for _ in range(2)]
    for node in nodes:
        node.scheduler.once("once", START_MS - 30_000, lambda: None)
        await node.start()
    await world.pass_ms(60_000)
    (miss,) = [event for node in nodes for event in node.told("miss")]

    assert ("past", START_MS - 30_000, 1) == (miss.reason, miss.first_slot, miss.count)
    assert [] == [event for node in nodes for event in node.told("start")]


class Counted:
    """
    A schedule that counts how often it is asked, and forwards.
    """

    def __init__(self, interval: str) -> None:
        self.questions = 0
        self._every = Every(interval)
        self.count_slots = self._every.count_slots

    def next_slot(self, after_ms: int) -> int | None:
        """
        Count the question, and answer it.
        """
        self.questions += 1
        return self._every.next_slot(after_ms)

    def last_slot(self, at_ms: int) -> int | None:
        """
        Count the question, and answer it.
        """
        self.questions += 1
        return self._every.last_slot(at_ms)


async def test_year_of_downtime_costs_one_run_and_a_handful_of_questions(world: World) -> None:
    """
    A job of every second after a year: one run, one range, and work that does not grow with the gap.
    """
    first, second, schedule = world.node(), world.node(), Counted("1s")
    for node in (first, second):

        @node.scheduler.job("tick", schedule)
        async def tick(ctx: RunContext) -> None:
            world.note(ctx)

    await first.start()
    await world.pass_ms(2_500)
    await first.stop()
    await world.pass_ms(365 * 86_400_000)
    schedule.questions = 0
    await second.start()
    await world.until(lambda: len(world.notes) == 3)

    assert schedule.questions < 20
    assert [365 * 86_400 + 2] == world.slots()[2:]
    (miss,) = second.told("miss")

    assert (365 * 86_400 - 1, False) == (miss.count, miss.at_least)
    assert 1 == second.faults.count("claim")


async def test_gap_in_a_schedule_that_does_not_count_is_told_as_at_least(world: World) -> None:
    """
    A user's own schedule is asked for a bounded number of slots.
    """
    first, second, schedule = world.node(), world.node(), Counted("1s")
    del schedule.count_slots
    for node in (first, second):
        node.scheduler.job("tick", schedule, lambda: None)
    await first.start()
    await world.pass_ms(1_500)
    await first.stop()
    await world.pass_ms(86_400_000)
    await second.start()
    (miss,) = await second.hears("miss")

    assert (10_000, True) == (miss.count, miss.at_least)


async def test_outage_is_followed_by_the_latest_slot_alone(world: World) -> None:
    """
    A gap while running is treated as a gap before the start.
    """
    node = world.node()
    add_tick(world, node)
    await node.start()
    await world.pass_ms(15_000)
    node.faults.down = StoreUnavailableError("gone")
    await world.pass_ms(32_000)
    node.faults.down = None
    await world.pass_ms(10_000)

    assert [10, 40, 50] == world.slots()


async def test_outage_under_all_is_followed_by_every_slot(world: World) -> None:
    """
    Nothing of the gap is lost, and the order holds.
    """
    node = world.node()
    add_tick(world, node, catch_up="all")
    await node.start()
    await world.pass_ms(15_000)
    node.faults.down = StoreUnavailableError("gone")
    await world.pass_ms(32_000)
    node.faults.down = None
    await world.pass_ms(10_000)

    assert [10, 20, 30, 40, 50] == world.slots()


async def test_chase_goes_on_after_a_claim_that_expired_on_its_way(world: World) -> None:
    """
    The store heard of the claim too late; the slot is asked for again under another token.
    """
    node = world.node()
    add_tick(world, node, interval="1h", catch_up="all")
    await node.start()
    await world.pass_ms(3_599_500)
    node.faults.next("claim", *[arrive_late(30)] * 4)
    await world.pass_ms(60_000)

    assert [3_600] == world.slots()


@pytest.mark.parametrize("seed", range(8))
def test_all_runs_every_slot_in_order_while_instances_die_at_random(seed: int) -> None:
    """
    Three instances, killed and restarted at random: every slot succeeds, in order, one at a time.
    """
    world = World(seed)
    chance = random.Random(seed)

    def fresh() -> Node:
        node = world.node()

        async def tick(ctx: RunContext) -> None:
            with world.body(ctx):
                await world.pass_ms(chance.randrange(1, 8_000))
                world.note(ctx)

        node.scheduler.every("tick", "5s", tick, catch_up="all", max_crashes=1_000)
        return node

    async def story() -> None:
        nodes = [fresh() for _ in range(3)]
        for node in nodes:
            await node.start()
        for _ in range(15):
            await world.pass_ms(chance.randrange(500, 9_000))
            index = chance.randrange(3)
            await nodes[index].crash()
            nodes[index] = fresh()
            await nodes[index].start()
        end_s = world.now_ms // 1_000
        await world.until(lambda: max(world.slots(), default=0) >= end_s, within_ms=600_000)
        ran = world.slots()

        assert sorted(ran) == ran
        assert list(range(5, ran[-1] + 1, 5)) == sorted(set(ran))
        assert 1 == world.bodies_max["tick"]
        records = await world.history("tick")
        succeeded = [r.slot for r in records if r.status is Status.SUCCESS]

        assert len(succeeded) == len(set(succeeded))

    world.run(story())


async def test_short_outage_under_none_does_not_skip_a_slot_that_is_due_now(
    world: World,
) -> None:
    """
    catch_up = "none" drops a slot only when nobody was awake to claim it.
    """
    node = world.node()
    add_tick(world, node, interval="1h", catch_up="none")
    await node.start()
    await world.pass_ms(3_590_000)
    world.loop.jump(25)
    await world.pass_ms(1_000)

    assert [3_600] == world.slots()


async def test_slot_that_came_due_in_a_long_freeze_is_skipped_under_none(world: World) -> None:
    """
    The gap is told: as late here, and as missed by the next winner.
    """
    node = world.node()
    add_tick(world, node, interval="1h", catch_up="none")
    await node.start()
    await world.pass_ms(3_590_000)
    world.loop.jump(600)
    await world.pass_ms(3_600_000)

    assert [7_200] == world.slots()
    assert [(START_MS + 3_600_000, "late")] == [
        (event.slot, event.reason) for event in node.told("skip")
    ]
    assert [1] == [event.count for event in node.told("miss")]
