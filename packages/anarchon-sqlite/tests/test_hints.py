"""
Hints: what a watcher hears, and what it does not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import pytest

from anarchon.backend import ClaimRequest, FinishRequest, ReleaseRequest
from anarchon.records import Status
from anarchon_sqlite import SqliteBackend

TIMEOUT_MS = 10_000

Ask = Callable[..., ClaimRequest]
Opened = Callable[..., AbstractAsyncContextManager[SqliteBackend]]


@pytest.mark.parametrize("same", [True, False], ids=["own", "another's"])
def test_a_release_is_heard(opened: Opened, ask: Ask, same: bool) -> None:  # noqa: FBT001 - pytest gives it by name
    """
    A watcher hears of a release by its own backend and by another one, long before its timeout.
    """

    async def scenario() -> None:
        async with opened() as watcher, opened() as other:
            backend = watcher if same else other
            claims = [ask("job", 5), ask("untouched", 5)]
            await backend.claim(claims, timeout_ms=TIMEOUT_MS)
            watch = asyncio.create_task(
                watcher.next_hint([("job", 5, 1), ("untouched", 5, 1)], timeout_ms=TIMEOUT_MS)
            )
            # The watch has looked once when a second look of somebody else's has been served.
            await watcher.history(None, limit=1, timeout_ms=TIMEOUT_MS)
            await watcher.history(None, limit=1, timeout_ms=TIMEOUT_MS)
            assert not watch.done()
            release = ReleaseRequest(job="job", slot=5, attempt=1, token=claims[0].token)
            await backend.release([release], timeout_ms=TIMEOUT_MS)

            assert frozenset({"job"}) == await watch

    asyncio.run(scenario())


def test_what_has_changed_already_is_told_at_once(opened: Opened, ask: Ask) -> None:
    """
    A run that is over, taken over or unknown needs no change to be told of.
    """

    async def scenario() -> None:
        async with opened() as backend:
            claims = [ask("over", 5), ask("taken", 5), ask("goes on", 5)]
            await backend.claim(claims, timeout_ms=TIMEOUT_MS)
            finish = FinishRequest(
                job="over", slot=5, attempt=1, token=claims[0].token, status=Status.SUCCESS
            )
            await backend.finish([finish], timeout_ms=TIMEOUT_MS)
            release = ReleaseRequest(job="taken", slot=5, attempt=1, token=claims[1].token)
            await backend.release([release], timeout_ms=TIMEOUT_MS)
            await backend.claim([ask("taken", 5, attempt=2)], timeout_ms=TIMEOUT_MS)
            watched = [(job, 5, 1) for job in ("over", "taken", "goes on", "unknown")]

            assert frozenset({"over", "taken", "unknown"}) == await backend.next_hint(
                watched, timeout_ms=TIMEOUT_MS
            )

    asyncio.run(scenario())


def test_a_quiet_watch_ends_at_its_timeout(opened: Opened, ask: Ask) -> None:
    """
    Where nobody writes at all, a watcher looks now and then, and hears of nothing.
    """

    async def scenario() -> None:
        async with opened() as backend:
            await backend.claim([ask("job", 5)], timeout_ms=TIMEOUT_MS)

            assert frozenset() == await backend.next_hint([("job", 5, 1)], timeout_ms=400)

    asyncio.run(scenario())


def test_a_watch_ends_at_its_timeout(opened: Opened, ask: Ask) -> None:
    """
    Other jobs' commits wake nobody, and neither does a renewal.
    """

    async def scenario() -> None:
        async with opened() as watcher, opened() as other:
            await other.claim([ask("job", 5)], timeout_ms=TIMEOUT_MS)
            watch = asyncio.create_task(watcher.next_hint([("job", 5, 1)], timeout_ms=400))
            slot = 5
            while not watch.done():
                slot += 1
                await other.claim([ask("other", slot)], timeout_ms=TIMEOUT_MS)
                await asyncio.sleep(0.02)

            assert frozenset() == await watch

    asyncio.run(scenario())
