"""
What is known of a broker is said, and a reader makes no stream.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import pytest

from anarchon.backend import ClaimRequest
from anarchon.errors import BackendStateError, StoreRefusedError, StoreUnavailableError
from anarchon.operating import Diagnosable, Inspectable, JobLister, KnownJob, Severity
from anarchon.records import RunRecord, Status, datetime_of
from anarchon_rabbitmq import RabbitMQBackend
from anarchon_rabbitmq.address import read_address
from anarchon_rabbitmq.diagnosis import judge, known_jobs_of
from anarchon_rabbitmq.options import Options

TIMEOUT_MS = 30_000

Opened = Callable[..., AbstractAsyncContextManager[RabbitMQBackend]]
Ask = Callable[..., ClaimRequest]


def test_parts_are_offered() -> None:
    """
    The backend has the optional parts by their methods.
    """
    backend = RabbitMQBackend()

    assert isinstance(backend, Inspectable)
    assert isinstance(backend, Diagnosable)
    assert isinstance(backend, JobLister)


@pytest.mark.parametrize(
    ("url", "replicas", "said"),
    [
        ("amqp://a", None, "when the machine fails"),
        ("amqp://a", 1, "when the machine fails"),
        ("amqp://a,b,c", None, "when most nodes fail at once"),
    ],
)
def test_what_can_be_lost_is_a_note(url: str, replicas: int | None, said: str) -> None:
    """
    The protocol tells no settings, so what any broker may lose is said.
    """
    server, durability = judge("4.1.0", read_address(url), Options(replicas=replicas))

    assert (Severity.FINE, "RabbitMQ 4.1.0.") == (server.severity, server.message)
    assert Severity.NOTE is durability.severity
    assert said in durability.message


def test_one_replica_in_a_cluster_is_a_warning() -> None:
    """
    Who names several nodes and keeps the stream on one of them is told what that means.
    """
    found = {
        finding.check: finding
        for finding in judge("4.1.0", read_address("amqp://a,b,c"), Options(replicas=1))
    }

    assert Severity.WARNING is found["replicas"].severity
    assert found["replicas"].advice


def test_jobs_are_those_of_the_history() -> None:
    """
    Each job once, by name, with its newest slot.
    """
    records = [
        RunRecord(
            job=job,
            slot=slot,
            attempt=1,
            instance_id="i",
            status=Status.RUNNING,
            claimed_at=datetime_of(slot),
        )
        for job, slot in (("b", 1), ("a", 3), ("b", 2))
    ]

    assert [KnownJob(job="a", high=3), KnownJob(job="b", high=2)] == known_jobs_of(records)


@pytest.mark.slow
def test_reader_makes_no_stream(url: str, prefix: str) -> None:
    """
    Looking at a prefix that nobody uses leaves no stream there, and says so; a node that is away is passed over.
    """

    async def scenario() -> None:
        for _ in range(2):
            reader = RabbitMQBackend(url, prefix=prefix).reader()
            with pytest.raises(StoreRefusedError, match="a scheduler makes it when it starts"):
                await reader.open(timeout_ms=TIMEOUT_MS)
            await reader.close()
        nobody = RabbitMQBackend("amqp://127.0.0.1:1,127.0.0.1:2", prefix=prefix).reader()
        with pytest.raises(StoreUnavailableError, match=r"127\.0\.0\.1:2"):
            await nobody.open(timeout_ms=TIMEOUT_MS)
        await nobody.close()

    asyncio.run(scenario())


@pytest.mark.slow
def test_reader_reads_and_its_clones_do(opened: Opened, ask: Ask, now_ms: int) -> None:
    """
    History, jobs and findings are read; a claim is refused, also by a clone.
    """

    async def scenario() -> None:
        async with opened() as backend:
            for job, slot in (("b", now_ms - 1), ("b", now_ms), ("a", now_ms)):
                await backend.claim([ask(job, slot)], timeout_ms=TIMEOUT_MS)
            reader = backend.reader().clone()
            await reader.open(timeout_ms=TIMEOUT_MS)
            try:
                known = await reader.known_jobs(timeout_ms=TIMEOUT_MS)
                found = await reader.diagnose(timeout_ms=TIMEOUT_MS)
                with pytest.raises(BackendStateError, match="only reads"):
                    await reader.claim([ask("a", now_ms)], timeout_ms=TIMEOUT_MS)
            finally:
                await reader.close()

        assert [("a", now_ms), ("b", now_ms)] == [(job.job, job.high) for job in known]
        assert ["server", "durability"] == [finding.check for finding in found]
        assert found[0].message.startswith("RabbitMQ 4") or "RabbitMQ 3" in found[0].message

    asyncio.run(scenario())
