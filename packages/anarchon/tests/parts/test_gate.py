"""
The gate alone: what it hands up and down, and what a held step becomes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from anarchon.scheduler.gate import Gate


class Guard:
    """
    A guard that doubts once, and says what it is told to say.
    """

    def __init__(self, *, answer: bool | BaseException, doubt: int = 2) -> None:
        self.answer = answer
        self.steps = 0
        self.inside = 0
        self.doubt = doubt
        self.confirming: Callable[[], None] | None = None
        self.asked = asyncio.Event()
        self.word = asyncio.Event()

    def doubtful(self) -> bool:
        """
        Doubt before the step that was named.
        """
        self.steps += 1
        return self.steps == self.doubt

    async def confirm(self) -> bool:
        """
        Wait for the word, and say it.
        """
        if self.confirming is not None:
            self.confirming()
        self.asked.set()
        await self.word.wait()
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer

    def enter(self) -> None:
        """
        Count who is inside.
        """
        self.inside += 1

    def leave(self) -> None:
        """
        Count who is inside.
        """
        self.inside -= 1


class Body:
    """
    A handler of three steps, which notes what it sees.
    """

    def __init__(self) -> None:
        self.seen: list[str] = []

    async def run(self) -> str:
        """
        Take the steps.
        """
        try:
            for step in ("one", "two", "three"):
                self.seen.append(step)
                await asyncio.sleep(0)
        except asyncio.CancelledError as error:
            self.seen.append(f"cancelled: {error}")
            raise
        finally:
            self.seen.append("finally")
        return "result"


CUT = "cancelled: anarchon: the run is no longer this instance's"


async def gated(guard: Guard, body: Body) -> str:
    """
    Run a body behind its gate.
    """
    result: str = await Gate(body.run(), guard)
    return result


async def test_body_runs_to_its_result_when_the_guard_is_content() -> None:
    """
    Steps are counted in and out.
    """
    guard, body = Guard(answer=True, doubt=0), Body()

    assert "result" == await gated(guard, body)
    assert ["one", "two", "three", "finally"] == body.seen
    assert 0 == guard.inside


async def test_held_step_is_taken_after_a_yes() -> None:
    """
    Not one step before the word.
    """
    guard, body = Guard(answer=True), Body()
    running = asyncio.ensure_future(gated(guard, body))
    await guard.asked.wait()

    assert ["one"] == body.seen
    guard.word.set()

    assert "result" == await running


async def test_yes_that_a_second_freeze_has_outdated_is_asked_for_again() -> None:
    """
    Between the store's word and the step that it allows lies a moment in which the process may freeze once more.
    """

    class FrozenTwice(Guard):
        def doubtful(self) -> bool:
            self.steps += 1
            return self.steps in {2, 3}

        async def confirm(self) -> bool:
            return self.steps == 2

    guard, body = FrozenTwice(answer=True), Body()
    with pytest.raises(asyncio.CancelledError):
        await gated(guard, body)

    assert ["one", CUT, "finally"] == body.seen


@pytest.mark.parametrize("answer", [False, ValueError("broken"), asyncio.CancelledError()])
async def test_held_step_becomes_a_cancellation_without_a_yes(
    *,
    answer: bool | BaseException,
) -> None:
    """
    A refusal, or a guard that fails, cuts the body where it stands; its clean-up runs.
    """
    guard, body = Guard(answer=answer), Body()
    guard.word.set()
    with pytest.raises(asyncio.CancelledError):
        await gated(guard, body)

    assert ["one", CUT, "finally"] == body.seen


async def test_clean_up_after_a_cut_runs_ungated() -> None:
    """
    The cancellation is thrown once.
    """
    guard, seen = Guard(answer=False), []
    guard.word.set()

    async def body() -> None:
        try:
            await asyncio.sleep(0)
        finally:
            for _ in range(3):
                await asyncio.sleep(0)
                seen.append("clean")

    with pytest.raises(asyncio.CancelledError):
        await Gate(body(), guard)

    assert ["clean"] * 3 == seen
    assert 2 == guard.steps


async def test_cancellation_that_arrives_in_the_hold_is_delivered_after_a_yes() -> None:
    """
    It is no step in doubt, and it is not forgotten.
    """
    guard, body = Guard(answer=True), Body()
    running = asyncio.ensure_future(gated(guard, body))
    await guard.asked.wait()
    running.cancel("mine")
    await asyncio.sleep(0)

    assert ["one"] == body.seen
    guard.word.set()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert ["one", "cancelled: mine", "finally"] == body.seen


async def test_cancellation_in_the_very_instant_of_the_yes_is_not_forgotten() -> None:
    """
    The guard has answered, the held step has not been taken yet, and somebody cancels.
    """
    guard, body = Guard(answer=True), Body()
    running = asyncio.ensure_future(gated(guard, body))

    def confirming() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.add_done_callback(lambda _: running.cancel("mine"))

    guard.confirming = confirming
    guard.word.set()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert ["one", "cancelled: mine", "finally"] == body.seen


async def test_first_step_can_be_held_and_cut_too() -> None:
    """
    Then nothing of the body ever runs.
    """
    guard, body = Guard(answer=False, doubt=1), Body()
    guard.word.set()
    with pytest.raises(asyncio.CancelledError):
        await gated(guard, body)

    assert [] == body.seen


async def test_error_of_what_the_handler_awaits_reaches_it_as_it_was() -> None:
    """
    A future that fails raises in the handler, and is no cancellation from outside.
    """
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    error = ValueError("as it was")

    async def handler() -> BaseException | None:
        asyncio.get_running_loop().call_soon(future.set_exception, error)
        try:
            await future
        except ValueError as caught:
            return caught
        return None

    gate = Gate(handler(), Guard(answer=True, doubt=0))

    assert error is await gate
    assert not gate.was_cancelled_by(error)
