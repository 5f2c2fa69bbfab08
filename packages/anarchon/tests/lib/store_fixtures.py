"""
What the tests of every store's distribution share: open backends, requests, processes, and the cost of an outage.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from itertools import count
from typing import Any, Protocol, TypeVar

import pytest

from anarchon import Scheduler
from anarchon.backend import Backend, ClaimRequest
from anarchon.errors import StoreUnavailableError

__all__ = [
    "OUTAGE_SHARE_MAX",
    "asker",
    "cost_of_an_outage",
    "line",
    "opener",
    "prefix",
    "started",
    "tell",
    "until_answered",
]

OUTAGE_SHARE_MAX = 0.02
"""
How much of a core an instance may use while its server is down, as the docs say.
"""

_TRIES_MAX = 200
_PAUSE_S = 0.1
_OUTAGE_WINDOW_S = 5.0
_OUTAGE_JOBS = 20

_Opened = TypeVar("_Opened", bound=Backend)
_Answer = TypeVar("_Answer")


class Server(Protocol):
    """
    A server that can be ended and begun again.
    """

    async def kill(self) -> None: ...

    async def start(self) -> None: ...


@pytest.fixture
def prefix() -> str:
    """
    A prefix that nobody has used.
    """
    return f"test-{secrets.token_hex(6)}"


@pytest.fixture
def started(request: pytest.FixtureRequest) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """
    Start workers (scripts in the folder beside the tests), and end those that are left.
    """
    workers = request.path.parent / "workers"
    processes: list[subprocess.Popen[str]] = []

    def started(worker: str, *arguments: object) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, str(workers / f"{worker}.py"), *map(str, arguments)],
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


def line(process: subprocess.Popen[str]) -> str:
    """
    Read what a worker says next, and not a byte beyond its line.

    communicate() reads the pipe itself, and would not find what a file object has read ahead.
    """
    assert process.stdout is not None
    said = bytearray()
    while (byte := os.read(process.stdout.fileno(), 1)) not in (b"", b"\n"):
        said += byte
    return said.decode().strip()


def tell(process: subprocess.Popen[str], text: str = "") -> None:
    """
    Send a line to a worker.
    """
    assert process.stdin is not None
    process.stdin.write(text + "\n")
    process.stdin.flush()


def opener(
    make: Callable[..., _Opened], *, timeout_ms: int
) -> Callable[..., AbstractAsyncContextManager[_Opened]]:
    """
    Give open backends, each with connections of its own.
    """

    @asynccontextmanager
    async def opened(*place: Any, **options: Any) -> AsyncIterator[_Opened]:
        backend = make(*place, **options)
        await backend.open(timeout_ms=timeout_ms)
        try:
            yield backend
        finally:
            await backend.close()

    return opened


def asker(**defaults: Any) -> Callable[..., ClaimRequest]:
    """
    Write claims, each with a token of its own unless it is told one.
    """
    tokens = count(1)

    def ask(job: str, slot: int, **options: Any) -> ClaimRequest:
        given = {"instance_id": "host:1", **defaults, **options}
        given.setdefault("token", f"token-{next(tokens)}")
        return ClaimRequest(job=job, slot=slot, **given)

    return ask


async def until_answered(call: Callable[[], Awaitable[_Answer]]) -> _Answer:
    """
    Ask as a scheduler does: again, until there is an answer.

    What disturbs a server may reach a connection long after whoever caused it was told that it is done.
    """
    for _ in range(_TRIES_MAX):
        try:
            return await call()
        except StoreUnavailableError:
            await asyncio.sleep(
                _PAUSE_S
            )  # The pause between two tries: a server tells nobody that it is back.
    raise TimeoutError("no answer in any try")


async def cost_of_an_outage(server: Server, backend: Backend) -> float:
    """
    Kill the server of a scheduler with 20 jobs of every second; return its share of a core until it comes back.

    The jobs run before, and again afterwards by themselves.
    """
    scheduler = Scheduler(backend)
    ran, out, back = asyncio.Event(), asyncio.Event(), asyncio.Event()
    for number in range(_OUTAGE_JOBS):
        scheduler.every(f"job-{number}", "1s", ran.set, jitter="50ms")
    scheduler.on("outage", lambda _event: out.set())
    scheduler.on("recovered", lambda _event: back.set())
    async with asyncio.timeout(90), scheduler:
        await ran.wait()
        await server.kill()
        await out.wait()
        began_s, used_s = time.monotonic(), time.process_time()
        await asyncio.sleep(_OUTAGE_WINDOW_S)  # What is measured is this time.
        share = (time.process_time() - used_s) / (time.monotonic() - began_s)
        await server.start()
        await back.wait()
        ran.clear()
        await ran.wait()
    return share
