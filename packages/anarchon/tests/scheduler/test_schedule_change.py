"""
A job keeps its name and changes its schedule: it counts from the change.
"""

from __future__ import annotations

import json
from typing import Any

from virtual import START_MS, Node, World

from anarchon import Cron, Every, RunContext, Schedule
from anarchon.scheduler.registering import differing_years


def add_job(world: World, node: Node, schedule: Schedule, **options: Any) -> None:
    """
    Let a node run a job on that schedule.
    """

    async def job(ctx: RunContext) -> None:
        world.note(ctx)

    node.scheduler.job("job", schedule, job, **options)


async def replaced(world: World, before: Schedule, after: Schedule, **options: Any) -> Node:
    """
    Run a job on one schedule, be down for an hour, and start it on another.
    """
    first, second = world.node(), world.node()
    add_job(world, first, before, **options)
    await first.start()
    await world.pass_ms(25_000)
    await first.stop()
    await world.pass_ms(3_600_000)
    add_job(world, second, after, **options)
    await second.start()
    return second


async def test_changed_expression_is_no_missed_run(world: World) -> None:
    """
    Nothing fires at once after a deploy that changed the schedule, and nothing is told as missed.
    """
    node = await replaced(world, Every("10s"), Every("7s"))
    started_s = world.now_ms / 1_000
    await world.pass_ms(8_000)

    assert [10, 20] == world.slots()[:2]
    (slot,) = world.slots()[2:]

    assert slot > started_s
    assert 0 == (START_MS // 1_000 + slot) % 7
    assert [] == node.told("miss")
    (told,) = node.told("schedule")

    assert ("job", "changed") == (told.job, told.reason)


async def test_changed_schedule_catches_nothing_up_under_all(world: World) -> None:
    """
    Every slot after the change is run, none before it.
    """
    node = await replaced(world, Every("10s"), Every("5s"), catch_up="all")
    await world.pass_ms(16_000)

    assert [10, 20, 3_630, 3_635, 3_640] == world.slots()
    assert [] == node.told("miss")


async def test_instance_that_starts_after_the_change_counts_from_it_too(world: World) -> None:
    """
    `since` holds for every later start, not only for the one that brought the change.
    """
    node = await replaced(world, Every("1h", offset="1m"), Every("1h", offset="2m"))
    changed_ms = world.now_ms
    await node.stop()
    await world.pass_ms(1_000)
    third = world.node()
    add_job(world, third, Every("1h", offset="2m"))
    await third.start()
    await world.pass_ms(10_000)

    assert [] == world.slots()
    assert [] == third.told("schedule")
    await third.stop()
    await world.pass_ms(4 * 3_600_000)
    fourth = world.node()
    add_job(world, fourth, Every("1h", offset="2m"))
    await fourth.start()
    await world.pass_ms(1_000)
    (miss,) = fourth.told("miss")

    assert START_MS + changed_ms < miss.first_slot
    assert 1 == len(world.slots())


async def test_change_of_zone_makes_no_storm_and_no_silence(world: World) -> None:
    """
    New slots from now on, in the new zone.
    """
    before, after = Cron("0 * * * *"), Cron("0 * * * *", timezone="Asia/Kolkata")
    await replaced(world, before, after)
    await world.pass_ms(3_600_000)

    assert [5_400] == world.slots()


async def test_two_versions_at_once_tell_that_the_schedules_differ(world: World) -> None:
    """
    In a rolling deploy both schedules are active; whoever learns of it tells once.
    """
    old, new = world.node(), world.node()
    add_job(world, old, Every("10s"))
    add_job(world, new, Every("7s"))
    await old.start()
    await world.pass_ms(15_000)
    await new.start()
    await world.pass_ms(60_000)
    (told,) = old.told("schedule")

    assert ("job", "differs") == (told.job, told.reason)
    assert len(world.slots()) == len(set(world.slots()))
    await old.stop()
    await world.pass_ms(15_000)
    before = len(world.slots())
    await world.pass_ms(70_000)

    assert all((START_MS // 1_000 + slot) % 7 == 0 for slot in world.slots()[before:])


async def test_schedule_without_a_fingerprint_never_changes(world: World) -> None:
    """
    A user's own schedule that gives none is taken as it is.
    """

    class Own:
        """
        A schedule of the user's own.
        """

        def __init__(self, every: Every) -> None:
            self._every = every

        def next_slot(self, after_ms: int) -> int | None:
            """
            Forward.
            """
            return self._every.next_slot(after_ms)

        def last_slot(self, at_ms: int) -> int | None:
            """
            Forward.
            """
            return self._every.last_slot(at_ms)

    node = await replaced(world, Own(Every("10s")), Own(Every("30m")))
    await world.pass_ms(1_000)

    assert [] == node.told("schedule")
    assert 3 == len(world.slots())


async def test_zone_rules_that_differ_between_instances_are_told(world: World) -> None:
    """
    One instance has an older tzdata: its digests of a year differ, and only an event says so.
    """
    first, second = world.node(), world.node()
    for node in (first, second):
        add_job(world, node, Cron("0 8 * * *", timezone="Europe/Berlin"))
    await first.start()
    state = world.store.states["job"]
    digests = json.loads(state.zone_digests or "{}")
    object.__setattr__(state, "zone_digests", json.dumps({**digests, "2026": "other"}))
    await second.start()
    (told,) = second.told("schedule")

    assert "zone_rules" == told.reason
    assert "2026" in told.detail


def test_years_are_compared_one_by_one() -> None:
    """
    A new year in one of the two texts is no change; unreadable text neither.
    """
    assert [] == differing_years('{"2026": "a"}', '{"2026": "a", "2027": "b"}')
    assert ["2027"] == differing_years('{"2026": "a", "2027": "c"}', '{"2026": "a", "2027": "b"}')
    assert [] == differing_years(None, '{"2026": "a"}')
    assert [] == differing_years("no json", '{"2026": "a"}')
    assert [] == differing_years("3", "4")
