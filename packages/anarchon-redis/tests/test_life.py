"""
The life of a backend: unopened, open, closed; calls that are late or cut short.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import pytest

import anarchon_testbed as testbed
from anarchon.backend import PROTOCOL_VERSION, ClaimAnswer, ClaimRequest, LeaseBackend, Verdict
from anarchon.errors import (
    BackendError,
    BackendStateError,
    StoreUnavailableError,
    UnsupportedByBackendError,
)
from anarchon_conformance.relay import CuttingRelay, relaying
from anarchon_redis import RedisBackend

TIMEOUT_MS = 10_000

Ask = Callable[..., ClaimRequest]
Opened = Callable[..., AbstractAsyncContextManager[RedisBackend]]


async def store_now_ms(backend: RedisBackend) -> int:
    """
    Ask for the store's time.
    """
    now_ms = await backend.time(timeout_ms=TIMEOUT_MS)
    assert now_ms is not None
    return now_ms


def test_it_is_a_lease_backend() -> None:
    """
    It offers the calls of a lease backend, by the protocol's version.
    """
    backend = RedisBackend("redis://example")

    assert isinstance(backend, LeaseBackend)
    assert PROTOCOL_VERSION == backend.protocol_version
    assert backend.capabilities.leases
    assert not RedisBackend("redis://example", strategy="script").capabilities.leases


def test_life(url: str, prefix: str) -> None:
    """
    A backend is opened once and closed for good; its clone starts afresh.
    """

    async def scenario() -> None:
        backend = RedisBackend(url, prefix=prefix)
        with pytest.raises(BackendStateError, match="is unopened; open"):
            await backend.time(timeout_ms=TIMEOUT_MS)
        await backend.open(timeout_ms=TIMEOUT_MS)
        with pytest.raises(BackendStateError, match="is open; clone"):
            await backend.open(timeout_ms=TIMEOUT_MS)
        await backend.close()
        await backend.close()
        with pytest.raises(BackendStateError, match="is closed; open"):
            await backend.history(None, limit=1, timeout_ms=TIMEOUT_MS)
        clone = backend.clone()
        await clone.open(timeout_ms=TIMEOUT_MS)
        await clone.close()

        assert backend.service.partition(" at ")[2] == clone.service.partition(" at ")[2]

    asyncio.run(scenario())


def test_closing_during_open_ends_both(url: str, prefix: str) -> None:
    """
    A backend that is closed while it is being opened stays closed, whenever that is.
    """

    async def scenario() -> None:
        for turns in range(12):
            backend = RedisBackend(url, prefix=prefix)
            opening = asyncio.create_task(backend.open(timeout_ms=TIMEOUT_MS))
            for _ in range(turns):
                await asyncio.sleep(0)
            await backend.close()
            with pytest.raises(BackendStateError):
                await opening
            with pytest.raises(BackendStateError):
                await backend.time(timeout_ms=TIMEOUT_MS)

    asyncio.run(scenario())


def test_an_open_that_is_cancelled_may_be_repeated(url: str, prefix: str) -> None:
    """
    Cancelled at any of its awaits, open() leaves nothing open and the backend unopened.
    """

    async def scenario() -> None:
        backend = RedisBackend(url, prefix=prefix)
        for turns in range(6):
            opening = asyncio.create_task(backend.open(timeout_ms=TIMEOUT_MS))
            for _ in range(turns):
                await asyncio.sleep(0)
            opening.cancel()
            with pytest.raises(asyncio.CancelledError):
                await opening
        await backend.open(timeout_ms=TIMEOUT_MS)
        await backend.close()

    asyncio.run(scenario())


def test_close_ends_calls_in_flight(url: str, prefix: str, ask: Ask) -> None:
    """
    Calls that are under way when close() comes answer or raise; none hangs.
    """

    async def scenario() -> None:
        for turns in (0, 1, 5, 20):
            backend = RedisBackend(url, prefix=prefix)
            await backend.open(timeout_ms=TIMEOUT_MS)
            slot = await store_now_ms(backend)
            calls = [
                asyncio.create_task(
                    backend.claim([ask(f"job-{number}", slot)], timeout_ms=TIMEOUT_MS)
                )
                for number in range(50)
            ]
            await backend.claim([ask("watched", slot, token="t")], timeout_ms=TIMEOUT_MS)
            watch = asyncio.create_task(
                backend.next_hint([("watched", slot, 1)], timeout_ms=TIMEOUT_MS)
            )
            for _ in range(turns):
                await asyncio.sleep(0)
            await backend.close()
            outcomes = await asyncio.gather(*calls, watch, return_exceptions=True)

            for outcome in outcomes:
                assert isinstance(outcome, BackendError | list | frozenset)

    asyncio.run(scenario())


def test_a_call_without_time_says_so(opened: Opened, ask: Ask) -> None:
    """
    A call whose deadline is now raises: its outcome is unknown, and asking again tells.
    """

    async def scenario() -> None:
        async with opened() as backend:
            claim = ask("job", await store_now_ms(backend))
            with pytest.raises(StoreUnavailableError, match="within 0 ms"):
                await backend.claim([claim], timeout_ms=0)
            (answer,) = await backend.claim([claim], timeout_ms=TIMEOUT_MS)

            assert frozenset() == await backend.next_hint([], timeout_ms=0)
            assert isinstance(answer, ClaimAnswer)
            assert Verdict.WON == answer.verdict

    asyncio.run(scenario())


def test_a_claim_only_strategy_refuses_what_needs_leases(opened: Opened) -> None:
    """
    Each call of a lease backend says which strategy has it.
    """

    async def scenario() -> None:
        async with opened(strategy="script") as backend:
            for call in (backend.register, backend.renew, backend.release, backend.next_hint):
                with pytest.raises(UnsupportedByBackendError, match="strategy 'lease'"):
                    await call([], timeout_ms=TIMEOUT_MS)

    asyncio.run(scenario())


def test_a_silent_server_ends_at_the_deadline(url: str, prefix: str, ask: Ask) -> None:
    """
    A server that takes everything and says nothing costs our deadline, not the client's retries.

    The client's own would go on for many times that.
    """

    async def scenario() -> None:
        address = RedisBackend(url)._address
        host, port = address.hosts[0]
        loop = asyncio.get_running_loop()
        async with relaying(CuttingRelay(host, port)) as proxy:
            backend = RedisBackend(f"redis://127.0.0.1:{proxy.port}/0", prefix=prefix)
            await backend.open(timeout_ms=TIMEOUT_MS)
            slot = await store_now_ms(backend)
            proxy.fall_silent()
            for call in (
                lambda: backend.claim([ask("job", slot)], timeout_ms=300),
                lambda: backend.time(timeout_ms=300),
                lambda: backend.history(None, limit=1, timeout_ms=300),
                lambda: backend.clone().open(timeout_ms=300),
            ):
                begun_s = loop.time()
                with pytest.raises(StoreUnavailableError, match="within 300 ms"):
                    await call()

                # The default of the client is ten retries of five seconds each.
                assert loop.time() - begun_s < 25
            begun_s = loop.time()

            assert frozenset() == await backend.next_hint([("job", slot, 1)], timeout_ms=300)
            assert loop.time() - begun_s < 25
            proxy.fall_silent(silent=False)
            (answer,) = await backend.claim([ask("job", slot)], timeout_ms=TIMEOUT_MS)

            assert isinstance(answer, ClaimAnswer)
            await backend.close()

    asyncio.run(scenario())


@pytest.mark.slow
def test_a_frozen_server_ends_at_the_deadline(ask: Ask) -> None:
    """
    The same with a real server that was stopped, and one that is gone; it goes on once the server does.
    """

    async def scenario() -> None:
        async with testbed.redis(own=True) as server:
            backend = RedisBackend(server.url)
            await backend.open(timeout_ms=TIMEOUT_MS)
            slot = await store_now_ms(backend)
            server.freeze()
            with pytest.raises(StoreUnavailableError, match="within 200 ms"):
                await backend.claim([ask("job", slot)], timeout_ms=200)
            server.thaw()
            assert await backend.time(timeout_ms=TIMEOUT_MS)
            await server.kill()
            with pytest.raises(StoreUnavailableError):
                await backend.time(timeout_ms=TIMEOUT_MS)
            await server.start()
            assert await backend.time(timeout_ms=TIMEOUT_MS)
            await backend.close()

    asyncio.run(scenario())
