"""
A block is told however the question and the block happen to lie to each other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from anarchon.scheduler.loop_watch import LoopWatch, Step
from anarchon.testing import ManualClock

PERIOD_MS = 60_000


class HeldLoop(asyncio.SelectorEventLoop):
    """
    A loop that answers when it is told to.
    """

    def __init__(self) -> None:
        super().__init__()
        self.asked = asyncio.Event()
        self.answer: Callable[..., object] = print

    def call_soon_threadsafe(
        self, callback: Callable[..., object], *args: object, **_: object
    ) -> asyncio.Handle:
        """
        Keep the question.
        """
        self.answer = callback
        self.asked.set()
        return asyncio.Handle(callback, args, self)


def blocks_told(*, before_ms: int, after_ms: int, step: bool) -> list[tuple[str | None, int]]:
    """
    Ask a loop that has been in a step since *before_ms*, and let it answer after *after_ms*.
    """
    clock = ManualClock(1_000_000)
    told: list[tuple[str | None, int]] = []
    begun = Step("deaf", 0, 1, clock.suspend_ms() - before_ms) if step else None
    watch = LoopWatch(
        clock=clock,
        period_ms=PERIOD_MS,
        idle_ms=PERIOD_MS,
        busy=lambda: True,
        current=lambda: begun,
        blocked=lambda step, ms: told.append((None if step is None else step.job, ms)),
    )

    async def main() -> None:
        held = HeldLoop()
        asking = asyncio.ensure_future(watch._ask(held))
        await held.asked.wait()
        clock.advance(after_ms)
        held.answer()
        await asking
        held.close()

    asyncio.run(main())
    return told


@pytest.mark.parametrize(
    ("before_ms", "after_ms", "expected"),
    [
        (40_000, 30_000, [("deaf", 70_000)]),
        (0, 70_000, [("deaf", 70_000)]),
        (30_000, 20_000, []),
    ],
    ids=["asked late in it", "asked at its beginning", "shorter than the period"],
)
def test_a_block_longer_than_the_period_is_told_whenever_it_was_asked(
    before_ms: int, after_ms: int, expected: list[tuple[str | None, int]]
) -> None:
    """
    What counts is how long the step has held the loop up, not how long the question has waited.

    Found by the scenario blocked-heartbeat of chaos: of a block of 1.5 heartbeats nobody told, unless the question fell
    into its first third.
    """
    assert expected == blocks_told(before_ms=before_ms, after_ms=after_ms, step=True)


def test_a_block_without_a_handler_is_told_by_how_long_the_question_waited() -> None:
    """
    Whatever else holds the loop up has no name.
    """
    assert [(None, 70_000)] == blocks_told(before_ms=0, after_ms=70_000, step=False)
    assert [] == blocks_told(before_ms=0, after_ms=50_000, step=False)
