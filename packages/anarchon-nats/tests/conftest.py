"""
What the tests share: real servers, backends on a prefix of their own, requests, processes.
"""

from __future__ import annotations

import secrets
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import anarchon_testbed as testbed
from anarchon.backend import ClaimRequest, FinishRequest
from anarchon.records import Status
from anarchon_nats import NatsBackend
from anarchon_testbed.natswire import NatsAddress, ask_nats

TIMEOUT_MS = 10_000

_WORKERS = Path(__file__).parent / "workers"


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
def prefix() -> str:
    """
    A prefix that nobody has used.
    """
    return f"test-{secrets.token_hex(6)}"


@pytest.fixture
def opened(
    request: pytest.FixtureRequest, prefix: str
) -> Callable[..., AbstractAsyncContextManager[NatsBackend]]:
    """
    Give open backends on the prefix, each with a connection of its own.
    """

    @asynccontextmanager
    async def opened(place: str | None = None, **options: Any) -> AsyncIterator[NatsBackend]:
        options.setdefault("prefix", prefix)
        backend = NatsBackend(place or request.getfixturevalue("url"), **options)
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
