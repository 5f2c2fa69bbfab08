"""
Group commit, the agenda, and the other small machines of the scheduler, alone.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

import pytest
from virtual import VirtualClock, World

from anarchon import BackendError, StoreUnavailableError
from anarchon.scheduler.agenda import Agenda
from anarchon.scheduler.pump import Pump
from anarchon.scheduler.store_line import Backoff, StoreHealth, call_store


class Line:
    """
    A pump with a store that notes what is sent.
    """

    def __init__(self, world: World, *, after: Line | None = None, pause_ms: int = 0) -> None:
        self.world = world
        self.pause_ms = pause_ms
        self.sent: list[tuple[int, list[int]]] = []
        self.answers: list[int] = []
        self.unwanted: set[int] = set()
        self.pump: Pump[int, int] = Pump(
            send=self._send,
            answered=self._answered,
            wanted=lambda item: item not in self.unwanted,
            batch_max=3,
            health=StoreHealth(VirtualClock(world.loop), lambda _: None, "me"),
            backoff=Backoff(random.Random(1)),
            after=None if after is None else after.pump,
        )

    async def _send(self, items: Sequence[int]) -> Sequence[int | BackendError]:
        self.sent.append((self.world.now_ms, list(items)))
        await self.world.pass_ms(self.pause_ms)
        return [-item for item in items]

    def _answered(self, item: int, answer: int | BackendError) -> None:
        if item == 13:
            raise ValueError("a bug")
        assert isinstance(answer, int)
        self.answers.append(answer)


async def test_batches_are_cut_and_unwanted_items_are_dropped(world: World) -> None:
    """
    A batch of nothing is not sent.
    """
    line = Line(world)
    line.unwanted = {2, 8, 9}
    for item in range(1, 8):
        line.pump.put(item)
    working = asyncio.ensure_future(line.pump.work())
    await world.pass_ms(1)
    line.pump.put(8)
    line.pump.put(9)
    await world.pass_ms(1)
    line.pump.put(10)
    await world.pass_ms(1)
    line.pump.close()
    await working

    assert [[1, 3, 4], [5, 6, 7], [10]] == [items for _, items in line.sent]
    assert [-1, -3, -4, -5, -6, -7, -10] == line.answers


async def test_bug_in_following_one_answer_does_not_cost_the_others(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """
    Its neighbours in the batch hear theirs.
    """
    line = Line(world)
    for item in (12, 13, 14):
        line.pump.put(item)
    working = asyncio.ensure_future(line.pump.work())
    await world.pass_ms(1)
    line.pump.close()
    await working

    assert [-12, -14] == line.answers
    assert "an answer could not be followed up" in caplog.text


async def test_less_urgent_pump_waits_a_short_while_and_no_longer(world: World) -> None:
    """
    Claims go before finishes, but a slow claim does not hold up a finish for ever.
    """
    claims = Line(world, pause_ms=1_000)
    finishes = Line(world, after=claims)
    working = [asyncio.ensure_future(line.pump.work()) for line in (claims, finishes)]
    claims.pump.put(1)
    finishes.pump.put(2)
    await world.pass_ms(2_000)
    finishes.pump.put(3)
    await world.pass_ms(1)
    for line in (claims, finishes):
        line.pump.close()
    await asyncio.gather(*working)

    assert [(0, [1])] == claims.sent
    assert [(100, [2]), (2_000, [3])] == finishes.sent


async def test_agenda_calls_in_order_and_nothing_after_its_end(world: World) -> None:
    """
    One timer for all, moved forward by an earlier entry; a call may end the agenda.
    """
    agenda, called = Agenda(), []
    agenda.after(300, lambda: called.append((world.now_ms, "c")))
    agenda.after(100, lambda: called.append((world.now_ms, "a")))
    agenda.after(200, lambda: called.append((world.now_ms, "b")))
    await world.pass_ms(250)

    assert [(100, "a"), (200, "b")] == called
    agenda.after(10, agenda.stop)
    await world.pass_ms(1_000)
    agenda.after(1, lambda: called.append((world.now_ms, "late")))
    await world.pass_ms(1_000)

    assert 2 == len(called)


async def test_call_that_raises_does_not_end_the_agenda(world: World) -> None:
    """
    The next entries come at their time.
    """
    agenda, called = Agenda(), []

    def broken() -> None:
        raise ZeroDivisionError

    agenda.after(100, broken)
    agenda.after(200, lambda: called.append(world.now_ms))
    await world.pass_ms(300)
    problem = world.problems.pop()

    assert isinstance(problem["exception"], ZeroDivisionError)
    assert [200] == called


async def test_every_call_has_a_deadline_and_one_kind_of_error(world: World) -> None:
    """
    A backend that raises what the protocol does not know leaves the outcome unknown.
    """
    with pytest.raises(StoreUnavailableError, match="did not answer within 500 ms"):
        await call_store(asyncio.Event().wait(), timeout_ms=500)

    assert 500 == world.now_ms

    async def odd() -> None:
        raise KeyError("odd")

    with pytest.raises(StoreUnavailableError, match="the backend raised KeyError: 'odd'") as raised:
        await call_store(odd(), timeout_ms=500)

    assert isinstance(raised.value.__cause__, KeyError)


def test_pauses_grow_to_a_bound_and_begin_again() -> None:
    """
    Between half and all of a doubling ceiling, so that instances do not knock in step.
    """
    backoff = Backoff(random.Random(1), first_s=1, most_s=8)
    pauses = [backoff.next_s() for _ in range(6)]

    assert all(
        ceiling / 2 <= pause <= ceiling
        for pause, ceiling in zip(pauses, [1, 2, 4, 8, 8, 8], strict=True)
    )
    backoff.reset()

    assert backoff.next_s() <= 1
