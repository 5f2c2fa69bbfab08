"""
One claim alone: the look without a lock, and the function where the look does not answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Any

import pytest

from anarchon.backend import (
    ClaimAnswer,
    ClaimRequest,
    FinishRequest,
    RegisterRequest,
    ReleaseRequest,
    Verdict,
)
from anarchon.errors import BackendError
from anarchon.records import Retention, Status
from anarchon_postgres import PostgresBackend
from anarchon_postgres.driver import connect

TIMEOUT_MS = 20_000
MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS

Ask = Callable[..., ClaimRequest]
Opened = Callable[..., AbstractAsyncContextManager[PostgresBackend]]

pytestmark = pytest.mark.slow


async def claimed(backend: PostgresBackend, *requests: ClaimRequest) -> list[ClaimAnswer]:
    """
    Claim, and insist on answers.
    """
    answers = await backend.claim(requests, timeout_ms=TIMEOUT_MS)
    assert not any(isinstance(answer, BackendError) for answer in answers), answers
    return [answer for answer in answers if isinstance(answer, ClaimAnswer)]


async def brought_to(backend: PostgresBackend, state: str, mine: ClaimRequest) -> None:
    """
    Bring the job of *mine* to a state; *mine* is its run, or the newest slot of its past.
    """
    key: dict[str, Any] = {"job": mine.job, "slot": mine.slot, "attempt": 1, "token": mine.token}
    if state == "unknown":
        return
    if state == "registered":
        known = RegisterRequest(job=mine.job, slot=None, fingerprint="before")
        await backend.register([known], timeout_ms=TIMEOUT_MS)
        return
    if state == "skipped":
        older = replace(mine, slot=mine.slot - MINUTE_MS, token="older")
        await claimed(backend, older)
    await claimed(backend, replace(mine, lease_ms=0) if state == "dead" else mine)
    if state == "finished":
        await backend.finish([FinishRequest(**key, status=Status.SUCCESS)], timeout_ms=TIMEOUT_MS)
    if state == "released":
        await backend.release([ReleaseRequest(**key)], timeout_ms=TIMEOUT_MS)


def asked_of(mine: ClaimRequest) -> dict[str, ClaimRequest]:
    """
    Write the claims that can follow *mine*, by name.
    """
    other = replace(mine, token="other", instance_id="host:2", fingerprint="after")
    past_ms = mine.slot - HOUR_MS
    return {
        "the same again": mine,
        "the same, too late": replace(mine, not_after_ms=past_ms),
        "another": other,
        "another, without a limit": replace(other, not_after_ms=None),
        "another, too late": replace(other, not_after_ms=past_ms),
        "the token with another attempt": replace(mine, attempt=3),
        "a takeover": replace(other, attempt=2),
        "a takeover, too late": replace(other, attempt=2, not_after_ms=past_ms),
        "a takeover that is off": replace(other, attempt=2, takeover=False),
        "a takeover of one crash too many": replace(other, attempt=2, max_crashes=1),
        "an attempt too far": replace(other, attempt=3),
        "an older slot": replace(other, slot=mine.slot - 1),
        "an older slot, too late": replace(other, slot=mine.slot - 1, not_after_ms=past_ms),
        "an older slot that is too old": replace(
            other, slot=mine.slot - HOUR_MS, max_lateness_ms=MINUTE_MS
        ),
        "a newer slot": replace(other, slot=mine.slot + 1),
        "a newer slot that waits": replace(other, slot=mine.slot + 1, overlap="wait"),
        "a newer slot that is too old": replace(other, slot=mine.slot + 1, max_lateness_ms=0),
        "a slot to come": replace(other, slot=mine.slot + HOUR_MS, not_after_ms=None),
    }


STATES = ["unknown", "registered", "running", "dead", "released", "finished", "skipped"]


@pytest.mark.parametrize("state", STATES)
def test_one_alone_is_answered_as_one_of_a_batch(
    opened: Opened, ask: Ask, schema: str, shared_dsn: str, state: str
) -> None:
    """
    Whatever the store has, and whatever is asked: the answer and all that is kept are the same both ways.
    """

    def timeless(answer: ClaimAnswer) -> ClaimAnswer:
        run = answer.run
        if run is not None:
            run = replace(run, remaining_ms=min(1, run.remaining_ms))
        return replace(
            answer,
            store_now_ms=None,
            since_ms=None if answer.since_ms is None else 1,
            wait_ms=min(1, answer.wait_ms),
            run=run,
        )

    async def kept(connection: Any, job: str) -> list[Any]:
        columns = "high, live_slot, live_attempt, live_token, live_instance_id, live_crashes, live_previous_high"
        rows = await connection.fetch(
            f"SELECT {columns}, skip_slot, skip_token, fingerprint, since_ms IS NULL, live_lease_until_ms > $2"
            f" FROM {schema}.jobs WHERE job = $1",
            job,
            now_ms,
        )
        rows += await connection.fetch(
            "SELECT slot, attempt, token, instance_id, status, reason, finished_ms IS NULL"
            f" FROM {schema}.runs WHERE job = $1 ORDER BY slot, attempt",
            job,
        )
        return [tuple(row) for row in rows]

    now_ms = 0

    async def scenario() -> tuple[dict[str, Any], dict[str, Any]]:
        nonlocal now_ms
        alone, among = {}, {}
        connection = await connect(shared_dsn)
        async with opened() as backend:
            now_ms = await backend.time(timeout_ms=TIMEOUT_MS) or 0
            slot = now_ms - 1_000
            for number, name in enumerate(asked_of(ask("job", slot))):
                found = []
                for way in ("alone", "among"):
                    mine = ask(
                        f"job-{number}-{way}", slot, token="mine", not_after_ms=now_ms + HOUR_MS
                    )
                    await brought_to(backend, state, mine)
                    request = asked_of(mine)[name]
                    beside = [] if way == "alone" else [ask(f"beside-{number}", slot)]
                    answers = await claimed(backend, request, *beside)
                    found.append((timeless(answers[0]), await kept(connection, mine.job)))
                alone[name], among[name] = found
        await connection.close(timeout=5)
        return alone, among

    alone, among = asyncio.run(scenario())

    assert among == alone


@pytest.mark.parametrize("state", ["running", "finished"])
def test_a_claim_that_is_lost_waits_for_nobody(
    opened: Opened, ask: Ask, schema: str, shared_dsn: str, state: str
) -> None:
    """
    Somebody holds the job's row, as a winner does: whoever loses is answered all the same.
    """

    async def scenario() -> list[Verdict]:
        async with opened() as backend:
            now_ms = await backend.time(timeout_ms=TIMEOUT_MS) or 0
            mine = ask("job", now_ms, token="mine")
            await brought_to(backend, state, mine)
            holder = await connect(shared_dsn)
            async with holder.transaction():
                await holder.execute(f"SELECT * FROM {schema}.jobs WHERE job = 'job' FOR UPDATE")
                verdicts = [
                    (await claimed(backend, replace(mine, token="other", slot=slot)))[0].verdict
                    for slot in (now_ms, now_ms - 1)
                ]
            await holder.close(timeout=5)
            return verdicts

    first = Verdict.RUNNING if state == "running" else Verdict.DONE

    assert [first, Verdict.LATE] == asyncio.run(scenario())


def test_old_records_are_forgotten_also_where_all_claims_are_alone(
    opened: Opened, ask: Ask, schema: str, shared_dsn: str
) -> None:
    """
    The claim that comes when it is time to look takes the records that are too old with it.
    """

    async def scenario() -> list[list[str]]:
        async with opened(retention=Retention(age_ms=HOUR_MS)) as backend:
            now_ms = await backend.time(timeout_ms=TIMEOUT_MS) or 0
            await claimed(backend, ask("first", now_ms))
            connection = await connect(shared_dsn)
            await connection.execute(
                f"INSERT INTO {schema}.runs (job, slot, attempt, token, instance_id, status, claimed_ms, finished_ms)"
                " VALUES ('old', 1, 1, 'token', 'host:1', 'success', 1, 2)"
            )
            await connection.close(timeout=5)
            kept = []
            for job in ("second", "third"):
                await claimed(backend, ask(job, now_ms))
                records = await backend.history(None, limit=9, timeout_ms=TIMEOUT_MS)
                kept.append(sorted(record.job for record in records))
                backend._next_sweep_s = None
            return kept

    early, later = asyncio.run(scenario())

    assert ["first", "old", "second"] == early
    assert ["first", "second", "third"] == later
