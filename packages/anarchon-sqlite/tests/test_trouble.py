"""
SQLite's errors: which may pass, which will not, and that its own words are kept.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from anarchon.backend import ClaimRequest
from anarchon.errors import StoreRefusedError, StoreUnavailableError
from anarchon_sqlite import SqliteBackend
from anarchon_sqlite.batch import PIECE_MAX
from anarchon_sqlite.trouble import is_broken, is_busy, store_error

TIMEOUT_MS = 10_000

Ask = Callable[..., ClaimRequest]
Opened = Callable[..., AbstractAsyncContextManager[SqliteBackend]]


def error_of(code: int, name: str = "SQLITE_TOLD") -> sqlite3.OperationalError:
    """
    Make an error as SQLite's module would raise it.
    """
    error = sqlite3.OperationalError("its words")
    error.sqlite_errorcode = code
    error.sqlite_errorname = name
    return error


@pytest.mark.parametrize(
    "code",
    [
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_BUSY_SNAPSHOT,
        sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_IOERR_WRITE,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_PROTOCOL,
        sqlite3.SQLITE_INTERRUPT,
        sqlite3.SQLITE_CANTOPEN,
    ],
)
def test_what_may_pass_is_unavailable(tmp_path: Path, code: int) -> None:
    """
    An error that another try may not meet is an outage, by its primary code.
    """
    (tmp_path / "jobs.db").touch()
    error = store_error(error_of(code), str(tmp_path / "jobs.db"))

    assert isinstance(error, StoreUnavailableError)
    assert "its words (SQLITE_TOLD)" in str(error)


@pytest.mark.parametrize(
    "code",
    [
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_READONLY,
        sqlite3.SQLITE_READONLY_DBMOVED,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_ERROR,
        sqlite3.SQLITE_AUTH,
    ],
)
def test_what_will_not_pass_is_refused(tmp_path: Path, code: int) -> None:
    """
    An error that only somebody's hand can lift is a refusal.
    """
    error = store_error(error_of(code), str(tmp_path / "jobs.db"))

    assert isinstance(error, StoreRefusedError)
    assert "its words (SQLITE_TOLD)" in str(error)


def test_errors_of_the_module_itself_have_no_code(path: Path) -> None:
    """
    An error that SQLite never saw is a refusal, and neither busy nor broken.
    """
    error = sqlite3.ProgrammingError("its words")

    assert not is_busy(error)
    assert not is_broken(error)
    assert f"SQLite file {path}: its words" == str(store_error(error, str(path)))


def test_tables_that_have_gone_are_a_refusal(opened: Opened, ask: Ask) -> None:
    """
    A table that somebody has dropped is told in SQLite's words.
    """

    async def scenario() -> None:
        async with opened() as backend:
            writer = backend._writer
            assert writer is not None
            await writer.run(
                lambda raw, _: raw.execute("DROP TABLE anarchon_jobs").fetchall(),
                timeout_ms=TIMEOUT_MS,
            )
            with pytest.raises(StoreRefusedError, match="no such table: anarchon_jobs"):
                await backend.claim([ask("job", 5)], timeout_ms=TIMEOUT_MS)
            await writer.run(
                lambda raw, _: raw.execute("DROP TABLE anarchon_runs").fetchall(),
                timeout_ms=TIMEOUT_MS,
            )
            with pytest.raises(StoreRefusedError, match="no such table: anarchon_runs"):
                await backend.history(None, limit=1, timeout_ms=TIMEOUT_MS)

            assert frozenset() == await backend.next_hint([("job", 5, 1)], timeout_ms=200)

    asyncio.run(scenario())


def test_a_refusal_in_the_middle_of_a_batch_is_of_unknown_outcome(opened: Opened, ask: Ask) -> None:
    """
    When a part of a batch had been written, the call does not say that nothing was changed.
    """

    async def scenario() -> None:
        async with opened() as backend:
            writer = backend._writer
            assert writer is not None
            trigger = (
                "CREATE TRIGGER wall BEFORE INSERT ON anarchon_runs WHEN NEW.job >= 'z'"
                " BEGIN SELECT RAISE(ABORT, 'no further'); END"
            )
            await writer.run(lambda raw, _: raw.execute(trigger).fetchall(), timeout_ms=TIMEOUT_MS)
            batch = [ask(f"job-{number}", 5) for number in range(PIECE_MAX)]
            with pytest.raises(StoreRefusedError, match="no further"):
                await backend.claim([ask("z", 5)], timeout_ms=TIMEOUT_MS)
            with pytest.raises(
                StoreUnavailableError, match=r"no further.*a part of the batch had been written"
            ):
                await backend.claim([ask("z", 5), *batch], timeout_ms=TIMEOUT_MS)
            records = await backend.history(None, limit=1_000, timeout_ms=TIMEOUT_MS)

            assert PIECE_MAX == len(records)

    asyncio.run(scenario())
