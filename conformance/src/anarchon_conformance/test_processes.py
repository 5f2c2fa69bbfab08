"""
What only several processes can show: their races, their deaths, and their clocks.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

from anarchon.backend import Verdict
from anarchon.clock import SystemClock
from anarchon_conformance.children import start_child
from anarchon_conformance.harness import Bench
from anarchon_conformance.marking import clause

_SLOTS = 40
_OFFSET_MS = 600_000


@clause("CLM-3")
async def test_one_winner_among_processes(bench: Bench) -> None:
    """
    Three processes and this one claim the same runs, and each run has one winner.
    """
    async with bench.world() as world, AsyncExitStack() as stack:
        await world.join()
        slots = [world.slot(index) for index in range(_SLOTS)]
        children = [
            await stack.enter_async_context(
                start_child(world, "race", label=f"child:{place}", slots=slots)
            )
            for place in range(3)
        ]
        for child in children:
            child.tell("go")
        told = await asyncio.gather(*(child.hear() for child in children))
        won = [
            sum(each["verdicts"][index] == Verdict.WON for each in told) for index in range(_SLOTS)
        ]

        assert [1] * _SLOTS == won


@clause("TKO-13")
async def test_run_of_a_killed_process_is_taken_over(bench: Bench) -> None:
    """
    A process dies in the middle of a run, and another one goes on with attempt 2.
    """
    async with bench.world() as world:
        backup = await world.join()
        slot = world.slot(1)
        async with start_child(world, "hold", label="child:1", slots=[slot], stay=True) as child:
            child.tell("go")
            told = await child.hear()
            await child.kill()
        answer = await backup.take_over(slot, 2)
        records = await backup.history()

        assert [Verdict.WON] == told["verdicts"]
        assert Verdict.WON == answer.verdict
        assert [(2, backup.label), (1, "child:1")] == [
            (record.attempt, record.instance_id) for record in records
        ]


@clause("LAT-6")
async def test_wrong_clock_changes_no_answer(bench: Bench) -> None:
    """
    An instance ten minutes ahead, and one ten minutes behind, hear what everyone hears.
    """
    expected = {"due": "won", "ahead": "early", "expired": "late"}
    if bench.capabilities.leases:
        expected |= {"young": "won", "old": "late", "held": "running", "future": "refused"}
    for offset_ms in (-_OFFSET_MS, _OFFSET_MS):
        async with bench.world() as world:
            instance = await world.join()
            slot = world.slot(1)
            await instance.win(slot)
            child_of = start_child(
                world,
                "clocks",
                label="child:1",
                offset_ms=offset_ms,
                slots=[slot],
                now_ms=await instance.now_ms(),
            )
            async with child_of as child:
                before_ms = await instance.now_ms()
                child.tell("go")
                told = await child.hear()
                after_ms = await instance.now_ms()
            slack_ms = bench.capabilities.time_resolution_ms
            own_ms = SystemClock().wall_ms()

            assert expected == {name: told[name] for name in expected}
            for name in ("store_ms", "claimed_ms"):
                assert before_ms - slack_ms <= told[name] <= after_ms + slack_ms, name
            for clock_ms in told["own_ms"]:
                assert abs(clock_ms - own_ms - offset_ms) < _OFFSET_MS / 2, "the clock does not lie"
