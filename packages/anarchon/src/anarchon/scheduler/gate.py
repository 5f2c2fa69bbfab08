"""
The gate: drive a handler's coroutine, and look at the lease before each of its steps.

A fence that falls on time cancels the handler. After a freeze it is found late;
then the handler is held, not cancelled, until the store has said that the run is
still its own. A refusal, or no answer in time, cancels it there: not one step of
the body runs in doubt. Clean-up (``finally``, ``except CancelledError``) runs
ungated after that, since the cancellation is thrown once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from typing import Any, Protocol

__all__ = ["Gate", "Guard", "cut_message"]

cut_message = "anarchon: the run is no longer this instance's"


class Guard(Protocol):
    """
    What a gate asks before each step.
    """

    def doubtful(self) -> bool:
        """
        Say whether the lease may be over. Called before every step, so it is cheap.
        """

    async def confirm(self) -> bool:
        """
        Find out whether the run is still this instance's; False cuts the handler.
        """

    def enter(self) -> None:
        """
        A step begins.
        """

    def leave(self) -> None:
        """
        A step has ended.
        """


class Gate:
    """
    An awaitable that runs *coroutine* as long as *guard* lets it.
    """

    __slots__ = ("_cancels", "_coroutine", "_cut", "_guard", "_outside")

    def __init__(self, coroutine: Coroutine[Any, Any, Any], guard: Guard) -> None:
        self._coroutine = coroutine
        self._guard = guard
        self._cut = False
        self._cancels = 0
        self._outside: BaseException | None = None

    def was_cancelled_by(self, error: BaseException) -> bool:
        """
        Say whether *error* is a cancellation of the task itself, and not one that the handler made.

        The task's own count does not tell: on Python 3.11 a TaskGroup that has failed
        leaves it at one for good.
        """
        return error is self._outside

    def __await__(self) -> Generator[Any, Any, Any]:
        """
        Drive the coroutine: what it awaits is handed up, what comes back is handed down.
        """
        coroutine, guard = self._coroutine, self._guard
        step: Callable[[Any], Any] = coroutine.send
        value: Any = None
        while True:
            # Again after each yes: a second freeze may have come between the store's word and this step.
            while not self._cut and guard.doubtful():
                step, value = yield from self._hold(step, value)
            guard.enter()
            try:
                awaited = step(value)
            except StopIteration as end:
                return end.value
            finally:
                guard.leave()
            try:
                value = yield awaited
                step = coroutine.send
            except GeneratorExit:
                # Its loop has gone: nobody can be asked any more, and nothing can be awaited.
                coroutine.close()
                raise
            except BaseException as error:  # noqa: BLE001 - it is the handler's to see
                step, value = coroutine.throw, error
                self._note(error)

    def _note(self, error: BaseException) -> None:
        """
        Remember a cancellation of the task: its count has gone up.
        """
        if not isinstance(error, asyncio.CancelledError):
            return
        task = asyncio.current_task()
        assert task is not None  # A gate is awaited, and only tasks await.
        cancels = task.cancelling()
        if cancels > self._cancels:
            self._outside = error
        self._cancels = cancels

    def _hold(
        self, step: Callable[[Any], Any], value: Any
    ) -> Generator[Any, Any, tuple[Callable[[Any], Any], Any]]:
        """
        Keep the handler where it is until its run is known to be its own, or not.

        A cancellation that arrives meanwhile, from a timeout of the handler's own
        say, must not become a step in doubt: it is delivered afterwards.
        """
        task = asyncio.ensure_future(self._guard.confirm())
        while not task.done():
            try:
                yield from asyncio.shield(task).__await__()
            except asyncio.CancelledError as error:
                step, value = self._coroutine.throw, error
                self._note(error)
            except Exception:  # noqa: BLE001 - read below, from the task itself
                break
        if not task.cancelled() and task.exception() is None and task.result():
            return step, value
        self._cut = True
        return self._coroutine.throw, asyncio.CancelledError(cut_message)
