"""
Several processes on one file: what only real ones can show.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from itertools import chain
from pathlib import Path

import pytest
from store_fixtures import line, tell

from anarchon.backend import ClaimAnswer, ClaimRequest, Verdict
from anarchon.errors import StoreUnavailableError
from anarchon_sqlite import SqliteBackend

TIMEOUT_MS = 10_000

Ask = Callable[..., ClaimRequest]
Opened = Callable[..., AbstractAsyncContextManager[SqliteBackend]]
Started = Callable[..., "subprocess.Popen[str]"]

pytestmark = pytest.mark.slow


async def claimed(
    backend: SqliteBackend, request: ClaimRequest, timeout_ms: int = TIMEOUT_MS
) -> ClaimAnswer:
    """
    Claim one run.
    """
    (answer,) = await backend.claim([request], timeout_ms=timeout_ms)
    assert isinstance(answer, ClaimAnswer)
    return answer


async def store_now_ms(backend: SqliteBackend) -> int:
    """
    Ask for the store's time.
    """
    now_ms = await backend.time(timeout_ms=TIMEOUT_MS)
    assert now_ms is not None
    return now_ms


@pytest.mark.timeout(300)
def test_each_run_has_one_winner(path: Path, opened: Opened, started: Started) -> None:
    """
    Of 4 processes with 4 tasks each, exactly one task wins each of 2,000 runs.
    """

    async def now() -> int:
        async with opened() as backend:
            return await store_now_ms(backend)

    slot = asyncio.run(now())
    racers = [started("race", path, f"racer-{number}", 2_000, 4) for number in range(4)]
    for racer in racers:
        assert "ready" == line(racer)
    for racer in racers:
        tell(racer, str(slot))
    outputs = [racer.communicate(timeout=250) for racer in racers]
    wins = [json.loads(output) for output, _ in outputs]

    assert ["", "", "", ""] == [errors for _, errors in outputs]
    assert dict.fromkeys(range(2_000), 1) == dict(
        sorted(Counter(chain.from_iterable(wins)).items())
    )
    assert sum(bool(won) for won in wins) > 1, "a racer that wins everything raced nobody"


def test_processes_may_make_the_tables_at_once(path: Path, started: Started) -> None:
    """
    8 processes that begin on no file at all have one schema between them, and one new job.
    """
    workers = [started("begin", path) for _ in range(8)]
    for worker in workers:
        assert "ready" == line(worker)
    for worker in workers:
        tell(worker)
    outputs = [worker.communicate(timeout=60) for worker in workers]

    assert [""] * 8 == [errors for _, errors in outputs]
    assert ["known"] * 7 + ["new"] == sorted(output.strip() for output, _ in outputs)


def test_a_writer_that_is_killed_lets_go(
    path: Path, opened: Opened, started: Started, ask: Ask
) -> None:
    """
    A process that holds the write lock stops writers, not readers; once killed, nobody.
    """

    async def scenario() -> None:
        async with opened() as backend:
            slot = await store_now_ms(backend)
            await claimed(backend, ask("before", slot))
            holder = started("hold", path)
            assert "held" == await asyncio.to_thread(line, holder)

            running = await claimed(backend, ask("before", slot))
            with pytest.raises(
                StoreUnavailableError,
                match=r"within 300 ms: another connection kept the file locked",
            ):
                await claimed(backend, ask("meanwhile", slot), timeout_ms=300)
            records = await backend.history(None, limit=5, timeout_ms=TIMEOUT_MS)
            holder.kill()
            after = await claimed(backend, ask("after", slot))
            held = await claimed(backend, ask("held", slot))

            assert Verdict.RUNNING == running.verdict
            assert ["before"] == [record.job for record in records]
            assert Verdict.WON == after.verdict
            assert (Verdict.WON, None) == (held.verdict, held.previous_high), (
                "what was not committed is gone"
            )

    asyncio.run(scenario())


def test_a_backend_cannot_be_opened_while_another_process_holds_the_lock(
    path: Path, opened: Opened, started: Started
) -> None:
    """
    Opening tells in time that the file is locked, and may be tried again.
    """

    async def scenario() -> None:
        async with opened():
            holder = started("hold", path)
            assert "held" == await asyncio.to_thread(line, holder)
            backend = SqliteBackend(path)
            with pytest.raises(StoreUnavailableError, match="locked"):
                await backend.open(timeout_ms=300)
            holder.kill()
            await backend.open(timeout_ms=TIMEOUT_MS)
            await backend.close()

    asyncio.run(scenario())


def test_a_frozen_process_loses_its_run(
    path: Path, opened: Opened, started: Started, ask: Ask
) -> None:
    """
    A process that is frozen past its lease is taken over, and hears so when it thaws.
    """

    async def scenario() -> None:
        async with opened() as backend:
            slot = await store_now_ms(backend)
            worker = started("run", path, "job", slot, 300)
            assert "won" == await asyncio.to_thread(line, worker)
            os.kill(worker.pid, signal.SIGSTOP)
            takeover = ask("job", slot, attempt=2)
            answer = await claimed(backend, takeover)
            while answer.verdict is Verdict.RUNNING:
                await asyncio.sleep(0.02)
                answer = await claimed(backend, takeover)
            os.kill(worker.pid, signal.SIGCONT)
            tell(worker)
            heard = await asyncio.to_thread(line, worker)

            assert Verdict.WON == answer.verdict
            assert "lost" == heard

    asyncio.run(scenario())


def test_a_process_ends_while_backends_are_open(path: Path, started: Started) -> None:
    """
    No thread of an open backend keeps a process alive, or complains at its end.
    """
    worker = started("leave", path)
    output, errors = worker.communicate(timeout=60)

    assert ("over\n", "", 0) == (output, errors, worker.returncode)


def test_a_disk_that_fails_is_an_outage_that_ends(path: Path, started: Started) -> None:
    """
    A write that the system refuses is reported in SQLite's words; later claims are served.
    """
    worker = started("cramp", path)
    output, errors = worker.communicate(timeout=60)
    words, verdicts = output.splitlines()

    assert "" == errors
    assert "disk I/O error (SQLITE_IOERR_WRITE); the file system failed" in words
    assert "['won']" == verdicts


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """
    A folder that everybody may enter: that of a test is its owner's alone.
    """
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def test_a_file_that_may_not_be_written_is_refused(open_folder: Path, started: Started) -> None:
    """
    A user without the right to write hears it at open(), in SQLite's words.
    """
    path = open_folder / "jobs.db"
    raw = sqlite3.connect(path)
    raw.execute("PRAGMA journal_mode = WAL").fetchall()
    raw.execute("CREATE TABLE other (number INTEGER)")
    raw.close()
    path.chmod(0o444)
    open_folder.chmod(0o555)
    worker = started("rights", path)
    output, errors = worker.communicate(timeout=60)
    open_folder.chmod(0o755)

    assert "" == errors
    assert output.startswith("StoreRefusedError")
    assert "readonly database" in output
    assert "may not write" in output


def test_a_file_that_may_not_be_read_is_refused(open_folder: Path, started: Started) -> None:
    """
    A user without the right to read, or to make the file, hears it at open().
    """
    path = open_folder / "jobs.db"
    path.touch()
    path.chmod(0o000)
    worker = started("rights", path)
    output, errors = worker.communicate(timeout=60)
    missing = started("rights", open_folder / "missing.db")
    missing_output, missing_errors = missing.communicate(timeout=60)

    assert ("", "") == (errors, missing_errors)
    for text in (output, missing_output):
        assert text.startswith("StoreRefusedError")
        assert "unable to open database file" in text
        assert "may not read or create it" in text
