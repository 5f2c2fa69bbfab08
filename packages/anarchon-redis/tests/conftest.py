"""
What the tests share: real servers, backends on a prefix of their own, requests, processes.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from store_fixtures import asker, opener, prefix, started

import anarchon_testbed as testbed
from anarchon.backend import ClaimRequest
from anarchon_redis import RedisBackend

__all__ = ["prefix", "started"]  # Fixtures are found by the names of this module.

TIMEOUT_MS = 10_000


@pytest.fixture(scope="session")
def url() -> str:
    """
    The newest Redis that can be had; the tests of a run share it.
    """
    return testbed.shared_url("redis")


@pytest.fixture
def opened(url: str, prefix: str) -> Callable[..., AbstractAsyncContextManager[RedisBackend]]:
    """
    Give open backends on the prefix, each with connections of its own.
    """

    def make(place: str = url, **options: Any) -> RedisBackend:
        return RedisBackend(place, **{"prefix": prefix, **options})

    return opener(make, timeout_ms=TIMEOUT_MS)


@pytest.fixture
def ask() -> Callable[..., ClaimRequest]:
    """
    Write claims, each with a token of its own unless it is told one.
    """
    return asker(lease_ms=30_000)
