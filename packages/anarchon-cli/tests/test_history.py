"""
`anarchon history` reads what any store kept, without the jobs' code.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import Result

from anarchon import Backend, ClaimRequest, FinishRequest, MemoryBackend, Reason, RunRecord, Status
from anarchon_cli.app import StatusName
from anarchon_cli.history import endless, json_of, read_history, row_of
from anarchon_sqlite import SqliteBackend

Anarchon = Callable[..., Result]

TIMEOUT_MS = 10_000
ERROR = "ValueError: it is\n  File 'x'"


async def fill(backend: Backend, slots: int) -> None:
    """
    Let a job run: each third slot failed, the others went well, and the newest one is still running.
    """
    await backend.open(timeout_ms=TIMEOUT_MS)
    try:
        for number in range(1, slots + 1):
            claim = ClaimRequest(
                job="sync",
                slot=number * 1_000,
                token=f"t{number}",
                instance_id="web-1",
                lease_ms=60_000,
            )
            await backend.claim([claim], timeout_ms=TIMEOUT_MS)
            if number == slots:
                return
            failed = number % 3 == 0
            finish = FinishRequest(
                job=claim.job,
                slot=claim.slot,
                attempt=1,
                token=claim.token,
                status=Status.FAILED if failed else Status.SUCCESS,
                reason=Reason.ERROR if failed else None,
                error=ERROR if failed else None,
                started_ago_ms=0,
            )
            await backend.finish([finish], timeout_ms=TIMEOUT_MS)
    finally:
        await backend.close()


@pytest.fixture
def url(folder: Path) -> str:
    """
    Fill a store, and return its URL.
    """
    asyncio.run(fill(SqliteBackend(folder / "jobs.db"), 7))
    return "sqlite:///jobs.db"


def test_records_stand_in_a_table(anarchon: Anarchon, url: str) -> None:
    """
    One row an attempt, newest first, with the first line of an error; into a pipe, nothing is cut.
    """
    result = anarchon("history", "--backend", url)

    header, newest, *rows = result.stdout.splitlines()

    assert header.split()[:4] == ["job", "slot", "(UTC)", "attempt"]
    assert ["sync", "1970-01-01", "00:00:07", "1", "web-1", "running"] == newest.split()[:6]
    assert 6 == len(rows)
    assert " failed (error) " in rows[0]
    assert rows[0].endswith("ValueError: it is")
    assert "File 'x'" not in result.stdout


def test_records_are_complete_as_json(anarchon: Anarchon, url: str) -> None:
    """
    One object a line, with the names of the record's fields and the whole error.
    """
    result = anarchon("history", "--backend", url, "--json", "--limit", "2")

    running, failed = (json.loads(line) for line in result.stdout.splitlines())

    assert (7_000, "running", None) == (running["slot"], running["status"], running["finished_at"])
    assert ("failed", "error", ERROR) == (failed["status"], failed["reason"], failed["error"])
    assert failed["claimed_at"].endswith("+00:00")
    assert {"job", "attempt", "instance_id", "started_at"} < set(failed)


def test_one_job_and_one_status_are_chosen(anarchon: Anarchon, url: str) -> None:
    """
    A job's name and --status narrow the records down; the limit counts what is left.
    """
    chosen = anarchon(
        "history", "sync", "--backend", url, "--status", "failed", "--limit", "1", "--json"
    )
    other = anarchon("history", "report", "--backend", url)

    assert [6_000] == [json.loads(line)["slot"] for line in chosen.stdout.splitlines()]
    assert (0, "") == (other.exit_code, other.stdout)
    assert "No record of job 'report' in SQLite" in other.stderr


def test_a_rare_status_is_found_behind_many_others() -> None:
    """
    The limit is about matching records: the search goes on beyond the first page.
    """

    async def search() -> list[int]:
        backend = MemoryBackend()
        await fill(backend.clone(), 40)
        await backend.open(timeout_ms=TIMEOUT_MS)
        found = await read_history(backend, "sync", limit=13, status=Status.FAILED)
        return [record.slot for record in found]

    assert [number * 3_000 for number in range(13, 0, -1)] == asyncio.run(search())


def test_every_status_can_be_asked_for() -> None:
    """
    The command line knows the very statuses of the core.
    """
    assert [status.value for status in Status] == [status.value for status in StatusName]


def test_the_store_may_stand_in_the_environment(
    anarchon: Anarchon, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    ANARCHON_BACKEND is the URL where --backend is left out.
    """
    monkeypatch.setenv("ANARCHON_BACKEND", url)

    result = anarchon("history", "--limit", "1")

    assert (0, 2) == (result.exit_code, len(result.stdout.splitlines()))


def test_a_mistyped_path_makes_no_file(anarchon: Anarchon, folder: Path) -> None:
    """
    Who reads the history of a file that is not there hears so, and leaves none behind.
    """
    result = anarchon("history", "--backend", "sqlite:///mistyped.db")

    assert (1, "") == (result.exit_code, result.stdout)
    assert "mistyped.db does not exist" in result.stderr
    assert [] == list(folder.iterdir())


@pytest.mark.parametrize(
    ("leases", "status", "age", "doubted"),
    [
        (False, Status.RUNNING, timedelta(hours=2), True),
        (False, Status.RUNNING, timedelta(minutes=59), False),
        (True, Status.RUNNING, timedelta(hours=2), False),
        (False, Status.SUCCESS, timedelta(hours=2), False),
    ],
)
def test_an_end_that_nobody_would_have_heard_of_is_doubted(
    *, leases: bool, status: Status, age: timedelta, doubted: bool
) -> None:
    """
    Without leases nobody notices that a runner died: after an hour its record is not taken at its word.
    """
    now = datetime(2027, 1, 1, tzinfo=UTC)
    record = RunRecord(
        job="j", slot=0, attempt=1, instance_id="i", status=status, claimed_at=now - age
    )

    assert doubted is endless(record, leases=leases, now=now)
    assert (" (no end recorded)" in row_of(record, no_end=doubted)[4]) is doubted
    assert doubted is json_of(record, no_end=doubted)["no_end"]


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        ((), 2, "history needs a store: --backend URL"),
        (("--backend", "nosuch://x"), 1, "memory, memory-claim"),
        (("--backend", "sqlite:///missing/folder/jobs.db"), 1, "missing/folder"),
        (("--backend", "sqlite:///jobs.db?colour=red"), 1, "unknown parameter 'colour'"),
    ],
)
def test_a_store_that_cannot_be_read_is_said(
    anarchon: Anarchon, arguments: tuple[str, ...], status: int, said: str
) -> None:
    """
    One line names the store and what is wrong with it.
    """
    result = anarchon("history", *arguments)

    assert (status, "") == (result.exit_code, result.stdout)
    assert said in result.stderr
    assert 1 == len(result.stderr.splitlines())
