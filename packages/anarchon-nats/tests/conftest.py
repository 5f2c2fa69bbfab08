"""
What the tests share: real servers, backends on a prefix of their own, requests, processes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any
from urllib.parse import urlsplit

import pytest
from store_fixtures import asker, opener, prefix, started

import anarchon_testbed as testbed
from anarchon.backend import ClaimRequest, FinishRequest
from anarchon.records import Status
from anarchon_nats import NatsBackend
from anarchon_testbed.natswire import NatsAddress, ask_nats

__all__ = ["prefix", "started"]  # Fixtures are found by the names of this module.

TIMEOUT_MS = 10_000


@pytest.fixture(scope="session")
def url() -> str:
    """
    The newest NATS that can be had; the tests of a run share it.
    """
    return testbed.shared_url("nats")


@pytest.fixture
def administer(url: str) -> Callable[..., Any]:
    """
    Ask the shared server's JetStream something, as its operator would.
    """
    parts = urlsplit(url)
    address = NatsAddress(host=parts.hostname or "", port=parts.port or 0)
    return lambda call, body=None: ask_nats(address, f"$JS.API.{call}", body)


@pytest.fixture(scope="session")
def cluster() -> Iterator[testbed.NatsCluster]:
    """
    Three nodes, all of which run when a test begins.
    """
    with testbed.nats_cluster() as nodes:
        yield nodes


@pytest.fixture
def end() -> Callable[..., FinishRequest]:
    """
    Write the end of a run that a claim has won.
    """

    def end(claim: ClaimRequest, **options: Any) -> FinishRequest:
        options.setdefault("status", Status.SUCCESS)
        options.setdefault("token", claim.token)
        return FinishRequest(job=claim.job, slot=claim.slot, attempt=1, **options)

    return end


@pytest.fixture
def opened(
    request: pytest.FixtureRequest, prefix: str
) -> Callable[..., AbstractAsyncContextManager[NatsBackend]]:
    """
    Give open backends on the prefix, each with a connection of its own.
    """

    def make(place: str | None = None, **options: Any) -> NatsBackend:
        place = place or request.getfixturevalue("url")
        return NatsBackend(place, **{"prefix": prefix, **options})

    return opener(make, timeout_ms=TIMEOUT_MS)


@pytest.fixture
def ask() -> Callable[..., ClaimRequest]:
    """
    Write claims, each with a token of its own unless it is told one.
    """
    return asker()
