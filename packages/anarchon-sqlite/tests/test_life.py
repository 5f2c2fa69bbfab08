"""
The life of a backend: unopened, open, closed; cancelled and late calls.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from anarchon.backend import (
    PROTOCOL_VERSION,
    ClaimAnswer,
    ClaimRequest,
    LeaseBackend,
    Verdict,
)
from anarchon.errors import BackendError, BackendStateError, StoreUnavailableError
from anarchon_sqlite import SqliteBackend

TIMEOUT_MS = 10_000

Ask = Callable[..., ClaimRequest]
Opened = Callable[..., AbstractAsyncContextManager[SqliteBackend]]


async def store_now_ms(backend: SqliteBackend) -> int:
    """
    Ask for the store's time.
    """
    now_ms = await backend.time(timeout_ms=TIMEOUT_MS)
    assert now_ms is not None
    return now_ms


async def verdicts(backend: SqliteBackend, *requests: ClaimRequest) -> list[Verdict | None]:
    """
    Claim a batch, and tell the verdicts; None where an error stands.
    """
    answers = await backend.claim(requests, timeout_ms=TIMEOUT_MS)
    return [answer.verdict if isinstance(answer, ClaimAnswer) else None for answer in answers]


def test_it_is_a_lease_backend(path: Path) -> None:
    """
    It offers the calls of a lease backend, by the protocol's version, and says where it keeps things.
    """
    backend = SqliteBackend(path, prefix="other")

    assert isinstance(backend, LeaseBackend)
    assert PROTOCOL_VERSION == backend.protocol_version
    assert backend.capabilities.leases
    assert str(path) in backend.service
    assert "prefix other" in backend.service


def test_the_constructor_opens_nothing(path: Path) -> None:
    """
    A server may fork after the constructor: no file, no thread.
    """
    backend = SqliteBackend(path)
    backend.clone()

    assert not path.exists()


def test_a_relative_path_is_fixed_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A change of directory between constructor and open() does not move the file.
    """
    monkeypatch.chdir(tmp_path)
    backend = SqliteBackend("jobs.db")
    monkeypatch.chdir("/")

    async def scenario() -> None:
        await backend.open(timeout_ms=TIMEOUT_MS)
        await backend.close()

    asyncio.run(scenario())

    assert (tmp_path / "jobs.db").exists()


def test_life(path: Path) -> None:
    """
    A backend is opened once and closed for good; its clone starts afresh.
    """

    async def scenario() -> None:
        backend = SqliteBackend(path)
        with pytest.raises(BackendStateError, match="is unopened; open"):
            await backend.time(timeout_ms=TIMEOUT_MS)
        await backend.open(timeout_ms=TIMEOUT_MS)
        with pytest.raises(BackendStateError, match="is open; clone"):
            await backend.open(timeout_ms=TIMEOUT_MS)
        await backend.close()
        await backend.close()
        with pytest.raises(BackendStateError, match="is closed; open"):
            await backend.history(None, limit=1, timeout_ms=TIMEOUT_MS)
        with pytest.raises(BackendStateError, match="is closed; clone"):
            await backend.open(timeout_ms=TIMEOUT_MS)
        clone = backend.clone()
        await clone.open(timeout_ms=TIMEOUT_MS)
        await clone.close()

    asyncio.run(scenario())


def test_closing_during_open_ends_both(path: Path) -> None:
    """
    A backend that is closed while it is being opened stays closed.
    """

    async def scenario() -> None:
        backend = SqliteBackend(path)
        opening = asyncio.create_task(backend.open(timeout_ms=TIMEOUT_MS))
        await asyncio.sleep(0)
        await backend.close()
        with pytest.raises(BackendStateError, match="closed while it was being opened"):
            await opening
        with pytest.raises(BackendStateError):
            await backend.time(timeout_ms=TIMEOUT_MS)

    asyncio.run(scenario())


def test_an_open_that_is_cancelled_may_be_repeated(path: Path) -> None:
    """
    Cancelled at any of its awaits, open() leaves nothing open and the backend unopened.
    """

    async def scenario() -> None:
        backend = SqliteBackend(path)
        for turns in range(6):
            opening = asyncio.create_task(backend.open(timeout_ms=TIMEOUT_MS))
            for _ in range(turns):
                await asyncio.sleep(0)
            opening.cancel()
            with pytest.raises(asyncio.CancelledError):
                await opening
        await backend.open(timeout_ms=TIMEOUT_MS)
        await backend.close()

    asyncio.run(scenario())


def test_close_ends_calls_in_flight(path: Path, ask: Ask) -> None:
    """
    Calls that are under way when close() comes answer or raise; none hangs.
    """

    async def scenario() -> None:
        backend = SqliteBackend(path)
        await backend.open(timeout_ms=TIMEOUT_MS)
        slot = await store_now_ms(backend)
        calls = [
            asyncio.create_task(backend.claim([ask(f"job-{number}", slot)], timeout_ms=TIMEOUT_MS))
            for number in range(50)
        ]
        watch = asyncio.create_task(backend.next_hint([("none", 1, 1)], timeout_ms=TIMEOUT_MS))
        await asyncio.sleep(0)
        await backend.close()
        outcomes = await asyncio.gather(*calls, watch, return_exceptions=True)

        for outcome in outcomes:
            assert isinstance(outcome, BackendError | list | frozenset)

    asyncio.run(scenario())


def test_a_call_without_time_says_so(opened: Opened, ask: Ask) -> None:
    """
    A call whose deadline is now raises, and leaves the backend usable.
    """

    async def scenario() -> None:
        async with opened() as backend:
            slot = await store_now_ms(backend)
            with pytest.raises(StoreUnavailableError, match="within 0 ms"):
                await backend.claim([ask("job", slot)], timeout_ms=0)
            with pytest.raises(StoreUnavailableError):
                await backend.history(None, limit=1, timeout_ms=0)

            assert frozenset() == await backend.next_hint([], timeout_ms=0)
            assert [Verdict.WON] == await verdicts(backend, ask("job", slot))

    asyncio.run(scenario())


def test_cancelled_at_any_await_a_claim_is_made_or_not(opened: Opened, ask: Ask) -> None:
    """
    Whenever its caller is cancelled, a claim is wholly made or not, and asking again tells.
    """

    async def scenario() -> None:
        async with opened() as backend:
            slot = await store_now_ms(backend)
            for turns in range(12):
                claim = ask(f"job-{turns}", slot)
                calling = asyncio.create_task(backend.claim([claim], timeout_ms=TIMEOUT_MS))
                for _ in range(turns):
                    await asyncio.sleep(0)
                calling.cancel()
                await asyncio.gather(calling, return_exceptions=True)
                answers = await verdicts(backend, claim, ask(claim.job, slot))
                records = await backend.history(claim.job, limit=5, timeout_ms=TIMEOUT_MS)

                assert [Verdict.WON, Verdict.RUNNING] == answers
                assert 1 == len(records)

    asyncio.run(scenario())
