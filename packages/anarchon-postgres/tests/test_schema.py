"""
The tables: who makes them, who may not, and what a newer or broken schema is told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

import anarchon_testbed as testbed
from anarchon.backend import ClaimAnswer, ClaimRequest, FinishRequest, RenewRequest, Verdict
from anarchon.errors import ProtocolVersionError, StoreRefusedError
from anarchon.records import Status
from anarchon_postgres import PostgresBackend, migration_sql
from anarchon_postgres.driver import connect
from anarchon_postgres.session import Session

TIMEOUT_MS = 20_000

Ask = Callable[..., ClaimRequest]
Opened = Callable[..., AbstractAsyncContextManager[PostgresBackend]]

pytestmark = pytest.mark.slow


async def executed(dsn: str, *statements: str) -> list[Any]:
    """
    Run statements from outside, and return the rows of the last one.
    """
    connection = await connect(dsn, statement_cache_size=0)
    try:
        for statement in statements[:-1]:
            await connection.execute(statement)
        return list(await connection.fetch(statements[-1]))
    finally:
        await connection.close(timeout=5)


async def life(backend: PostgresBackend, ask: Ask, job: str = "job") -> list[Any]:
    """
    Do everything to one run, and return what was answered.
    """
    now_ms = await backend.time(timeout_ms=TIMEOUT_MS)
    assert now_ms is not None
    request = ask(job, now_ms)
    key: dict[str, Any] = {"job": job, "slot": now_ms, "attempt": 1, "token": request.token}
    (claimed,) = await backend.claim([request], timeout_ms=TIMEOUT_MS)
    (renewed,) = await backend.renew(
        [RenewRequest(**key, lease_ms=9_000, started_ago_ms=1)], timeout_ms=TIMEOUT_MS
    )
    (finished,) = await backend.finish(
        [FinishRequest(**key, status=Status.SUCCESS)], timeout_ms=TIMEOUT_MS
    )
    assert isinstance(claimed, ClaimAnswer)
    held, accepted = getattr(renewed, "held", None), getattr(finished, "accepted", None)
    records = await backend.history(job, limit=9, timeout_ms=TIMEOUT_MS)
    return [claimed.verdict, held, accepted, [record.status for record in records]]


WELL = [Verdict.WON, True, True, [Status.SUCCESS]]


def test_a_user_without_rights_is_told_the_way_out(
    server: testbed.PostgresServer, ask: Ask
) -> None:
    """
    Who may not create tables hears the server's words and who can help; once somebody has, everything works.
    """
    ordinary = server.url_of("postgres", user="app")

    async def scenario() -> tuple[list[str], list[Any]]:
        await executed(
            server.url,
            "CREATE ROLE app LOGIN",
            "REVOKE CREATE ON DATABASE postgres FROM public",
            "SELECT 1",
        )
        backend = PostgresBackend(ordinary)
        told = []
        with pytest.raises(StoreRefusedError) as caught:
            await backend.open(timeout_ms=TIMEOUT_MS)
        told.append(str(caught.value))
        # Without the grants the tables are there, but not for this user.
        await executed(server.url, migration_sql(), "SELECT 1")
        with pytest.raises(StoreRefusedError) as caught:
            await backend.open(timeout_ms=TIMEOUT_MS)
        told.append(str(caught.value))
        await executed(server.url, migration_sql(grant_to="app"), "SELECT 1")
        await backend.open(timeout_ms=TIMEOUT_MS)
        answers = await life(backend, ask)
        await backend.close()
        return told, answers

    told, answers = asyncio.run(scenario())

    assert "permission denied for database postgres" in told[0]
    assert "permission denied for schema anarchon" in told[1]
    assert all("anarchon_postgres.migration_sql()" in each for each in told)
    assert WELL == answers


def test_an_owner_of_an_empty_schema_makes_its_tables(
    server: testbed.PostgresServer, ask: Ask
) -> None:
    """
    A schema that was made for a user is enough: no right on the database is needed.
    """

    async def scenario() -> list[Any]:
        await executed(
            server.url,
            "CREATE ROLE owner LOGIN",
            'CREATE SCHEMA own AUTHORIZATION "owner"',
            "SELECT 1",
        )
        backend = PostgresBackend(server.url_of("postgres", user="owner"), schema="own")
        await backend.open(timeout_ms=TIMEOUT_MS)
        answers = await life(backend, ask)
        await backend.close()
        return answers

    assert WELL == asyncio.run(scenario())


def test_a_migration_may_be_run_again(
    opened: Opened, shared_dsn: str, schema: str, ask: Ask
) -> None:
    """
    On tables that are there it changes nothing, and loses nothing.
    """

    async def scenario() -> tuple[list[Any], int]:
        async with opened() as backend:
            before = await life(backend, ask)
            await executed(shared_dsn, migration_sql(schema), migration_sql(schema), "SELECT 1")
            records = await backend.history(None, limit=9, timeout_ms=TIMEOUT_MS)
            return before, len(records)

    assert (WELL, 1) == asyncio.run(scenario())


def test_tables_of_the_first_version_are_upgraded(
    opened: Opened, shared_dsn: str, schema: str, ask: Ask
) -> None:
    """
    What an older release has made gets what it lacks when a newer instance opens, and keeps its records.
    """

    async def scenario() -> tuple[list[Any], list[Any], list[Any], int]:
        async with opened() as backend:
            before = await life(backend, ask)
            await executed(
                shared_dsn,
                f"DROP FUNCTION {schema}.claim_one_v1",
                f"UPDATE {schema}.meta SET value = 1 WHERE key = 'schema_version'",
                "SELECT 1",
            )
        async with opened() as backend:
            after = await life(backend, ask, "other")
            meta = await executed(shared_dsn, f"SELECT key, value FROM {schema}.meta")
            records = await backend.history(None, limit=9, timeout_ms=TIMEOUT_MS)
            return before, after, [tuple(row) for row in meta], len(records)

    before, after, meta, records = asyncio.run(scenario())

    assert (WELL, WELL, 2) == (before, after, records)
    assert {("schema_version", 2), ("protocol_version", 1)} == set(meta)


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("schema_version", "are of version 99, written by a newer anarchon-postgres"),
        ("protocol_version", "speak protocol 99; this anarchon-postgres speaks 1"),
    ],
)
def test_tables_of_a_newer_release_are_refused(
    opened: Opened, shared_dsn: str, schema: str, key: str, told: str
) -> None:
    """
    An older instance does not touch what a newer one has made.
    """

    async def scenario() -> str:
        async with opened() as backend:
            await executed(
                shared_dsn, f"UPDATE {schema}.meta SET value = 99 WHERE key = '{key}'", "SELECT 1"
            )
            copy = backend.clone()
            with pytest.raises(ProtocolVersionError) as caught:
                await copy.open(timeout_ms=TIMEOUT_MS)
            return str(caught.value)

    assert told in asyncio.run(scenario())


def test_an_instance_that_runs_goes_on_after_an_upgrade(
    opened: Opened, shared_dsn: str, schema: str, ask: Ask
) -> None:
    """
    A newer release has upgraded the tables: an older instance that is open goes on, also over a new connection.
    """

    async def scenario() -> list[Any]:
        async with opened() as backend:
            await executed(
                shared_dsn,
                f"UPDATE {schema}.meta SET value = 99 WHERE key = 'schema_version'",
                "SELECT 1",
            )
            session = backend._opened()._session
            assert session is not None
            session.connection.terminate()
            return await life(backend, ask)

    assert WELL == asyncio.run(scenario())


def test_a_schema_that_was_dropped_is_made_again(
    opened: Opened, shared_dsn: str, schema: str, ask: Ask
) -> None:
    """
    Somebody drops the tables while an instance runs: the next call says so, and the one after it finds empty ones.
    """

    async def scenario() -> tuple[str, list[Any]]:
        async with opened() as backend:
            await life(backend, ask)
            await executed(shared_dsn, f"DROP SCHEMA {schema} CASCADE", "SELECT 1")
            with pytest.raises(StoreRefusedError) as caught:
                await backend.time(timeout_ms=TIMEOUT_MS)
            return str(caught.value), await life(backend, ask)

    told, answers = asyncio.run(scenario())

    assert "migration_sql()" in told
    assert WELL == answers


def test_a_job_whose_row_was_deleted_begins_anew(
    opened: Opened, shared_dsn: str, schema: str, ask: Ask
) -> None:
    """
    Whoever deletes a job's row by hand has it forgotten, and the records that are left are in nobody's way.
    """

    async def scenario() -> list[Verdict]:
        async with opened() as backend:
            now_ms = await backend.time(timeout_ms=TIMEOUT_MS)
            assert now_ms is not None
            verdicts = []
            for _ in range(2):
                (answer,) = await backend.claim([ask("job", now_ms)], timeout_ms=TIMEOUT_MS)
                assert isinstance(answer, ClaimAnswer)
                verdicts.append(answer.verdict)
                await executed(
                    shared_dsn, f"DELETE FROM {schema}.jobs WHERE job = 'job'", "SELECT 1"
                )
            return verdicts

    assert [Verdict.WON, Verdict.WON] == asyncio.run(scenario())


def test_every_hot_path_uses_an_index(
    opened: Opened, shared_dsn: str, schema: str, ask: Ask
) -> None:
    """
    Among 3,000 jobs no call reads a table from end to end, whatever it is asked.

    The server counts how often each table was read so, also inside of functions.
    """

    async def scenario() -> tuple[dict[str, int], int]:
        async with opened() as backend:
            now_ms = await backend.time(timeout_ms=TIMEOUT_MS)
            assert now_ms is not None
            claims = [ask(f"job-{number}", now_ms - 1_000) for number in range(3_000)]
            await backend.claim(claims, timeout_ms=TIMEOUT_MS)
            await executed(shared_dsn, f"ANALYZE {schema}.jobs, {schema}.runs", "SELECT 1")
            before = await scans(backend)
            for number in (0, 1_500):
                some = claims[number : number + 300]
                keys: list[dict[str, Any]] = [
                    {"job": each.job, "slot": each.slot, "attempt": 1, "token": each.token}
                    for each in some
                ]
                await backend.claim(
                    [ask(each.job, now_ms, attempt=2) for each in some], timeout_ms=TIMEOUT_MS
                )
                renewals = [RenewRequest(**key, lease_ms=9_000, started_ago_ms=1) for key in keys]
                await backend.renew(renewals, timeout_ms=TIMEOUT_MS)
                ends = [FinishRequest(**key, status=Status.SUCCESS) for key in keys]
                for _ in range(2):
                    await backend.finish(ends, timeout_ms=TIMEOUT_MS)
                backend._next_sweep_s = None
                await backend.claim([ask(each.job, now_ms) for each in some], timeout_ms=TIMEOUT_MS)
                await backend.history(some[0].job, limit=10, timeout_ms=TIMEOUT_MS)
                await backend.history(None, limit=10, timeout_ms=TIMEOUT_MS)
            after = await scans(backend)
            return {name: after[name] - count for name, count in before.items()}, len(before)

    async def scans(backend: PostgresBackend) -> dict[str, int]:
        async def look(session: Session) -> dict[str, int]:
            # A connection tells what it has counted when it next ends a transaction, and not more often than it must.
            await session.connection.fetch("SELECT pg_stat_force_next_flush()")
            rows = await session.connection.fetch(
                "SELECT relname, seq_scan FROM pg_stat_user_tables"
                " WHERE schemaname = $1 AND relname IN ('jobs', 'runs')",
                schema,
            )
            return {row["relname"]: row["seq_scan"] for row in rows}

        return await backend._opened().run(look, timeout_ms=TIMEOUT_MS)

    assert ({"jobs": 0, "runs": 0}, 2) == asyncio.run(scenario())
