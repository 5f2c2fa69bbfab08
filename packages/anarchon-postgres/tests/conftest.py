"""
What the tests share: a server, schemas of their own on it, open backends, requests, and processes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import anarchon_testbed as testbed
from anarchon.backend import ClaimRequest
from anarchon_postgres import PostgresBackend

TIMEOUT_MS = 20_000

_WORKERS = Path(__file__).parent / "workers"
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

    @asynccontextmanager
    async def opened(dsn: str = shared_dsn, **options: Any) -> AsyncIterator[PostgresBackend]:
        backend = PostgresBackend(dsn, schema=schema, **options)
        await backend.open(timeout_ms=TIMEOUT_MS)
        try:
            yield backend
        finally:
            await backend.close()

    return opened


@pytest.fixture
def ask() -> Callable[..., ClaimRequest]:
    """
    Write claims, each with a token of its own unless it is told one.
    """
    tokens = count(1)

    def ask(job: str, slot: int, **options: Any) -> ClaimRequest:
        options.setdefault("token", f"token-{next(tokens)}")
        options.setdefault("instance_id", "host:1")
        options.setdefault("lease_ms", 30_000)
        return ClaimRequest(job=job, slot=slot, **options)

    return ask


@pytest.fixture
def started() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """
    Start workers (scripts beside the tests), and end those that are left.
    """
    processes: list[subprocess.Popen[str]] = []

    def started(worker: str, *arguments: object) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, str(_WORKERS / f"{worker}.py"), *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
        return process

    yield started
    for process in processes:
        process.kill()
        process.communicate()
