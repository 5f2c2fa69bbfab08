"""
The stage's own look at a store, on real servers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

import anarchon_testbed as testbed
from anarchon import RunRecord, StoreUnavailableError
from anarchon_chaos import places
from anarchon_chaos.places import Store
from anarchon_chaos.stores import named

pytestmark = pytest.mark.slow


async def looked(*, comes_back: bool) -> Sequence[RunRecord]:
    """
    Read the history of a store whose server is gone, and comes back meanwhile or does not.
    """
    async with testbed.redis(own=True) as server:
        store = Store(named("redis-lease"), place="p", url=f"{server.url}?strategy=lease&prefix=p")
        await server.kill()
        looking = asyncio.create_task(store.records(["job"]))
        if comes_back:
            await server.start()
        return await looking


def test_a_store_that_is_slow_is_asked_again() -> None:
    """
    What a busy store does not give at the first try is no trouble of the scenario.
    """
    assert [] == asyncio.run(looked(comes_back=True))


def test_a_store_that_stays_away_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    After a while the store itself is the trouble.
    """
    monkeypatch.setattr(places, "_OPEN_MS_MAX", 0)

    with pytest.raises(StoreUnavailableError):
        asyncio.run(looked(comes_back=False))
