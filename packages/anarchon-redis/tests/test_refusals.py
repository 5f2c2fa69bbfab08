"""
What a server refuses, in its own words, and what it cannot do.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
from redis.asyncio import Redis

import anarchon_testbed as testbed
from anarchon.backend import ClaimAnswer, ClaimRequest, Verdict
from anarchon.errors import (
    BackendError,
    ProtocolVersionError,
    RequestError,
    ServerTooOldError,
    StoreRefusedError,
    StoreUnavailableError,
)
from anarchon_redis import RedisBackend

pytestmark = pytest.mark.slow

TIMEOUT_MS = 10_000

Ask = Callable[..., ClaimRequest]
Opened = Callable[..., AbstractAsyncContextManager[RedisBackend]]


async def refusal(url: str, **options: Any) -> BackendError:
    """
    Return what open() raises, having left nothing open.
    """
    backend = RedisBackend(url, **options)
    with pytest.raises(BackendError) as caught:
        await backend.open(timeout_ms=TIMEOUT_MS)
    await backend.close()
    return caught.value


@asynccontextmanager
async def claiming(url: str, **options: Any) -> AsyncIterator[RedisBackend]:
    """
    Give an open backend.
    """
    backend = RedisBackend(url, **options)
    await backend.open(timeout_ms=TIMEOUT_MS)
    try:
        yield backend
    finally:
        await backend.close()


@pytest.mark.parametrize(
    ("kind", "version", "found"), [("redis", "7.0", "Redis 7.0."), ("valkey", None, "Valkey 9.")]
)
def test_idmp_needs_a_server_that_has_it(
    kind: str, version: str | None, found: str, prefix: str
) -> None:
    """
    The message names the version that was found and the one that is needed.
    """
    url = testbed.shared_url(kind, version)
    error = asyncio.run(refusal(url, prefix=prefix, strategy="idmp"))

    assert isinstance(error, ServerTooOldError)
    assert "strategy 'idmp' needs Redis 8.6 or newer" in str(error)
    assert f"found {found}" in str(error)


@pytest.mark.parametrize(
    ("hello", "kind", "words"),
    [
        (
            b"%4\r\n+server\r\n+redis\r\n+version\r\n+6.2.14\r\n+mode\r\n+standalone\r\n+role\r\n+master\r\n",
            ServerTooOldError,
            "needs Redis 7.0 or Valkey 7.2 or newer; found Redis 6.2.14",
        ),
        (
            b"-ERR unknown command `HELLO`, with args beginning with: `3`, \r\n",
            ServerTooOldError,
            "Redis 7.0 or newer is needed",
        ),
        (
            b"-LOADING Redis is loading the dataset in memory\r\n",
            StoreUnavailableError,
            "is reading its data",
        ),
        (
            b"-MASTERDOWN Link with MASTER is down\r\n",
            StoreUnavailableError,
            "has lost its primary",
        ),
        (b"-ERR max number of clients reached\r\n", StoreUnavailableError, "max number of clients"),
    ],
)
def test_what_no_server_here_says(hello: bytes, kind: type[BackendError], words: str) -> None:
    """
    Answers of servers that cannot be had, or not at will, are understood as well.
    """

    async def scenario() -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(OSError):
                while await reader.read(4_096):
                    writer.write(hello)
                    await writer.drain()
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        error = await refusal(f"redis://127.0.0.1:{port}")
        server.close()

        assert kind is type(error), error
        assert words in str(error)

    asyncio.run(scenario())


def test_nobody_listens() -> None:
    """
    A port that nobody listens on is an outage, which may pass.
    """
    error = asyncio.run(refusal("redis://127.0.0.1:1"))

    assert isinstance(error, StoreUnavailableError)
    assert "127.0.0.1:1" in str(error)


def test_logins_are_refused_in_the_servers_words() -> None:
    """
    No password, a wrong one, an unknown user, and a user without rights: each says which.
    """
    rules = "on >pw ~other:* &* +@all"

    async def scenario() -> None:
        async with testbed.redis(password="secret", users={"weak": rules}) as server:
            place = f"{server.host}:{server.port}"
            cases = {
                f"redis://{place}": "NOAUTH",
                f"redis://:wrong@{place}": "WRONGPASS",
                f"redis://nobody:pw@{place}": "WRONGPASS",
                f"redis://weak:pw@{place}": "NOPERM",
            }
            for url, words in cases.items():
                error = await refusal(url)

                assert isinstance(error, StoreRefusedError), (url, error)
                assert words in str(error), url
                assert "secret" not in str(error)
            async with claiming(server.url) as backend:
                assert await backend.time(timeout_ms=TIMEOUT_MS)
            async with claiming(f"redis://weak:pw@{place}", prefix="other:jobs") as backend:
                assert await backend.time(timeout_ms=TIMEOUT_MS)

    asyncio.run(scenario())


def test_the_documented_rights_are_enough(ask: Ask) -> None:
    """
    A user with the rights that the documentation lists can do everything, hints included.
    """
    rules = (
        "on >pw ~mine:* &mine:* -@all +hello +auth +select +ping +time +evalsha +script|load +set +smembers +sadd"
        " +hmget +hset +hget +hlen +hdel +hgetall +zadd +zcard +zrange +zrevrangebyscore +zrem +pexpire"
        " +publish +subscribe +unsubscribe +get +xadd +xrange +xrevrange +xlen +xdel +xinfo +xgroup +exists +xcfgset"
    )

    async def scenario() -> None:
        async with testbed.redis(users={"weak": rules}) as server:
            place = f"redis://weak:pw@{server.host}:{server.port}"
            for strategy in ("lease", "script", "stream-id", "idmp"):
                async with claiming(place, prefix=f"mine:{strategy}", strategy=strategy) as backend:
                    slot = await backend.time(timeout_ms=TIMEOUT_MS)
                    (answer,) = await backend.claim([ask("job", slot or 0)], timeout_ms=TIMEOUT_MS)
                    records = await backend.history(None, limit=5, timeout_ms=TIMEOUT_MS)

                    assert isinstance(answer, ClaimAnswer), answer
                    assert 1 == len(records)

    asyncio.run(scenario())


def test_a_full_server_refuses_and_recovers(ask: Ask) -> None:
    """
    At maxmemory nothing is changed and the server's words come through; with room again it goes on.
    """

    async def scenario() -> None:
        async with (
            testbed.redis(config={"maxmemory-policy": "noeviction"}) as server,
            claiming(server.url) as backend,
            Redis.from_url(server.url) as raw,
        ):
            slot = await backend.time(timeout_ms=TIMEOUT_MS) or 0
            await raw.config_set("maxmemory", 1)
            with pytest.raises(StoreRefusedError, match=r"OOM.*memory is full"):
                await backend.claim([ask("job", slot)], timeout_ms=TIMEOUT_MS)
            with pytest.raises(StoreUnavailableError, match=r"OOM.*may have been written"):
                await backend.claim([ask("job", slot), ask("other", slot)], timeout_ms=TIMEOUT_MS)
            assert [] == list(await backend.history(None, limit=5, timeout_ms=TIMEOUT_MS))
            await raw.config_set("maxmemory", 0)
            (answer,) = await backend.claim([ask("job", slot)], timeout_ms=TIMEOUT_MS)

            assert isinstance(answer, ClaimAnswer)
            assert Verdict.WON == answer.verdict

    asyncio.run(scenario())


def test_a_replica_takes_no_claims(ask: Ask) -> None:
    """
    A replica is refused at open(); a primary that becomes one refuses claims from then on.
    """

    async def scenario() -> None:
        async with (
            testbed.redis(own=True) as primary,
            testbed.redis(own=True) as other,
            claiming(other.url) as backend,
            Redis.from_url(other.url) as raw,
        ):
            slot = await backend.time(timeout_ms=TIMEOUT_MS) or 0
            await raw.replicaof(primary.host, primary.port)
            error = await refusal(other.url)
            with pytest.raises(StoreRefusedError, match=r"READONLY.*is a replica"):
                await backend.claim([ask("job", slot)], timeout_ms=TIMEOUT_MS)

            assert isinstance(error, StoreRefusedError)
            assert "is a replica, which takes no claims" in str(error)

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("strategy", "policy", "warned"),
    [
        ("lease", "volatile-lru", False),
        ("script", "volatile-lru", True),
        ("lease", "allkeys-lru", True),
    ],
)
def test_a_server_that_evicts_claims_is_warned_of(
    strategy: str, policy: str, *, warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """
    One warning at open() names the policy, if it may take what protects a slot.
    """

    async def scenario() -> None:
        settings = {"maxmemory": "100mb", "maxmemory-policy": policy}
        async with (
            testbed.redis(config=settings) as server,
            claiming(server.url, strategy=strategy),
        ):
            return

    with caplog.at_level(logging.WARNING, logger="anarchon"):
        asyncio.run(scenario())

    assert warned == any(policy in record.getMessage() for record in caplog.records)


def test_a_prefix_belongs_to_one_strategy(opened: Opened, url: str, prefix: str) -> None:
    """
    Two strategies on one prefix would each have a winner, so the second one is refused.
    """

    async def scenario() -> None:
        async with opened(strategy="lease"):
            error = await refusal(url, prefix=prefix, strategy="script")

            assert isinstance(error, StoreRefusedError)
            assert "belongs to strategy 'lease'" in str(error)
        async with Redis.from_url(url) as raw:
            await raw.set(f"{prefix}:strategy", "2 lease")
        error = await refusal(url, prefix=prefix)

        assert isinstance(error, ProtocolVersionError)
        assert "laid out in version '2'" in str(error)

    asyncio.run(scenario())


@pytest.mark.parametrize("name", ["state", "runs", "records"])
def test_a_foreign_key_fails_one_job_alone(
    name: str, url: str, prefix: str, opened: Opened, ask: Ask
) -> None:
    """
    A key of the wrong type in a job's place is that item's error; nothing of it is changed, and others are served.
    """

    async def scenario() -> None:
        async with opened() as backend, Redis.from_url(url) as raw:
            slot = await backend.time(timeout_ms=TIMEOUT_MS) or 0
            before = [ask("bad", slot - 2_000, lease_ms=0), ask("good", slot - 2_000, lease_ms=0)]
            await backend.claim(before, timeout_ms=TIMEOUT_MS)
            key = f"{prefix}:{{bad}}:{name}"
            await raw.delete(key)
            await raw.set(key, "foreign")
            state = await raw.dump(f"{prefix}:{{bad}}:state")
            # The older run is dead: its record is closed when the next slot wins.
            answers = await backend.claim(
                [ask("bad", slot), ask("good", slot)], timeout_ms=TIMEOUT_MS
            )

            assert isinstance(answers[0], RequestError)
            assert "WRONGTYPE" in str(answers[0])
            assert isinstance(answers[1], ClaimAnswer)
            assert Verdict.WON == answers[1].verdict
            assert state == await raw.dump(f"{prefix}:{{bad}}:state")

    asyncio.run(scenario())


def test_scripts_that_were_flushed_are_loaded_again(url: str, opened: Opened, ask: Ask) -> None:
    """
    SCRIPT FLUSH costs a round trip, for one call and for a batch of many pieces.
    """

    async def scenario() -> None:
        async with opened() as backend, Redis.from_url(url) as raw:
            slot = await backend.time(timeout_ms=TIMEOUT_MS) or 0
            for count in (1, 200):
                await raw.script_flush()
                claims = [ask(f"job-{count}-{number}", slot) for number in range(count)]
                answers: Any = await backend.claim(claims, timeout_ms=TIMEOUT_MS)

                assert {Verdict.WON} == {answer.verdict for answer in answers}

    asyncio.run(scenario())
