"""
Group commit: what has come due while the last call was in flight goes out as one batch.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, TypeVar

from anarchon.errors import BackendError, StoreUnavailableError
from anarchon.scheduler.store_line import Backoff, StoreHealth

__all__ = ["Pump"]

ItemT = TypeVar("ItemT")
AnswerT = TypeVar("AnswerT")

logger = logging.getLogger("anarchon")

_URGENT_S = 0.1


class Pump(Generic[ItemT, AnswerT]):
    """
    Send items to the store in batches, one call at a time.

    A lone item is sent at once; a thousand that come due together make a handful
    of round trips. Items of a call that failed are sent again, with the same
    tokens, as long as they are still wanted.

    Args:
        send: Makes the call for a batch.

        answered: Takes an item's answer, or its own error. Must not raise.

        wanted: Says whether an item is still to be sent.

        batch_max: The longest batch.

        health: Told of every call that was answered or not.

        backoff: The pauses after a failed call.

        after: A pump that is more urgent: this one lets it empty itself first, for
            a short while. In a burst of due slots claims go before finishes.
    """

    def __init__(
        self,
        *,
        send: Callable[[Sequence[ItemT]], Awaitable[Sequence[AnswerT | BackendError]]],
        answered: Callable[[ItemT, AnswerT | BackendError], None],
        wanted: Callable[[ItemT], bool],
        batch_max: int,
        health: StoreHealth,
        backoff: Backoff,
        after: Pump[Any, Any] | None = None,
    ) -> None:
        self._send = send
        self._answered = answered
        self._wanted = wanted
        self._batch_max = batch_max
        self._health = health
        self._backoff = backoff
        self._items: deque[ItemT] = deque()
        self._wake = asyncio.Event()
        self._after = after
        self._idle = asyncio.Event()
        self._idle.set()
        self._closed = False

    def put(self, item: ItemT) -> None:
        """
        Send *item* with the next batch.
        """
        self._items.append(item)
        self._idle.clear()
        self._wake.set()

    def close(self) -> None:
        """
        End work() after the call in flight.
        """
        self._closed = True
        self._wake.set()

    async def work(self) -> None:
        """
        Send batches until the pump is closed.
        """
        try:
            while not self._closed:
                if not self._items:
                    self._idle.set()
                    self._wake.clear()
                    await self._wake.wait()
                    continue
                if self._after is not None:
                    await self._after.emptied()
                batch = self._take()
                if batch:
                    await self._serve(batch)
        finally:
            self._idle.set()

    async def emptied(self) -> None:
        """
        Return when nothing is waiting here, or after a short while.
        """
        if self._idle.is_set():
            return
        try:
            async with asyncio.timeout(_URGENT_S):
                await self._idle.wait()
        except TimeoutError:
            return

    def _take(self) -> list[ItemT]:
        batch: list[ItemT] = []
        while self._items and len(batch) < self._batch_max:
            item = self._items.popleft()
            if self._wanted(item):
                batch.append(item)
        return batch

    async def _serve(self, batch: list[ItemT]) -> None:
        try:
            answers = await self._send(batch)
            if len(answers) != len(batch):
                msg = f"the backend gave {len(answers)} answers to {len(batch)} requests"
                raise StoreUnavailableError(msg)
        except BackendError as error:
            self._health.failed(error)
            self._items.extendleft(reversed(batch))
            if not self._closed:
                await self._health.pause(self._backoff.next_s())
            return
        self._backoff.reset()
        self._health.answered()
        for item, answer in zip(batch, answers, strict=True):
            try:
                self._answered(item, answer)
            except Exception:
                # Its neighbours in the batch have their answers too, and must hear them.
                logger.exception("an answer could not be followed up. This is a bug in anarchon")
