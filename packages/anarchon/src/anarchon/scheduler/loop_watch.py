"""
Notice from another thread that the handlers' loop is blocked, and by whose handler.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass

from anarchon.clock import Clock

__all__ = ["LoopWatch", "Step"]

logger = logging.getLogger("anarchon")


@dataclass(frozen=True, slots=True)
class Step:
    """
    A step of a handler that has begun: whose, and when by the suspend-counting clock.
    """

    job: str
    slot: int
    attempt: int
    since_ms: int


class LoopWatch:
    """
    Ask the handlers' loop for a sign of life, while there is a run that could block it.

    Args:
        clock: The instance's clocks.

        period_ms: How often to ask; an answer that takes longer is a block.

        busy: Says whether any run is held.

        current: Returns the step that runs right now, if one does.

        blocked: Told, on the handlers' loop, of a block that has ended: the step
            that was seen in it, and how long it lasted.
    """

    def __init__(
        self,
        *,
        clock: Clock,
        period_ms: int,
        idle_ms: int,
        busy: Callable[[], bool],
        current: Callable[[], Step | None],
        blocked: Callable[[Step | None, int], None],
    ) -> None:
        self._clock = clock
        self._period_s = period_ms / 1_000
        self._idle_s = idle_ms / 1_000
        self._busy = busy
        self._current = current
        self._blocked = blocked
        self.main_loop: asyncio.AbstractEventLoop | None = None

    async def watch(self) -> None:
        """
        Ask until cancelled. Runs on the renewals' loop.
        """
        while True:
            await asyncio.sleep(self._period_s if self._busy() else self._idle_s)
            if self._busy() and self.main_loop is not None:
                await self._ask(self.main_loop)

    async def _ask(self, main_loop: asyncio.AbstractEventLoop) -> None:
        asked_ms, begun = self._clock.suspend_ms(), self._current()
        here = asyncio.get_running_loop()
        answered = asyncio.Event()
        seen: list[Step] = []

        def answer() -> None:
            with contextlib.suppress(RuntimeError):
                here.call_soon_threadsafe(answered.set)
            now_ms, period_ms = self._clock.suspend_ms(), self._period_s * 1_000
            # Asked late in a block that is not much longer than the period, the question itself waits for less.
            late = begun is not None and now_ms - begun.since_ms > period_ms
            if seen or late or now_ms - asked_ms > period_ms:
                step = seen[0] if seen else begun if late else None
                since_ms = asked_ms if step is None else min(asked_ms, step.since_ms)
                self._blocked(step, now_ms - since_ms)

        try:
            main_loop.call_soon_threadsafe(answer)
        except RuntimeError:
            return
        try:
            async with asyncio.timeout(self._period_s):
                await answered.wait()
        except TimeoutError:
            step = self._current()
            if step is not None:
                seen.append(step)
            logger.warning(
                "the event loop has been blocked for %d ms%s; its leases are renewed from another thread",
                self._clock.suspend_ms()
                - (asked_ms if step is None else min(asked_ms, step.since_ms)),
                "" if step is None else f" by the handler of job {step.job!r}",
            )
            await answered.wait()
