"""
One deadline around every call to a store, and what is learned from its answers.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from random import Random
from typing import TypeVar

from anarchon.backend import EARLY_TOLERANCE_MS
from anarchon.clock import Clock
from anarchon.errors import BackendError, StoreUnavailableError
from anarchon.events import ClockEvent, Event, OutageEvent, RecoveredEvent

__all__ = ["Backoff", "StoreClock", "StoreHealth", "call_store"]

T = TypeVar("T")

logger = logging.getLogger("anarchon")

_STEP_MS = 1_000


async def call_store(call: Awaitable[T], *, timeout_ms: int) -> T:
    """
    Await a call to a backend, for *timeout_ms* milliseconds at the most.

    Raises:
        StoreUnavailableError: No answer in time, or an exception that is not of the
            protocol: the outcome is unknown.

        BackendError: What the backend itself raised.
    """
    try:
        async with asyncio.timeout(timeout_ms / 1_000):
            return await call
    except BackendError:
        raise
    except TimeoutError as error:
        msg = f"the store did not answer within {timeout_ms} ms"
        raise StoreUnavailableError(msg) from error
    except Exception as error:
        msg = f"the backend raised {type(error).__name__}: {error}"
        raise StoreUnavailableError(msg) from error


class Backoff:
    """
    Growing random pauses between tries, so that no two instances knock in step.
    """

    __slots__ = ("_ceiling_s", "_first_s", "_most_s", "_random")

    def __init__(self, random: Random, *, first_s: float = 0.1, most_s: float = 5.0) -> None:
        self._random = random
        self._first_s = first_s
        self._most_s = most_s
        self._ceiling_s = first_s

    def next_s(self) -> float:
        """
        Return the next pause in seconds: between half and all of a doubling ceiling.
        """
        pause_s = self._ceiling_s * (0.5 + self._random.random() / 2)
        self._ceiling_s = min(self._ceiling_s * 2, self._most_s)
        return pause_s

    def reset(self) -> None:
        """
        Begin again: the store has answered.
        """
        self._ceiling_s = self._first_s


class StoreHealth:
    """
    Whether the store answers: an outage is told once, and so is its end.
    """

    def __init__(self, clock: Clock, emit: Callable[[Event], None], instance_id: str) -> None:
        self._clock = clock
        self._emit = emit
        self._instance_id = instance_id
        self._since_ms: int | None = None
        self._waiters: dict[asyncio.Event, None] = {}  # In order, as the executor's runs.

    def failed(self, error: BaseException) -> None:
        """
        A call was not answered.
        """
        if self._since_ms is None:
            self._since_ms = self._clock.suspend_ms()
            logger.warning("the store does not answer, and is asked again until it does: %s", error)
            self._emit(OutageEvent(instance=self._instance_id, error=error))

    def answered(self) -> None:
        """
        A call was answered.
        """
        if self._since_ms is None:
            return
        duration_ms = self._clock.suspend_ms() - self._since_ms
        self._since_ms = None
        logger.info("the store answers again, after %d ms", duration_ms)
        self._emit(RecoveredEvent(instance=self._instance_id, duration_ms=duration_ms))
        self.wake()

    def wake(self) -> None:
        """
        End every pause now.
        """
        for waiter in tuple(self._waiters):
            waiter.set()

    async def pause(self, pause_s: float) -> None:
        """
        Wait before another try; shorter if somebody else gets an answer first.
        """
        recovered = asyncio.Event()
        self._waiters[recovered] = None
        try:
            async with asyncio.timeout(pause_s):
                await recovered.wait()
        except TimeoutError:
            pass
        finally:
            del self._waiters[recovered]


class StoreClock:
    """
    What is known here of the store's clock, from the answers that carried it.

    Deadlines travel as instants on the store's clock; they are computed from a
    lower bound of it, so that a claim expires in the store no later than its
    sender gives it up.
    """

    def __init__(self, clock: Clock, emit: Callable[[Event], None], instance_id: str) -> None:
        self._clock = clock
        self._emit = emit
        self._instance_id = instance_id
        # The store's clock less the suspend-counting one, as far as the last answer tells:
        # the store read its clock somewhere between sending and receiving.
        self._least_ms: int | None = None
        self._most_ms = 0

    @property
    def known(self) -> bool:
        """
        Whether the store has ever told its time.
        """
        return self._least_ms is not None

    @property
    def ahead_ms(self) -> int:
        """
        By how much this instance's wall clock is to be set back: nothing while it may be right within the tolerance.

        One that is certainly wrong is set back by the most that it can be ahead: it is late by no more than an
        answer takes, and nothing starts before its slot. Read at each look, so that a step of the own clock counts
        at once.
        """
        if self._least_ms is None:
            return 0
        own_ms = self._clock.wall_ms() - self._clock.suspend_ms()
        return 0 if own_ms - self._most_ms <= EARLY_TOLERANCE_MS else own_ms - self._least_ms

    def now_ms(self) -> int:
        """
        Return the store's time, or a little less; the own wall clock where it tells none.
        """
        if self._least_ms is None:
            return self._clock.wall_ms()
        return self._least_ms + self._clock.suspend_ms()

    def heard(self, store_ms: int | None, *, sent_ms: int, received_ms: int) -> None:
        """
        Learn from one answer.

        A step is told only if no latency explains it, of this answer or the one before.

        Args:
            store_ms: The store's clock when it answered; None if it has none.

            sent_ms: When the question was sent, by the suspend-counting clock.

            received_ms: When the answer came, by the same clock.
        """
        if store_ms is None:
            return
        least_ms, most_ms = store_ms - received_ms, store_ms - sent_ms
        if self._least_ms is not None:
            step_ms = max(0, least_ms - self._most_ms) or min(0, most_ms - self._least_ms)
            if abs(step_ms) > _STEP_MS:
                logger.warning("the store's clock has stepped by %d ms", step_ms)
                self._emit(ClockEvent(instance=self._instance_id, which="store", step_ms=step_ms))
        self._least_ms, self._most_ms = least_ms, most_ms
