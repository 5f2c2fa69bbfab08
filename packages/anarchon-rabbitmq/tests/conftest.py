"""
What the tests share: real brokers, backends on a prefix of their own, requests, processes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from store_fixtures import asker, opener, prefix, started

import anarchon_testbed as testbed
from anarchon.backend import ClaimRequest
from anarchon_rabbitmq import RabbitMQBackend

__all__ = ["prefix", "started"]  # Fixtures are found by the names of this module.

TIMEOUT_MS = 30_000


@pytest.fixture(scope="session")
def url() -> str:
    """
    The newest RabbitMQ that can be had; the tests of a run share it.
    """
    return testbed.shared_url("rabbitmq")


@pytest.fixture(scope="session")
def broker() -> Iterator[testbed.RabbitMQServer]:
    """
    A RabbitMQ of these tests' own, which they may break.
    """
    with testbed.rabbitmq(own=True) as server:
        yield server


@pytest.fixture
def now_ms() -> int:
    """
    The time by this machine's clock, in milliseconds since 1970.
    """
    return time.time_ns() // 1_000_000


@pytest.fixture
def opened(
    request: pytest.FixtureRequest, prefix: str
) -> Callable[..., AbstractAsyncContextManager[RabbitMQBackend]]:
    """
    Give open backends on the prefix, each with a connection of its own.
    """

    def make(place: str | None = None, **options: Any) -> RabbitMQBackend:
        place = place or request.getfixturevalue("url")
        return RabbitMQBackend(place, **{"prefix": prefix, **options})

    return opener(make, timeout_ms=TIMEOUT_MS)


@pytest.fixture
def ask() -> Callable[..., ClaimRequest]:
    """
    Write claims, each with a token of its own unless it is told one.
    """
    return asker()
