"""
The life of a memory backend, whichever kind it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Self, TypeVar

from anarchon.errors import BackendError
from anarchon.life import Life
from anarchon.memory.store import MemoryStore
from anarchon.protocol import (
    Now,
)
from anarchon.records import Retention, RunRecord
from anarchon.registry import url_options

__all__ = ["OpenedMemory"]

Request = TypeVar("Request")
Answer = TypeVar("Answer")


class OpenedMemory:
    """
    The life of a memory backend: unopened, open, closed.
    """

    def __init__(
        self, store: MemoryStore | None = None, *, retention: Retention | None = None
    ) -> None:
        if store is None:
            store = MemoryStore() if retention is None else MemoryStore(retention=retention)
        self._store = store
        self._life = Life()
        self._watches: dict[Callable[[], None], None] = {}

    @classmethod
    def from_url(cls, url: str) -> Self:
        """
        Build a backend from ``memory:``; each URL that is read is a store of its own.
        """
        url_options(url, {})
        return cls()

    @property
    def service(self) -> str:
        """
        The store in words.
        """
        return "memory of this process"

    def clone(self) -> Self:
        """
        Return an unopened backend that shares this one's store.
        """
        return type(self)(self._store)

    async def open(self, *, timeout_ms: int) -> None:  # noqa: ARG002 - memory answers at once
        """
        Make the backend usable, once.
        """
        async with self._life.opening():
            pass  # There is nothing to connect to.

    async def close(self) -> None:
        """
        End the backend's life, and its watches; the store stays.
        """
        self._life.close()
        for wake in tuple(self._watches):
            wake()

    async def time(self, *, timeout_ms: int) -> int | None:  # noqa: ARG002 - memory answers at once
        """
        Tell the store's wall clock.
        """
        self._check()
        return self._store.clock.wall_ms()

    async def history(
        self,
        job: str | None,
        *,
        limit: int,
        timeout_ms: int,  # noqa: ARG002 - memory answers at once
    ) -> Sequence[RunRecord]:
        """
        Return the newest records, newest first.
        """
        self._check()
        store = self._store
        with store.lock:
            names = list(store.records) if job is None else [job]
            found = [
                stored.record for name in names for stored in store.records.get(name, {}).values()
            ]
        found.sort(key=lambda record: record.attempt, reverse=True)
        found.sort(key=lambda record: record.job)
        found.sort(key=lambda record: record.slot, reverse=True)
        return found[: max(0, limit)]

    def _check(self) -> None:
        self._life.check_open()

    def _each(
        self, requests: Sequence[Request], serve: Callable[[Request, Now], Answer]
    ) -> list[Answer | BackendError]:
        """
        Serve each request by itself: one item's error never fails its neighbours.
        """
        self._check()
        answers: list[Answer | BackendError] = []
        with self._store.lock:
            now = self._store.now()
            for request in requests:
                try:
                    answers.append(serve(request, now))
                except BackendError as error:
                    answers.append(error)
        return answers
