"""
What the tests share: a server, schemas of their own on it, open backends, requests, and processes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from itertools import count
from typing import Any

import pytest
from store_fixtures import asker, opener, started

import anarchon_testbed as testbed
from anarchon.backend import ClaimRequest
from anarchon_postgres import PostgresBackend

__all__ = ["started"]  # Fixtures are found by the names of this module.

TIMEOUT_MS = 20_000

_schemas = count(1)


@pytest.fixture(scope="session")
def shared_dsn() -> str:
    """
    A server that all tests share; nothing may be done to it but writing into schemas of one's own.
    """
    return testbed.shared_url("postgres")


@pytest.fixture
def schema() -> str:
    """
    A schema's name that nobody else uses.
    """
    return f"t{os.getpid()}_{next(_schemas)}"


@pytest.fixture
def server() -> Iterator[testbed.PostgresServer]:
    """
    A server of the test's own, to be killed, frozen and looked into.
    """
    with testbed.postgres(own=True) as started:
        yield started


@pytest.fixture
def opened(
    shared_dsn: str, schema: str
) -> Callable[..., AbstractAsyncContextManager[PostgresBackend]]:
    """
    Give open backends on one schema, each with connections of its own.
    """

    def make(dsn: str = shared_dsn, **options: Any) -> PostgresBackend:
        return PostgresBackend(dsn, schema=schema, **options)

    return opener(make, timeout_ms=TIMEOUT_MS)


@pytest.fixture
def ask() -> Callable[..., ClaimRequest]:
    """
    Write claims, each with a token of its own unless it is told one.
    """
    return asker(lease_ms=30_000)
