"""
What endangers a stream is found on a server that has it, and a reader changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

import anarchon_testbed as testbed
from anarchon.backend import ClaimRequest
from anarchon.clock import SystemClock
from anarchon.errors import BackendStateError, StoreRefusedError
from anarchon.operating import Diagnosable, Finding, Inspectable, JobLister, Severity
from anarchon_nats import NatsBackend
from anarchon_nats.diagnosis import Facts, judge

TIMEOUT_MS = 10_000

Opened = Callable[..., AbstractAsyncContextManager[NatsBackend]]
Ask = Callable[..., ClaimRequest]


def judged(
    *,
    config: dict[str, Any] | None = None,
    state: dict[str, Any] | None = None,
    cluster: dict[str, Any] | None = None,
    **facts: Any,
) -> dict[str, Finding]:
    """
    Judge a sound stream but for what is named.
    """
    told = {
        "config": {"name": "anarchon", "storage": "file", "num_replicas": 1, **(config or {})},
        "state": {"bytes": 95, "messages": 95, **(state or {})},
        "cluster": cluster,
    }
    found = list(judge(Facts(version="2.15.1", told=told, **{"clustered": False, **facts})))
    assert len({finding.check for finding in found}) == len(found)
    return {finding.check: finding for finding in found}


async def looked_at(backend: NatsBackend) -> dict[str, Finding]:
    """
    Have a server looked at by a reader.
    """
    reader = backend.reader()
    await reader.open(timeout_ms=TIMEOUT_MS)
    try:
        found = await reader.diagnose(timeout_ms=TIMEOUT_MS)
    finally:
        await reader.close()
    return {finding.check: finding for finding in found}


def test_parts_are_offered() -> None:
    """
    The backend has the optional parts by their methods.
    """
    backend = NatsBackend()

    assert isinstance(backend, Inspectable)
    assert isinstance(backend, Diagnosable)
    assert isinstance(backend, JobLister)


def test_stream_on_disk_has_a_note_on_when_it_gets_there() -> None:
    """
    There is nothing to warn of on one server that keeps its stream on disk.
    """
    found = judged()

    assert {"server", "durability", "server-clock"} == set(found)
    assert Severity.NOTE is found["durability"].severity
    assert "when the machine fails" in found["durability"].message
    assert "most nodes" in judged(config={"num_replicas": 3})["durability"].message


@pytest.mark.parametrize(
    ("facts", "check", "said"),
    [
        ({"config": {"storage": "memory"}}, "durability", "kept in memory"),
        ({"clustered": True}, "replicas", "One node of the cluster"),
        (
            {
                "clustered": True,
                "config": {"num_replicas": 3},
                "cluster": {
                    "replicas": [
                        {"name": "b", "current": True, "offline": True},
                        {"name": "c", "current": False},
                        {"name": "d", "current": True},
                    ]
                },
            },
            "nodes",
            "away or behind: b, c.",
        ),
        ({"config": {"max_bytes": 100}}, "room", "95 % of the stream's max_bytes"),
        ({"config": {"max_msgs": 100}}, "room", "95 % of the stream's max_msgs"),
        (
            {"account": {"storage": 99, "limits": {"max_storage": 100}}},
            "room",
            "99 % of the account's storage",
        ),
        ({"ahead_ms": 700, "trip_ms": 3}, "server-clock", "700 ms ahead of"),
        ({"ahead_ms": -700}, "server-clock", "700 ms behind"),
    ],
)
def test_fact_is_judged(facts: dict[str, Any], check: str, said: str) -> None:
    """
    Each fact that endangers claims is a warning, with what to do about it.
    """
    finding = judged(**facts)[check]

    assert Severity.WARNING is finding.severity
    assert said in finding.message
    assert finding.advice


def test_clock_counts_by_what_is_sure() -> None:
    """
    A difference that the way to the server may explain is none.
    """
    assert Severity.FINE is judged(ahead_ms=700, trip_ms=600)["server-clock"].severity


@pytest.mark.slow
def test_reader_makes_no_stream(url: str, prefix: str) -> None:
    """
    Looking at a prefix that nobody uses leaves no stream there, and says so.
    """

    async def scenario() -> None:
        for _ in range(2):
            reader = NatsBackend(url, prefix=prefix).reader()
            with pytest.raises(StoreRefusedError, match="a scheduler makes it when it starts"):
                await reader.open(timeout_ms=TIMEOUT_MS)
            await reader.close()

    asyncio.run(scenario())


@pytest.mark.slow
def test_reader_reads_and_its_clones_do(url: str, prefix: str, opened: Opened, ask: Ask) -> None:
    """
    History, jobs and findings are read; a claim is refused, also by a clone.
    """
    now_ms = SystemClock().wall_ms()

    async def scenario() -> None:
        async with opened() as backend:
            for job, slot in (("b.c", now_ms - 1), ("b.c", now_ms), ("a", now_ms)):
                await backend.claim([ask(job, slot)], timeout_ms=TIMEOUT_MS)
            reader = backend.reader().clone()
            await reader.open(timeout_ms=TIMEOUT_MS)
            try:
                known = await reader.known_jobs(timeout_ms=TIMEOUT_MS)
                records = await reader.history(None, limit=9, timeout_ms=TIMEOUT_MS)
                with pytest.raises(BackendStateError, match="only reads"):
                    await reader.claim([ask("a", now_ms)], timeout_ms=TIMEOUT_MS)
            finally:
                await reader.close()
            found = await looked_at(backend)

        assert [("a", now_ms), ("b.c", now_ms)] == [(job.job, job.high) for job in known]
        assert 3 == len(records)
        assert {"server", "durability", "server-clock"} == set(found)
        assert Severity.FINE is found["server-clock"].severity

    asyncio.run(scenario())


@pytest.mark.slow
def test_full_disk_is_seen_before_it_refuses(prefix: str, ask: Ask) -> None:
    """
    An account that has nearly used up its storage is a warning.
    """
    account = {"jetstream": {"max_file": 2_000_000}, "users": [{"user": "app", "password": "x"}]}
    config = {"accounts": {"APP": account}, "no_auth_user": "app"}
    with testbed.nats(config=config) as server:

        async def scenario() -> dict[str, Finding]:
            backend = NatsBackend(server.url, prefix=prefix)
            await backend.open(timeout_ms=TIMEOUT_MS)
            now_ms = SystemClock().wall_ms()
            requests = [
                ask("job", now_ms - number, instance_id="x" * 4_000) for number in range(460)
            ]
            await backend.claim(requests, timeout_ms=TIMEOUT_MS)
            await backend.close()
            return await looked_at(backend)

        found = asyncio.run(scenario())

    assert Severity.WARNING is found["room"].severity
    assert "the account's storage" in found["room"].message


@pytest.mark.slow
def test_one_replica_in_a_cluster_is_found(cluster: testbed.NatsCluster, prefix: str) -> None:
    """
    Three nodes, of which one keeps everything, are worth a warning; three replicas are not.
    """

    async def scenario(replicas: int) -> dict[str, Finding]:
        backend = NatsBackend(cluster.url, prefix=f"{prefix}-{replicas}", replicas=replicas)
        await backend.open(timeout_ms=TIMEOUT_MS)
        try:
            return await looked_at(backend)
        finally:
            await backend.close()

    assert "replicas" in asyncio.run(scenario(1))
    assert "replicas" not in asyncio.run(scenario(3))
