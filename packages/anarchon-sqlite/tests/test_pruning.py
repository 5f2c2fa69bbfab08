"""
The history stays bounded, and forgetting protects every slot.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, closing
from pathlib import Path

from anarchon.backend import ClaimAnswer, ClaimRequest, FinishRequest, Verdict
from anarchon.records import Retention, Status
from anarchon_sqlite import SqliteBackend

TIMEOUT_MS = 10_000

Ask = Callable[..., ClaimRequest]
Opened = Callable[..., AbstractAsyncContextManager[SqliteBackend]]


async def run_through(backend: SqliteBackend, ask: Ask, job: str, slots: range) -> None:
    """
    Claim and finish one slot after the other.
    """
    for slot in slots:
        claim = ask(job, slot)
        (answer,) = await backend.claim([claim], timeout_ms=TIMEOUT_MS)
        assert isinstance(answer, ClaimAnswer)
        assert Verdict.WON == answer.verdict
        finish = FinishRequest(
            job=job, slot=slot, attempt=1, token=claim.token, status=Status.SUCCESS
        )
        await backend.finish([finish], timeout_ms=TIMEOUT_MS)


async def slots_of(backend: SqliteBackend, job: str) -> list[int]:
    """
    Name the slots that the history still has, newest first.
    """
    return [
        record.slot for record in await backend.history(job, limit=100_000, timeout_ms=TIMEOUT_MS)
    ]


def counted(path: Path) -> tuple[int, int]:
    """
    Tell how many records the file has, and how many the jobs say they have.
    """
    with closing(sqlite3.connect(path)) as raw:
        (records,) = raw.execute("SELECT count(*) FROM anarchon_runs").fetchone()
        (said,) = raw.execute("SELECT sum(records) FROM anarchon_jobs").fetchone()
    return records, said


def test_a_short_history_is_kept_exactly(path: Path, opened: Opened, ask: Ask) -> None:
    """
    The newest records stay; a slot whose record has gone is still late.
    """

    async def scenario() -> None:
        async with opened(synchronous="normal", retention=Retention(records_per_job=5)) as backend:
            await run_through(backend, ask, "job", range(1, 21))
            await run_through(backend, ask, "other", range(1, 3))
            (answer,) = await backend.claim([ask("job", 3)], timeout_ms=TIMEOUT_MS)

            assert [20, 19, 18, 17, 16] == await slots_of(backend, "job")
            assert [2, 1] == await slots_of(backend, "other")
            assert isinstance(answer, ClaimAnswer)
            assert Verdict.LATE == answer.verdict

    asyncio.run(scenario())

    assert (7, 7) == counted(path)


def test_a_long_history_is_cut_in_strokes(path: Path, opened: Opened, ask: Ask) -> None:
    """
    At most a thirty-second more than the retention allows is ever there.
    """

    async def scenario() -> None:
        async with opened(synchronous="normal", retention=Retention(records_per_job=64)) as backend:
            lengths = []
            for slot in range(1, 201):
                await run_through(backend, ask, "job", range(slot, slot + 1))
                lengths.append(len(await slots_of(backend, "job")))

            assert list(range(1, 65)) == lengths[:64]
            assert {64, 65, 66} == set(lengths[64:])

    asyncio.run(scenario())


def test_an_unfinished_record_is_never_pruned(path: Path, opened: Opened, ask: Ask) -> None:
    """
    A run that goes on keeps its record, however many slots are skipped meanwhile.
    """

    async def scenario() -> None:
        async with opened(synchronous="normal", retention=Retention(records_per_job=3)) as backend:
            for slot in range(1, 11):
                await backend.claim([ask("job", slot)], timeout_ms=TIMEOUT_MS)

            assert [10, 9, 1] == await slots_of(backend, "job")

    asyncio.run(scenario())

    assert (3, 3) == counted(path)


def test_old_records_of_every_job_are_swept(path: Path, opened: Opened, ask: Ask) -> None:
    """
    What ended longer ago than the retention's age goes, also of a job that runs no more.
    """

    async def scenario() -> None:
        async with opened(synchronous="normal") as backend:
            await run_through(backend, ask, "gone", range(1, 301))
            await run_through(backend, ask, "job", range(1, 3))
            await backend.claim([ask("job", 3, lease_ms=600_000)], timeout_ms=TIMEOUT_MS)
        last = await end_of_records(path)
        async with opened(synchronous="normal", retention=Retention(age_ms=1)) as backend:
            while (await backend.time(timeout_ms=TIMEOUT_MS) or 0) <= last + 1:
                pass
            # A transaction forgets some, and the next one goes on.
            for slot in (1, 2, 3):
                await backend.claim([ask("new", slot)], timeout_ms=TIMEOUT_MS)

            assert [] == await slots_of(backend, "gone")
            assert [3] == await slots_of(backend, "job")

    asyncio.run(scenario())
    records, said = counted(path)

    assert records == said


async def end_of_records(path: Path) -> int:
    """
    Tell when the last record ended.
    """
    with closing(sqlite3.connect(path)) as raw:
        (last,) = raw.execute("SELECT max(finished_ms) FROM anarchon_runs").fetchone()
    return int(last)


def test_records_without_an_age_are_kept(opened: Opened, ask: Ask) -> None:
    """
    A retention without an age forgets by count alone.
    """

    async def scenario() -> None:
        async with opened(synchronous="normal", retention=Retention(age_ms=None)) as backend:
            await run_through(backend, ask, "job", range(1, 4))

            assert [3, 2, 1] == await slots_of(backend, "job")

    asyncio.run(scenario())
