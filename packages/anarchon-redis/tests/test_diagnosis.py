"""
Settings that endanger claims are found on a server that has them, and a reader changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any

import pytest

import anarchon_testbed as testbed
from anarchon.backend import ClaimRequest, RegisterRequest
from anarchon.errors import BackendStateError, StoreRefusedError, StoreUnavailableError
from anarchon.operating import Diagnosable, Finding, Inspectable, JobLister, Severity
from anarchon_redis import RedisBackend

TIMEOUT_MS = 10_000

Opened = Callable[..., AbstractAsyncContextManager[RedisBackend]]
Ask = Callable[..., ClaimRequest]


@pytest.fixture(scope="module")
def server() -> Iterator[testbed.RedisServer]:
    """
    A server of these tests' own: its settings are changed.
    """
    with testbed.redis(appendonly=True, appendfsync="always") as started:
        yield started


@contextmanager
def changed(server: testbed.RedisServer, **settings: str) -> Iterator[None]:
    """
    Change settings of a running server, and put them back.
    """
    names = {name: name.replace("_", "-") for name in settings}
    before = {name: server.command("CONFIG", "GET", names[name])[1].decode() for name in settings}
    try:
        for name, value in settings.items():
            server.command("CONFIG", "SET", names[name], value)
        yield
    finally:
        for name, value in before.items():
            server.command("CONFIG", "SET", names[name], value)


def looked_at(backend: RedisBackend) -> dict[str, Finding]:
    """
    Have a server looked at by a reader.
    """

    async def scenario() -> dict[str, Finding]:
        reader = backend.reader()
        await reader.open(timeout_ms=TIMEOUT_MS)
        try:
            found = await reader.diagnose(timeout_ms=TIMEOUT_MS)
            return {finding.check: finding for finding in found}
        finally:
            await reader.close()

    return asyncio.run(scenario())


def test_parts_are_offered() -> None:
    """
    The backend has the optional parts by their methods.
    """
    backend = RedisBackend()

    assert isinstance(backend, Inspectable)
    assert isinstance(backend, Diagnosable)
    assert isinstance(backend, JobLister)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "check", "severity"),
    [
        ({}, "durability", Severity.FINE),
        ({}, "eviction", Severity.FINE),
        (
            {"maxmemory": "100mb", "maxmemory_policy": "allkeys-lru"},
            "eviction",
            Severity.PROBLEM,
        ),
        ({"maxmemory_policy": "allkeys-random"}, "eviction", Severity.WARNING),
        ({"appendonly": "no"}, "durability", Severity.WARNING),
        ({"appendfsync": "everysec"}, "durability", Severity.NOTE),
        ({"appendfsync": "no"}, "durability", Severity.WARNING),
    ],
)
def test_settings_of_a_real_server_are_found(
    server: testbed.RedisServer, settings: dict[str, str], check: str, severity: Severity
) -> None:
    """
    What a running server was set to is what the finding is about.
    """
    with changed(server, **settings):
        found = looked_at(RedisBackend(server.url))

    assert severity is found[check].severity
    assert server.version in found["server"].message
    assert (severity is not Severity.FINE) is bool(found[check].advice)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["stream-id", "idmp", "script"])
def test_claim_only_strategies_are_looked_at(
    server: testbed.RedisServer, prefix: str, ask: Ask, strategy: Any
) -> None:
    """
    Each strategy has findings, and its jobs with the newest slot that was claimed.
    """
    backend = RedisBackend(server.url, strategy=strategy, prefix=prefix)

    async def scenario() -> None:
        await backend.open(timeout_ms=TIMEOUT_MS)
        now_ms = await backend.time(timeout_ms=TIMEOUT_MS)
        assert now_ms is not None
        for job, slot in (("b {1}", now_ms - 1), ("b {1}", now_ms), ("a", now_ms - 9)):
            await backend.claim([ask(job, slot)], timeout_ms=TIMEOUT_MS)
        known = await backend.known_jobs(timeout_ms=TIMEOUT_MS)
        await backend.close()

        assert [("a", now_ms - 9), ("b {1}", now_ms)] == [(job.job, job.high) for job in known]

    asyncio.run(scenario())
    found = looked_at(backend)

    assert f"strategy {strategy}" in found["server"].message
    assert not any(finding.severity is Severity.PROBLEM for finding in found.values())


@pytest.mark.slow
def test_reader_leaves_no_marker(url: str, prefix: str, ask: Ask) -> None:
    """
    Looking at a prefix that nobody uses leaves nothing there; a claim through a reader is refused, also by its clone.
    """

    async def scenario() -> None:
        reader = RedisBackend(url, prefix=prefix).reader().clone()
        await reader.open(timeout_ms=TIMEOUT_MS)
        try:
            assert [] == await reader.known_jobs(timeout_ms=TIMEOUT_MS)
            assert [] == await reader.history(None, limit=5, timeout_ms=TIMEOUT_MS)
            with pytest.raises(BackendStateError, match="only reads"):
                await reader.claim([ask("job", 1)], timeout_ms=TIMEOUT_MS)
        finally:
            await reader.close()
        other = RedisBackend(url, prefix=prefix, strategy="script")
        await other.open(timeout_ms=TIMEOUT_MS)
        await other.close()

    asyncio.run(scenario())


@pytest.mark.slow
def test_reader_refuses_another_strategys_prefix(url: str, prefix: str, opened: Opened) -> None:
    """
    A strategy that reads another one's keys would find nothing, and say that all is well.
    """

    async def scenario() -> None:
        async with opened(strategy="script"):
            reader = RedisBackend(url, prefix=prefix).reader()
            with pytest.raises(StoreRefusedError, match="belongs to strategy 'script'"):
                await reader.open(timeout_ms=TIMEOUT_MS)
            await reader.close()

    asyncio.run(scenario())


@pytest.mark.slow
def test_known_jobs_are_told_with_their_runs(opened: Opened, ask: Ask) -> None:
    """
    What the store keeps of each job, by name; a run shows what is left of its lease.
    """

    async def scenario() -> None:
        async with opened() as backend:
            requests = [RegisterRequest(job="a", slot=1_000, fingerprint="")]
            await backend.register(requests, timeout_ms=TIMEOUT_MS)
            claim = ask("b", 2_000, fingerprint="f", zone_digests="{}", lease_ms=60_000)
            await backend.claim([claim], timeout_ms=TIMEOUT_MS)
            first, second = await backend.known_jobs(timeout_ms=TIMEOUT_MS)

        assert ("a", 1_000, "", None) == (first.job, first.high, first.fingerprint, first.run)
        assert ("b", 2_000, "f", "{}") == (
            second.job,
            second.high,
            second.fingerprint,
            second.zone_digests,
        )
        assert second.run is not None
        assert (2_000, 1, "host:1") == (
            second.run.slot,
            second.run.attempt,
            second.run.instance_id,
        )
        assert 0 < second.run.remaining_ms <= 60_000

    asyncio.run(scenario())


@pytest.mark.slow
def test_user_without_rights_is_told_what_is_not_known() -> None:
    """
    A server that hides its settings is looked at all the same.
    """
    with testbed.redis(users={"app": "on >secret ~* &* +@all -config"}) as server:
        url = server.url.replace("redis://", "redis://app:secret@")
        found = looked_at(RedisBackend(url))

    assert Severity.NOTE is found["settings"].severity
    assert "CONFIG GET" in found["settings"].advice
    assert Severity.FINE is found["eviction"].severity


@pytest.mark.slow
def test_primaries_of_a_cluster_are_looked_at() -> None:
    """
    Each primary is asked; what one of them is set to is said with its name, and jobs of all nodes are found.
    """
    with testbed.redis_cluster(node_timeout_ms=600_000) as cluster:  # No node is to fail.
        node = cluster.nodes[0]
        node.command("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
        backend = RedisBackend(cluster.url, cluster=True)

        async def register() -> list[str]:
            await backend.open(timeout_ms=TIMEOUT_MS)
            names = [f"job {number}" for number in range(20)]
            requests = [RegisterRequest(job=name, slot=1) for name in names]
            await backend.register(requests, timeout_ms=TIMEOUT_MS)
            known = await backend.known_jobs(timeout_ms=TIMEOUT_MS)
            await backend.close()
            return [job.job for job in known]

        assert sorted(f"job {number}" for number in range(20)) == asyncio.run(register())
        reader = backend.reader()

        async def look() -> list[Finding]:
            await reader.open(timeout_ms=TIMEOUT_MS)
            found = list(await reader.diagnose(timeout_ms=TIMEOUT_MS))
            await reader.close()
            return found

        evictions = [finding for finding in asyncio.run(look()) if finding.check == "eviction"]

    assert [Severity.FINE, Severity.WARNING] == sorted(
        (finding.severity for finding in evictions), key=list(Severity).index
    )
    (warning,) = [finding for finding in evictions if finding.severity is Severity.WARNING]

    assert f":{node.port}: maxmemory-policy" in warning.message


@pytest.mark.slow
def test_silent_server_is_given_up() -> None:
    """
    A server that falls silent while it is looked at ends the call at its deadline.
    """
    with testbed.redis(own=True) as server:

        async def scenario() -> None:
            reader = RedisBackend(server.url).reader()
            await reader.open(timeout_ms=TIMEOUT_MS)
            server.freeze()
            try:
                with pytest.raises(StoreUnavailableError, match="within 300 ms"):
                    await reader.diagnose(timeout_ms=300)
            finally:
                server.thaw()
                await reader.close()

        asyncio.run(scenario())
