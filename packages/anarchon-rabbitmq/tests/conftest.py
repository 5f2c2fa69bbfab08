"""
What the tests share: real brokers, backends on a prefix of their own, requests, processes.
"""

from __future__ import annotations

import secrets
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

import anarchon_testbed as testbed
from anarchon.backend import ClaimRequest
from anarchon_rabbitmq import RabbitMQBackend

TIMEOUT_MS = 30_000

_WORKERS = Path(__file__).parent / "workers"


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
def prefix() -> str:
    """
    A prefix that nobody has used.
    """
    return f"test-{secrets.token_hex(6)}"


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

    @asynccontextmanager
    async def opened(place: str | None = None, **options: Any) -> AsyncIterator[RabbitMQBackend]:
        options.setdefault("prefix", prefix)
        backend = RabbitMQBackend(place or request.getfixturevalue("url"), **options)
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
