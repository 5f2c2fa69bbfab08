"""
For tests: a clock that is moved by hand, and the memory backends as the kit opens them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from anarchon.memory import MemoryBackend, MemoryClaimBackend, MemoryStore
from anarchon.records import Retention

__all__ = ["ManualClock", "open_memory", "open_memory_claim"]

_OPEN_TIMEOUT_MS = 5_000


class ManualClock:
    """
    A clock that stands until it is moved.

    Args:
        wall_ms: Where the wall clock starts, in milliseconds since 1970.
    """

    def __init__(self, wall_ms: int = 1_767_225_600_000) -> None:
        self._wall_ms = wall_ms
        self._suspend_ms = 0

    def wall_ms(self) -> int:
        """
        Read the wall clock.
        """
        return self._wall_ms

    def suspend_ms(self) -> int:
        """
        Read the clock that never steps.
        """
        return self._suspend_ms

    def advance(self, duration_ms: int) -> None:
        """
        Let time pass on both clocks.
        """
        self._wall_ms += duration_ms
        self._suspend_ms += duration_ms

    def step(self, duration_ms: int) -> None:
        """
        Step the wall clock alone, as an administrator would.
        """
        self._wall_ms += duration_ms


# The kit opens one namespace several times, as several instances would. A store
# lives here as long as the process, which is as far as it reaches.
_STORES: dict[tuple[str, str], MemoryStore] = {}


def _store(kind: str, namespace: str, retention: Retention | None) -> MemoryStore:
    store = _STORES.setdefault((kind, namespace), MemoryStore())
    if retention is not None:
        store.retention = retention
    return store


@asynccontextmanager
async def open_memory(
    namespace: str, *, retention: Retention | None = None
) -> AsyncIterator[MemoryBackend]:
    """
    Open a client of the lease store of that namespace.
    """
    backend = MemoryBackend(_store("lease", namespace, retention))
    await backend.open(timeout_ms=_OPEN_TIMEOUT_MS)
    try:
        yield backend
    finally:
        await backend.close()


@asynccontextmanager
async def open_memory_claim(
    namespace: str, *, retention: Retention | None = None
) -> AsyncIterator[MemoryClaimBackend]:
    """
    Open a client of the claim-only store of that namespace.
    """
    backend = MemoryClaimBackend(_store("claim", namespace, retention))
    await backend.open(timeout_ms=_OPEN_TIMEOUT_MS)
    try:
        yield backend
    finally:
        await backend.close()
