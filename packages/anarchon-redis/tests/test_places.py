"""
The ways to a server: TLS, Unix sockets, Sentinel, Cluster, replicas that must have a claim.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import pytest
from redis.asyncio import Redis

import anarchon_testbed as testbed
from anarchon.backend import ClaimAnswer, ClaimRequest, ReleaseRequest, Verdict
from anarchon.errors import BackendError, StoreRefusedError, StoreUnavailableError
from anarchon_redis import RedisBackend

pytestmark = pytest.mark.slow

TIMEOUT_MS = 10_000
PATIENCE_S = 60
NEVER_MS = 600_000

T = TypeVar("T")
Ask = Callable[..., ClaimRequest]


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


async def claimed(backend: RedisBackend, *requests: ClaimRequest) -> list[Verdict]:
    """
    Claim a batch, and return the verdicts.
    """
    answers = await backend.claim(requests, timeout_ms=TIMEOUT_MS)
    for answer in answers:
        assert isinstance(answer, ClaimAnswer), answer
    return [answer.verdict for answer in answers if isinstance(answer, ClaimAnswer)]


async def served(call: Callable[[], Awaitable[T]]) -> T:
    """
    Ask until the store answers, as the core does through an outage.
    """
    loop = asyncio.get_running_loop()
    end_s = loop.time() + PATIENCE_S
    while True:
        try:
            return await call()
        except BackendError:
            assert loop.time() < end_s, "the store does not come back"
            await asyncio.sleep(0.05)  # The pause between two tries.


def offset_of(server: testbed.RedisServer, field: str) -> int:
    """
    Ask a server how far its replication has come.
    """
    told = server.command("INFO", "replication").decode()
    return int(told.partition(f"\n{field}:")[2].split()[0])


async def replicated(primary: testbed.RedisServer, replica: testbed.RedisServer) -> None:
    """
    Wait until a replica has all that its primary has now. Replication says nothing when it is done.
    """
    wanted = offset_of(primary, "master_repl_offset")
    async with asyncio.timeout(PATIENCE_S):
        while offset_of(replica, "slave_repl_offset") < wanted:  # noqa: ASYNC110 - a server sets no event here
            await asyncio.sleep(0.02)  # Until it is looked at again.


async def hinted(backend: RedisBackend, other: RedisBackend, ask: Ask) -> frozenset[str]:
    """
    Watch a run, release it from elsewhere, and return what was heard.
    """
    slot = await backend.time(timeout_ms=TIMEOUT_MS) or 0
    claim = ask("hinted", slot)
    assert [Verdict.WON] == await served(lambda: claimed(backend, claim))
    watch = asyncio.create_task(other.next_hint([("hinted", slot, 1)], timeout_ms=TIMEOUT_MS))
    await asyncio.sleep(
        0.2
    )  # The watcher subscribes; were it later, it would see the change at its first look.
    release = ReleaseRequest(job="hinted", slot=slot, attempt=1, token=claim.token)
    await served(lambda: backend.release([release], timeout_ms=TIMEOUT_MS))
    return await watch


def test_tls(ask: Ask) -> None:
    """
    A server whose certificate is trusted is used; one whose is not is refused, not retried for ever.
    """

    async def scenario() -> None:
        async with testbed.redis(tls=True, password="secret") as server:
            assert server.certificates is not None
            ca_file = str(server.certificates.ca)
            async with (
                claiming(server.url, ca_file=ca_file) as backend,
                claiming(server.url, ca_file=ca_file) as other,
            ):
                assert frozenset({"hinted"}) == await hinted(backend, other, ask)
            async with claiming(server.url, verify=False) as backend:
                assert await backend.time(timeout_ms=TIMEOUT_MS)
            with pytest.raises(StoreRefusedError, match="certificate was refused"):
                await RedisBackend(server.url).open(timeout_ms=TIMEOUT_MS)
            plain = server.url.replace("rediss:", "redis:")
            with pytest.raises(StoreUnavailableError):
                await RedisBackend(plain).open(timeout_ms=TIMEOUT_MS)

    asyncio.run(scenario())


def test_unix_socket(ask: Ask) -> None:
    """
    A socket in the file system serves like a port, with a login and a database.
    """

    async def scenario() -> None:
        async with (
            testbed.redis(unix_socket=True, password="secret") as server,
            claiming(server.unix_url, db=3) as backend,
            claiming(server.unix_url, db=3) as other,
        ):
            assert frozenset({"hinted"}) == await hinted(backend, other, ask)
            assert str(server.unix_path) in backend.service
            assert "secret" not in backend.service

    asyncio.run(scenario())


def test_replicas_must_have_a_claim(ask: Ask) -> None:
    """
    With wait_replicas a claim counts once enough replicas have it; with too few it is unknown, not won.
    """

    async def scenario() -> None:
        async with testbed.redis(own=True) as primary, testbed.redis(own=True) as replica:
            waits = {"wait_replicas": 1, "wait_timeout_ms": 100}
            async with (
                claiming(primary.url, **waits) as backend,
                Redis.from_url(replica.url) as raw,
            ):
                slot = await backend.time(timeout_ms=TIMEOUT_MS) or 0
                claim = ask("job", slot)
                with pytest.raises(StoreUnavailableError, match="0 of 1 replicas had the claims"):
                    await claimed(backend, claim)
                await raw.replicaof(primary.host, primary.port)

                assert [Verdict.WON] == await served(lambda: claimed(backend, claim))
                assert [Verdict.RUNNING] == await served(lambda: claimed(backend, ask("job", slot)))

    asyncio.run(scenario())


def test_sentinel_finds_the_new_primary(ask: Ask) -> None:
    """
    After a fail-over calls go to the new primary, claims and hints alike.
    """

    async def scenario() -> None:
        async with testbed.redis_sentinel(replicas=2) as group:
            hosts = ",".join(f"{host}:{port}" for host, port in group.addresses)
            options = {"sentinel": group.name, "wait_replicas": 1, "wait_timeout_ms": 5_000}
            async with (
                claiming(f"redis://{hosts}", **options) as backend,
                claiming(f"redis://{hosts}", **options) as other,
            ):
                slot = await backend.time(timeout_ms=TIMEOUT_MS) or 0
                before = ask("before", slot)
                assert [Verdict.WON] == await served(lambda: claimed(backend, before))
                assert frozenset({"hinted"}) == await hinted(backend, other, ask)
                await group.fail_over()
                again = await served(lambda: claimed(backend, before))
                stranger = await served(lambda: claimed(other, ask("before", slot)))

                assert [Verdict.WON] == again
                assert [Verdict.RUNNING] == stranger

    asyncio.run(scenario())


def test_what_a_fail_over_can_lose(ask: Ask) -> None:
    """
    Replication is asynchronous: a claim that no replica has got is forgotten by a fail-over, and won again.

    That is the one thing that the documentation says a fail-over loses; wait_replicas makes it rare.
    """

    async def scenario() -> None:
        async with testbed.redis(own=True) as primary, testbed.redis(own=True) as replica:
            async with Redis.from_url(replica.url) as raw:
                await raw.replicaof(primary.host, primary.port)
                replica.freeze()
                async with claiming(primary.url) as backend:
                    slot = await backend.time(timeout_ms=TIMEOUT_MS) or 0
                    assert [Verdict.WON] == await claimed(backend, ask("job", slot))
                await primary.kill()
                replica.thaw()
                await raw.replicaof("NO", "ONE")
            async with claiming(replica.url) as backend:
                assert [Verdict.WON] == await claimed(backend, ask("job", slot))

    asyncio.run(scenario())


@pytest.fixture(scope="module")
def cluster() -> Any:
    """
    Three primaries, each with a replica. None of them is to fail: a busy machine may stop one for a second.
    """
    with testbed.redis_cluster(primaries=3, replicas=3, node_timeout_ms=NEVER_MS) as cluster:
        yield cluster


@pytest.mark.parametrize("strategy", ["lease", "stream-id", "idmp", "script"])
def test_cluster_serves_every_strategy(strategy: str, cluster: Any, prefix: str, ask: Ask) -> None:
    """
    A batch over many jobs, a part of it repeated by a stranger, has one winner a run, and all of the history.
    """

    async def scenario() -> None:
        options: dict[str, Any] = {"cluster": True, "prefix": prefix, "strategy": strategy}
        async with (
            claiming(cluster.url, **options) as backend,
            claiming(cluster.url, **options) as other,
        ):
            slot = await backend.time(timeout_ms=TIMEOUT_MS) or 0
            jobs = [f"job-{number}-{{}}" for number in range(300)]
            won = await claimed(backend, *[ask(job, slot) for job in jobs])
            lost = await claimed(other, *[ask(job, slot) for job in jobs])
            records = await other.history(None, limit=1_000, timeout_ms=TIMEOUT_MS)
            taken = Verdict.RUNNING if strategy == "lease" else Verdict.TAKEN

            assert ({Verdict.WON}, {taken}) == (set(won), set(lost))
            assert sorted(jobs) == sorted(record.job for record in records)
            if strategy == "lease":
                assert frozenset({"hinted"}) == await hinted(backend, other, ask)

    asyncio.run(scenario())


def test_cluster_and_plain_are_told_apart(cluster: Any, url: str, prefix: str) -> None:
    """
    A plain client at a node of a Cluster, and a Cluster's client elsewhere, hear which option is wrong.
    """

    async def scenario() -> None:
        with pytest.raises(
            StoreRefusedError, match=r"is a node of a Redis Cluster; say cluster=True"
        ):
            await RedisBackend(cluster.url, prefix=prefix).open(timeout_ms=TIMEOUT_MS)
        with pytest.raises(StoreRefusedError, match=r"is no node of a Redis Cluster"):
            await RedisBackend(url, prefix=prefix, cluster=True).open(timeout_ms=TIMEOUT_MS)

    asyncio.run(scenario())


def test_cluster_goes_on_when_a_node_dies(ask: Ask) -> None:
    """
    A primary is frozen for good: its replica takes over, and every job is served again.
    """

    async def scenario() -> None:
        async with (
            testbed.redis_cluster(primaries=3, replicas=3) as cluster,
            claiming(cluster.url, cluster=True) as backend,
        ):
            slot = await backend.time(timeout_ms=TIMEOUT_MS) or 0
            jobs = [f"job-{number}" for number in range(30)]
            claims = [ask(job, slot, lease_ms=600_000) for job in jobs]
            assert {Verdict.WON} == set(await served(lambda: claimed(backend, *claims)))
            await replicated(cluster.primaries[1], cluster.replicas[1])
            cluster.primaries[1].freeze()

            async def again() -> list[Verdict]:
                answers = await backend.claim(claims, timeout_ms=1_000)
                return [each.verdict for each in answers if isinstance(each, ClaimAnswer)]

            assert [Verdict.WON] * 30 == await served(again)
            cluster.primaries[1].thaw()

    asyncio.run(scenario())


@pytest.mark.timeout(400)
def test_the_kit_passes_on_a_cluster(cluster: Any) -> None:
    """
    The clauses that several nodes could break hold; the whole kit is run by hand, and takes minutes.
    """
    chosen = "test_batch or test_claim or test_handover or test_names or test_history"
    ended = subprocess.run(
        [
            sys.executable,
            "-m",
            "anarchon_conformance",
            "--anarchon-backend=redis-lease",
            "-q",
            "-k",
            chosen,
        ],
        env={**os.environ, "ANARCHON_TEST_REDIS_URL": f"{cluster.url}?cluster=true"},
        capture_output=True,
        text=True,
        check=False,
        timeout=350,
    )

    # The verdict is about all clauses, and so is the status.
    assert " failed" not in ended.stdout, ended.stdout
    assert " passed" in ended.stdout, ended.stdout
