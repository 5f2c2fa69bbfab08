"""
The tables: how they come to be, which versions are refused, and that indices serve every hot read.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, closing
from dataclasses import fields
from pathlib import Path

import pytest

from anarchon.backend import PROTOCOL_VERSION, ClaimAnswer, ClaimRequest, RunView
from anarchon.errors import BackendError, ProtocolVersionError, ServerTooOldError, StoreRefusedError
from anarchon_sqlite import SqliteBackend, schema
from anarchon_sqlite.schema import SCHEMA_VERSION, SQLITE_MIN, check_sqlite_version
from anarchon_sqlite.statements import READ_SIZES, Statements, statements_for

TIMEOUT_MS = 10_000

Ask = Callable[..., ClaimRequest]
Opened = Callable[..., AbstractAsyncContextManager[SqliteBackend]]


def open_and_close(path: Path) -> None:
    """
    Open a backend on the file, and close it.
    """

    async def scenario() -> None:
        backend = SqliteBackend(path)
        await backend.open(timeout_ms=TIMEOUT_MS)
        await backend.close()

    asyncio.run(scenario())


def execute(path: Path, statement: str) -> list[tuple[object, ...]]:
    """
    Run one statement on the file, beside the backend.
    """
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        return raw.execute(statement).fetchall()


def test_a_new_file_gets_this_schema(path: Path) -> None:
    """
    The file says which schema and which protocol it keeps, and writes ahead.
    """
    open_and_close(path)
    meta = {str(row[0]): row[1] for row in execute(path, "SELECT key, value FROM anarchon_meta")}

    assert {
        "schema_version": str(SCHEMA_VERSION),
        "protocol_version": str(PROTOCOL_VERSION),
    } == meta
    assert [("wal",)] == execute(path, "PRAGMA journal_mode")


def test_a_file_of_the_first_schema_is_taken_over(
    path: Path, opened: Opened, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    The steps that a file lacks are taken when it is opened, and the run in it goes on.
    """
    with monkeypatch.context() as patch:
        patch.setattr(schema, "SCHEMA_VERSION", 1)
        patch.setattr(schema, "_STEPS", schema._STEPS[:1])
        open_and_close(path)
    columns = [str(row[1]) for row in execute(path, "PRAGMA table_info(anarchon_jobs)")]
    texts = {"job": "'job'", "live_lease_clock": "'another'", "live_instance_id": "'host:1'"}
    values = ", ".join(texts.get(name, "7") for name in columns)
    execute(path, f"INSERT INTO anarchon_jobs VALUES ({values})")

    async def scenario() -> ClaimAnswer | BackendError:
        async with opened() as backend:
            (answer,) = await backend.claim([ask("job", 7)], timeout_ms=TIMEOUT_MS)
            return answer

    answer = asyncio.run(scenario())

    assert isinstance(answer, ClaimAnswer)
    assert RunView(slot=7, attempt=7, remaining_ms=7, instance_id="host:1") == answer.run
    assert "live_lease_elsewhere" not in columns
    assert [(str(SCHEMA_VERSION),)] == execute(
        path, "SELECT value FROM anarchon_meta WHERE key = 'schema_version'"
    )


def test_opening_again_changes_nothing(path: Path) -> None:
    """
    A file that has its tables already keeps them as they are.
    """
    open_and_close(path)
    before = execute(path, "SELECT name, sql FROM sqlite_schema ORDER BY name")
    open_and_close(path)

    assert before == execute(path, "SELECT name, sql FROM sqlite_schema ORDER BY name")


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("schema_version", rf"of schema 99, written by a newer .* up to {SCHEMA_VERSION}"),
        ("protocol_version", rf"speak protocol 99; this anarchon-sqlite speaks {PROTOCOL_VERSION}"),
    ],
)
def test_a_version_that_is_not_known_is_refused(path: Path, key: str, message: str) -> None:
    """
    Tables of a newer schema or another protocol are refused with both versions, and left alone.
    """
    open_and_close(path)
    execute(path, f"UPDATE anarchon_meta SET value = '99' WHERE key = '{key}'")
    with pytest.raises(ProtocolVersionError, match=message):
        open_and_close(path)

    assert [("99",)] == execute(path, f"SELECT value FROM anarchon_meta WHERE key = '{key}'")


def test_a_migration_that_fails_leaves_nothing(path: Path) -> None:
    """
    The steps are one transaction: a stranger's table in the way leaves the file as it was.
    """
    execute(path, "CREATE TABLE anarchon_runs (number INTEGER)")
    with pytest.raises(StoreRefusedError, match="anarchon_runs already exists"):
        open_and_close(path)

    assert [("anarchon_runs",)] == execute(path, "SELECT name FROM sqlite_schema")


def test_an_old_sqlite_is_refused() -> None:
    """
    The message names the version that was found, and the one that is needed.
    """
    needed = ".".join(map(str, SQLITE_MIN))
    check_sqlite_version(SQLITE_MIN)
    with pytest.raises(
        ServerTooOldError, match=rf"carries SQLite 3\.33\.0; SQLite {needed} or newer"
    ):
        check_sqlite_version((3, 33, 0))


def test_a_file_that_is_no_database_is_refused(path: Path) -> None:
    """
    A file of something else is not overwritten.
    """
    path.write_bytes(b"something else " * 100)
    with pytest.raises(StoreRefusedError, match=r"not a database.*name another one"):
        open_and_close(path)

    assert path.read_bytes().startswith(b"something else")


