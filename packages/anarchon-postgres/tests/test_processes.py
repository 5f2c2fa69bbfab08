"""
Several processes on one server: what only real ones can show.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from itertools import chain

import pytest
from store_fixtures import line, tell

import anarchon_testbed as testbed
from anarchon.backend import (
    ClaimAnswer,
    ClaimRequest,
    FinishRequest,
    RegisterRequest,
    RenewRequest,
    Verdict,
)
from anarchon.records import Status
from anarchon_postgres import PostgresBackend

TIMEOUT_MS = 60_000

Opened = Callable[..., AbstractAsyncContextManager[PostgresBackend]]
Started = Callable[..., "subprocess.Popen[str]"]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]


def race(
    started: Started, opened: Opened, dsn: str, schema: str, *, jobs: int, slots: int
) -> list[Sequence[int]]:
    """
    Let 4 processes with 4 connections each race for all slots of all jobs; return what each won.
    """

    async def first_slot() -> int:
        async with opened(dsn) as backend:
            now_ms = await backend.time(timeout_ms=TIMEOUT_MS)
            assert now_ms is not None
            return now_ms - 3_600_000

    first = asyncio.run(first_slot())
    racers = [
        started("race", dsn, schema, f"racer-{number}", jobs, slots, 4) for number in range(4)
    ]
    for racer in racers:
        assert "ready" == line(racer), racer.communicate()
    for racer in racers:
        tell(racer, str(first))
    outputs = [racer.communicate(timeout=200) for racer in racers]

    assert ["", "", "", ""] == [errors for _, errors in outputs]
    return [json.loads(output) for output, _ in outputs]


def _end(request: ClaimRequest) -> FinishRequest:
    return FinishRequest(
        job=request.job,
        slot=request.slot,
        attempt=1,
        token=request.token,
        status=Status.SUCCESS,
    )


def complaints(log: str) -> list[str]:
    """
    Find what a server's log reports as errors.
    """
    return [each for each in log.splitlines() if "ERROR" in each or "deadlock" in each]


def test_each_run_has_one_winner(
    server: testbed.PostgresServer, started: Started, opened: Opened, schema: str
) -> None:
    """
    Of 16 claimers in 4 processes exactly one wins each of 5,000 slots, and the server's log has no errors.

    Claims and finishes come in batches of crossing orders, so that unsorted locks would deadlock.
    """
    wins = race(started, opened, server.url, schema, jobs=500, slots=10)

    assert dict.fromkeys(range(5_000), 1) == dict(
        sorted(Counter(chain.from_iterable(wins)).items())
    )
    assert sum(bool(won) for won in wins) > 1, "a racer that wins everything raced nobody"
    assert [] == complaints(server.log)


def test_each_run_has_one_winner_behind_a_pooler(
    server: testbed.PostgresServer, started: Started, opened: Opened, schema: str
) -> None:
    """
    Transactions that a pooler hands to any of eight connections are as exact.
    """
    with testbed.pgbouncer(server) as bouncer:
        wins = race(started, opened, bouncer.url, schema, jobs=100, slots=5)

    assert dict.fromkeys(range(500), 1) == dict(sorted(Counter(chain.from_iterable(wins)).items()))
    assert [] == complaints(server.log)


def test_a_stricter_default_isolation_does_no_harm(
    server: testbed.PostgresServer, started: Started, opened: Opened, schema: str
) -> None:
    """
    In a database whose transactions are serializable by default nothing is an error, directly and behind a pooler.
    """

    async def alter() -> None:
        async with opened(server.url) as backend:

            async def statement(session: object) -> None:
                connection = session.connection  # type: ignore[attr-defined]  # the backend's own session
                await connection.execute(
                    "ALTER DATABASE postgres SET default_transaction_isolation = 'serializable'"
                )

            await backend._opened().run(statement, timeout_ms=TIMEOUT_MS)

    asyncio.run(alter())
    direct = race(started, opened, server.url, schema, jobs=50, slots=2)
    with testbed.pgbouncer(server) as bouncer:
        pooled = race(started, opened, bouncer.url, schema, jobs=50, slots=2)

    assert dict.fromkeys(range(100), 1) == dict(
        sorted(Counter(chain.from_iterable(direct)).items())
    )
    assert {1} == set(Counter(chain.from_iterable(pooled)).values())
    assert [] == complaints(server.log)


def test_instances_may_make_the_tables_at_once(
    server: testbed.PostgresServer, schema: str, opened: Opened
) -> None:
    """
    Sixteen instances that begin on an empty database have one schema between them, and one new job.
    """

    async def begin() -> bool:
        async with opened(server.url) as backend:
            (answer,) = await backend.register(
                [RegisterRequest(job="job", slot=None)], timeout_ms=TIMEOUT_MS
            )
            return bool(getattr(answer, "new", None))

    async def all_begin() -> list[bool]:
        return await asyncio.gather(*(begin() for _ in range(16)))

    assert [False] * 15 + [True] == sorted(asyncio.run(all_begin()))
    assert [] == complaints(server.log)


def test_batches_in_any_order_do_not_deadlock(
    server: testbed.PostgresServer, opened: Opened, ask: Callable[..., ClaimRequest]
) -> None:
    """
    Claims, renewals and registrations of the same jobs in opposite orders all end, and no deadlock is broken.
    """

    async def scenario() -> list[str]:
        async with (
            opened(server.url) as one,
            opened(server.url) as two,
            opened(server.url) as three,
        ):
            now_ms = await one.time(timeout_ms=TIMEOUT_MS)
            assert now_ms is not None
            claims = [ask(f"job-{number:03}", now_ms) for number in range(200)]
            await one.claim(claims, timeout_ms=TIMEOUT_MS)
            for turn in range(10):
                renewals = [
                    RenewRequest(
                        job=each.job, slot=each.slot, attempt=1, token=each.token, lease_ms=30_000
                    )
                    for each in reversed(claims)
                ]
                schedules = [
                    RegisterRequest(job=each.job, slot=None, fingerprint=f"{turn}")
                    for each in claims[::7] + claims[::3]
                ]
                answers = await asyncio.gather(
                    one.claim(claims, timeout_ms=TIMEOUT_MS),
                    two.renew(renewals, timeout_ms=TIMEOUT_MS),
                    three.register(schedules, timeout_ms=TIMEOUT_MS),
                )
                assert {Verdict.WON} == {
                    answer.verdict for answer in answers[0] if isinstance(answer, ClaimAnswer)
                }
        return complaints(server.log)

    assert [] == asyncio.run(scenario())


def test_two_slots_are_never_both_live(
    server: testbed.PostgresServer, opened: Opened, ask: Callable[..., ClaimRequest]
) -> None:
    """
    Sixteen connections race with different slots of one job: what is live never overlaps.
    """

    async def scenario() -> tuple[int, int]:
        live: set[int] = set()
        most = wins = 0

        async def runner(number: int) -> None:
            nonlocal most, wins
            async with opened(server.url) as backend:
                for turn in range(20):
                    slot = first + turn * 16 + number
                    request = ask("job", slot)
                    (answer,) = await backend.claim([request], timeout_ms=TIMEOUT_MS)
                    assert isinstance(answer, ClaimAnswer)
                    if answer.verdict is Verdict.WON:
                        live.add(slot)
                        wins += 1
                        most = max(most, len(live))
                        await asyncio.sleep(0)
                        live.discard(slot)
                        await backend.finish([_end(request)], timeout_ms=TIMEOUT_MS)

        async with opened(server.url) as backend:
            now_ms = await backend.time(timeout_ms=TIMEOUT_MS)
            assert now_ms is not None
            first = now_ms - 3_600_000
            await asyncio.gather(*(runner(number) for number in range(16)))
        return most, wins

    most, wins = asyncio.run(scenario())

    assert 1 == most
    assert wins > 1
    assert [] == complaints(server.log)
