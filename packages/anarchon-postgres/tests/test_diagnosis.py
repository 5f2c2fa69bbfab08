"""
Settings that endanger claims are found on a server that has them, and a reader changes nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Any

import pytest

import anarchon_testbed as testbed
from anarchon.backend import ClaimRequest, RegisterRequest
from anarchon.errors import BackendStateError, StoreRefusedError
from anarchon.operating import Diagnosable, Finding, Inspectable, JobLister, Migratable, Severity
from anarchon_postgres import PostgresBackend
from anarchon_postgres.diagnosis import Facts, judge
from anarchon_postgres.driver import connect
from anarchon_postgres.schema import SCHEMA_VERSION, migration_sql

TIMEOUT_MS = 20_000

Opened = Callable[..., AbstractAsyncContextManager[PostgresBackend]]
Ask = Callable[..., ClaimRequest]

SOUND = Facts(
    version="18.6",
    schema="anarchon",
    schema_version=SCHEMA_VERSION,
    settings={
        "autovacuum": "on",
        "fsync": "on",
        "full_page_writes": "on",
        "max_connections": "100",
        "statement_timeout": "0",
        "synchronous_commit": "on",
        "synchronous_standby_names": "",
    },
    connections=7,
)


def by_check(findings: Any) -> dict[str, Finding]:
    """
    Give findings by their checks, each of which was looked at once.
    """
    found = list(findings)
    assert len({finding.check for finding in found}) == len(found)
    return {finding.check: finding for finding in found}


async def looked_at(backend: PostgresBackend) -> dict[str, Finding]:
    """
    Have a server looked at by a reader.
    """
    reader = backend.reader()
    await reader.open(timeout_ms=TIMEOUT_MS)
    try:
        return by_check(await reader.diagnose(timeout_ms=TIMEOUT_MS))
    finally:
        await reader.close()


async def execute(dsn: str, *statements: str) -> None:
    """
    Run statements beside the backend.
    """
    connection = await connect(dsn)
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()


@pytest.fixture(scope="module")
def durable() -> Iterator[testbed.PostgresServer]:
    """
    A server of these tests' own: its settings are changed.
    """
    with testbed.postgres(durable=True) as started:
        yield started


def test_parts_are_offered() -> None:
    """
    The backend has the optional parts by their methods.
    """
    backend = PostgresBackend("postgresql://nowhere/x")

    assert isinstance(backend, Inspectable)
    assert isinstance(backend, Diagnosable)
    assert isinstance(backend, JobLister)
    assert isinstance(backend, Migratable)
    assert migration_sql("anarchon", grant_to="app") == backend.migration_sql(grant_to="app")


def test_sound_server_has_nothing_but_fine_findings() -> None:
    """
    As a server is installed, there is nothing to say.
    """
    found = by_check(judge(SOUND))

    assert {"server", "tables", "durability"} == set(found)
    assert {Severity.FINE} == {finding.severity for finding in found.values()}


@pytest.mark.parametrize(
    ("facts", "check", "severity", "said"),
    [
        ({"schema_version": 0}, "tables", Severity.NOTE, "has no tables"),
        ({"unlogged": ("jobs",)}, "tables", Severity.WARNING, "unlogged (jobs)"),
        ({"fsync": "off"}, "durability", Severity.WARNING, "fsync is off"),
        ({"full_page_writes": "off"}, "durability", Severity.WARNING, "full_page_writes is off"),
        (
            {"synchronous_commit": "off"},
            "durability",
            Severity.WARNING,
            "synchronous_commit is off",
        ),
        ({"standbys": 2}, "standbys", Severity.NOTE, "Standbys (2)"),
        ({"connections": 95}, "connections", Severity.WARNING, "95 of 100"),
        ({"statement_timeout": "250"}, "timeout", Severity.WARNING, "250 ms"),
        ({"autovacuum": "off"}, "vacuum", Severity.WARNING, "autovacuum is off"),
        ({"hints": False}, "hints", Severity.NOTE, "pooler"),
    ],
)
def test_fact_is_judged(facts: dict[str, Any], check: str, severity: Severity, said: str) -> None:
    """
    Each fact has its finding, with what to do about it.
    """
    settings = {name: value for name, value in facts.items() if name in SOUND.settings}
    rest = {name: value for name, value in facts.items() if name not in SOUND.settings}
    found = by_check(judge(replace(SOUND, settings={**SOUND.settings, **settings}, **rest)))

    assert severity is found[check].severity
    assert said in found[check].message
    assert found[check].advice


def test_standby_that_claims_wait_for_is_fine() -> None:
    """
    With a synchronous standby nothing that was answered is lost by a fail-over.
    """
    settings = {**SOUND.settings, "synchronous_standby_names": "*"}

    assert "standbys" not in by_check(judge(replace(SOUND, standbys=1, settings=settings)))


@pytest.mark.slow
def test_settings_of_a_real_server_are_found(durable: testbed.PostgresServer, schema: str) -> None:
    """
    What a server was set to is what the findings are about, also where a role's own setting comes first.
    """

    async def scenario() -> tuple[dict[str, Finding], dict[str, Finding]]:
        backend = PostgresBackend(durable.url, schema=schema)
        await backend.open(timeout_ms=TIMEOUT_MS)
        await backend.close()
        sound = await looked_at(backend)
        await execute(
            durable.url,
            "ALTER ROLE postgres SET synchronous_commit = off",
            "ALTER ROLE postgres SET statement_timeout = '700ms'",
            f"ALTER TABLE {schema}.runs SET UNLOGGED",
        )
        return sound, await looked_at(backend)

    sound, weak = asyncio.run(scenario())

    assert {Severity.FINE} == {finding.severity for finding in sound.values()}
    assert durable.version in sound["server"].message
    assert "synchronous_commit is off" in weak["durability"].message
    assert "700 ms" in weak["timeout"].message
    assert "unlogged (runs)" in weak["tables"].message
    assert {Severity.WARNING} == {
        weak[check].severity for check in ("durability", "timeout", "tables")
    }


@pytest.mark.slow
def test_reader_makes_no_tables(shared_dsn: str, schema: str, ask: Ask) -> None:
    """
    Looking at a schema that nobody uses leaves none there; a claim through a reader is refused, also by its clone.
    """

    async def scenario() -> dict[str, Finding]:
        backend = PostgresBackend(shared_dsn, schema=schema)
        reader = backend.reader().clone()
        await reader.open(timeout_ms=TIMEOUT_MS)
        try:
            assert await reader.time(timeout_ms=TIMEOUT_MS)
            assert [] == await reader.known_jobs(timeout_ms=TIMEOUT_MS)
            with pytest.raises(StoreRefusedError, match="does not exist"):
                await reader.history(None, limit=5, timeout_ms=TIMEOUT_MS)
            with pytest.raises(BackendStateError, match="only reads"):
                await reader.claim([ask("job", 1)], timeout_ms=TIMEOUT_MS)
        finally:
            await reader.close()
        return await looked_at(backend)

    tables = asyncio.run(scenario())["tables"]

    assert (Severity.NOTE, f"Schema '{schema}' has no tables.") == (
        tables.severity,
        tables.message,
    )


@pytest.mark.slow
def test_known_jobs_are_told_with_their_runs(opened: Opened, ask: Ask) -> None:
    """
    What the store keeps of each job, by name; a run shows what is left of its lease.
    """

    async def scenario() -> None:
        async with opened() as backend:
            await backend.register([RegisterRequest(job="a", slot=1_000)], timeout_ms=TIMEOUT_MS)
            claim = ask("b", 2_000, fingerprint="f", zone_digests="{}", lease_ms=60_000)
            await backend.claim([claim], timeout_ms=TIMEOUT_MS)
            first, second = await backend.known_jobs(timeout_ms=TIMEOUT_MS)

        assert ("a", 1_000, None, None) == (first.job, first.high, first.fingerprint, first.run)
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
def test_pooler_is_found(shared_dsn: str, schema: str) -> None:
    """
    Behind PgBouncer in transaction mode no hint arrives; with the server's own address for hints nothing is amiss.
    """
    with testbed.postgres(own=True) as target, testbed.pgbouncer(target) as pooler:

        async def scenario() -> tuple[dict[str, Finding], dict[str, Finding]]:
            through = await looked_at(PostgresBackend(pooler.url, schema=schema))
            both = PostgresBackend(pooler.url, schema=schema, hints_dsn=target.url)
            return through, await looked_at(both)

        through, both = asyncio.run(scenario())

    assert Severity.NOTE is through["hints"].severity
    assert "hints" not in both