def test_a_place_that_cannot_be_is_refused(tmp_path: Path) -> None:
    """
    A directory, and a file in a missing directory, are told apart from a file system's trouble.
    """
    with pytest.raises(StoreRefusedError, match="this is a directory; name a file in it"):
        open_and_close(tmp_path)
    with pytest.raises(StoreRefusedError, match="missing does not exist; create it first"):
        open_and_close(tmp_path / "missing" / "jobs.db")


def test_a_file_that_cannot_write_ahead_is_refused(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Where SQLite stays at another journal mode, processes could not share the file.
    """
    # A connection to memory has that mode, and takes no other.
    monkeypatch.setattr(
        "anarchon_sqlite.backend.connect",
        lambda _path: sqlite3.connect(":memory:", isolation_level=None),
    )
    with pytest.raises(StoreRefusedError, match="stays at journal mode 'memory'"):
        open_and_close(path)


@pytest.mark.parametrize("synchronous", ["full", "normal"])
def test_connections_are_set_up(opened: Opened, synchronous: str) -> None:
    """
    The writer commits as hard as it was told; the reader cannot write.
    """

    async def scenario() -> None:
        async with opened(synchronous=synchronous) as backend:
            await backend.history(None, limit=1, timeout_ms=TIMEOUT_MS)
            writer, reader = backend._writer, backend._reader
            assert writer is not None
            assert reader is not None
            level = await writer.run(
                lambda raw, _: raw.execute("PRAGMA synchronous").fetchall(), timeout_ms=TIMEOUT_MS
            )

            assert [({"full": 2, "normal": 1}[synchronous],)] == level
            with pytest.raises(sqlite3.OperationalError, match="readonly"):
                await reader.run(
                    lambda raw, _: raw.execute("DELETE FROM anarchon_jobs"), timeout_ms=TIMEOUT_MS
                )

    asyncio.run(scenario())


def test_a_full_disk_is_a_refusal_until_there_is_room(opened: Opened, ask: Ask) -> None:
    """
    Without room, a claim is refused in SQLite's words; reads go on; with room it is granted.
    """

    async def scenario() -> None:
        async with opened() as backend:
            now_ms = await backend.time(timeout_ms=TIMEOUT_MS)
            assert now_ms is not None
            first = ask("first", now_ms)
            await backend.claim([first], timeout_ms=TIMEOUT_MS)
            writer = backend._writer
            assert writer is not None
            await writer.run(
                lambda raw, _: raw.execute("PRAGMA max_page_count = 8").fetchall(),
                timeout_ms=TIMEOUT_MS,
            )
            batch = [ask(f"job-{number}", now_ms) for number in range(100)]
            with pytest.raises(
                StoreRefusedError, match=r"full \(SQLITE_FULL\).*nothing was changed"
            ):
                await backend.claim(batch, timeout_ms=TIMEOUT_MS)
            (running,) = await backend.claim([ask("first", now_ms)], timeout_ms=TIMEOUT_MS)
            records = await backend.history(None, limit=1_000, timeout_ms=TIMEOUT_MS)
            await writer.run(
                lambda raw, _: raw.execute("PRAGMA max_page_count = 100000").fetchall(),
                timeout_ms=TIMEOUT_MS,
            )
            answers = await backend.claim(batch, timeout_ms=TIMEOUT_MS)

            assert not isinstance(running, BackendError)
            assert "running" == running.verdict
            assert 1 == len(records)
            assert {"won"} == {
                "error" if isinstance(one, BackendError) else one.verdict.value for one in answers
            }

    asyncio.run(scenario())


def every_statement() -> Iterator[tuple[str, str]]:
    """
    Name each statement of the backend; those that come in several lengths, by each length.
    """
    statements = statements_for("anarchon")
    for field in fields(Statements):
        value: str | tuple[str, ...] = getattr(statements, field.name)
        if isinstance(value, tuple):
            yield from (
                (f"{field.name} {size}", text) for size, text in zip(READ_SIZES, value, strict=True)
            )
        elif field.name != "prefix":
            yield field.name, value


@pytest.mark.parametrize(
    ("name", "statement"), [pytest.param(name, text, id=name) for name, text in every_statement()]
)
def test_no_statement_reads_a_whole_table(path: Path, name: str, statement: str) -> None:
    """
    Every statement finds its rows by an index, and sorts none.
    """
    open_and_close(path)
    with closing(sqlite3.connect(path)) as raw:
        plan = raw.execute(
            f"EXPLAIN QUERY PLAN {statement}", (None,) * statement.count("?")
        ).fetchall()
    steps = [str(row[3]) for row in plan]

    assert not [step for step in steps if "TEMP B-TREE" in step]
    scans = [step for step in steps if step.startswith("SCAN ") and "CONSTANT ROW" not in step]
    whole = {
        # The history of all jobs walks the index from its newest end, and stops at the limit.
        "history": ["SCAN anarchon_runs USING INDEX anarchon_runs_by_slot"],
        # A person asks for every job; no scheduler does.
        "read_all_jobs": ["SCAN anarchon_jobs"],
    }
    assert whole.get(name, []) == [step.replace(" TABLE", "") for step in scans]
