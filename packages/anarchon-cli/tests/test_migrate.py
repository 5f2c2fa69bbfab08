"""
`anarchon migrate` prepares a store, or prints the SQL for somebody who may.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

import anarchon_testbed as testbed
from anarchon_postgres import PostgresBackend
from anarchon_postgres.driver import connect

Anarchon = Callable[..., Result]


def test_store_is_prepared(anarchon: Anarchon, folder: Path) -> None:
    """
    What a scheduler would make when it starts is there before; a second time changes nothing.
    """
    for _ in range(2):
        result = anarchon("migrate", "--backend", "sqlite:///jobs.db")

        assert (0, "") == (result.exit_code, result.stdout)
        assert "jobs.db" in result.stderr
        assert (folder / "jobs.db").exists()
    looked = anarchon("history", "--backend", "sqlite:///jobs.db")

    assert 0 == looked.exit_code


def test_sql_is_printed_without_a_server(anarchon: Anarchon) -> None:
    """
    The SQL is for another place and another user: no server is asked, and nothing but SQL is on the output.
    """
    url = "postgresql://nobody@192.0.2.1/none?schema=jobs"
    result = anarchon("migrate", "--backend", url, "--sql", "--grant-to", "app")

    assert (0, "") == (result.exit_code, result.stderr)
    assert result.stdout.startswith("BEGIN")
    assert 'GRANT USAGE ON SCHEMA "jobs" TO "app";' in result.stdout
    assert result.stdout.endswith("COMMIT;\n")


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        ((), 2, "migrate needs a store"),
        (("--backend", "memory:", "--grant-to", "app"), 2, "together with --sql"),
        (("--backend", "memory:", "--sql"), 1, "by no SQL"),
        (("--backend", "sqlite:///missing/jobs.db"), 1, "missing"),
    ],
)
def test_what_cannot_be_is_one_line(
    anarchon: Anarchon, arguments: tuple[str, ...], status: int, said: str
) -> None:
    """
    One line says what is wrong with the command or the store.
    """
    result = anarchon("migrate", *arguments)

    assert (status, "") == (result.exit_code, result.stdout)
    assert said in result.stderr


@pytest.mark.slow
def test_printed_sql_serves_a_user_without_rights(anarchon: Anarchon) -> None:
    """
    A user who may not create tables works after somebody else has run what was printed.
    """
    with testbed.postgres(own=True) as server:
        url = server.url_of("postgres", user="app")
        printed = anarchon("migrate", "--backend", url, "--sql", "--grant-to", "app").stdout

        async def run() -> None:
            connection = await connect(server.url)
            await connection.execute("CREATE ROLE app LOGIN")
            await connection.execute(printed)
            await connection.close()
            backend = PostgresBackend(url)
            await backend.open(timeout_ms=10_000)
            assert [] == await backend.history(None, limit=1, timeout_ms=10_000)
            await backend.close()

        asyncio.run(run())
        result = anarchon("doctor", "--backend", url)

    assert 0 == result.exit_code
    assert "has tables of version" in result.stdout
