"""
The history: what is kept, for how long, and hints about what has changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from redis.asyncio import Redis

from anarchon.backend import ClaimRequest, FinishRequest, RegisterRequest, ReleaseRequest
from anarchon.records import Retention, Status
from anarchon_redis import RedisBackend

TIMEOUT_MS = 10_000

Ask = Callable[..., ClaimRequest]
Opened = Callable[..., AbstractAsyncContextManager[RedisBackend]]


async def run(backend: RedisBackend, claims: list[ClaimRequest]) -> None:
    """
    Claim runs one after the other, and finish each.
    """
    for claim in claims:
        await backend.claim([claim], timeout_ms=TIMEOUT_MS)
        finish = FinishRequest(
            job=claim.job, slot=claim.slot, attempt=1, token=claim.token, status=Status.SUCCESS
        )
        await backend.finish([finish], timeout_ms=TIMEOUT_MS)


async def now_ms(backend: RedisBackend) -> int:
    """
    Ask for the store's time.
    """
    told = await backend.time(timeout_ms=TIMEOUT_MS)
    assert told is not None
    return told


async def kept(backend: RedisBackend, job: str | None = None) -> list[int]:
    """
    Return the slots that have records.
    """
    return [each.slot for each in await backend.history(job, limit=10_000, timeout_ms=TIMEOUT_MS)]


@pytest.mark.parametrize("strategy", ["lease", "script"])
def test_records_go_by_count(strategy: str, opened: Opened, ask: Ask) -> None:
    """
    The newest stay; a thirty-second more than the retention may gather.
    """

    async def scenario() -> None:
        async with opened(strategy=strategy, retention=Retention(records_per_job=64)) as backend:
            first = await now_ms(backend) - 1_000
            await run(backend, [ask("job", first + number) for number in range(80)])
            left = await kept(backend)

            assert 64 <= len(left) <= 66
            assert list(range(first + 79, first + 79 - len(left), -1)) == left

    asyncio.run(scenario())


@pytest.mark.parametrize("strategy", ["lease", "script"])
def test_records_go_by_age(strategy: str, opened: Opened, ask: Ask) -> None:
    """
    Records whose end is too long ago go as the job goes on, three for each new one, and no younger ones.
    """

    async def scenario() -> None:
        async with (
            opened(strategy=strategy) as patient,
            opened(strategy=strategy, retention=Retention(age_ms=600)) as brief,
        ):
            first = await now_ms(patient) - 1_000
            await run(patient, [ask("job", first + number) for number in range(6)])
            last = await now_ms(patient)
            while await now_ms(patient) <= last + 600:  # noqa: ASYNC110 - the server's clock cannot be moved
                await asyncio.sleep(0.02)  # It is asked again until then.
            await run(brief, [ask("job", first + 10)])
            after_one = await kept(patient)
            await run(brief, [ask("job", first + 11)])
            after_two = await kept(patient)

            assert [first + 10, first + 5, first + 4, first + 3] == after_one
            assert [first + 11, first + 10] == after_two

    asyncio.run(scenario())


def test_a_job_that_ended_leaves_only_what_protects_it(
    url: str, prefix: str, opened: Opened, ask: Ask
) -> None:
    """
    The records of a job that nobody runs any more expire as a whole; its newest slot stays.
    """

    async def scenario() -> None:
        async with (
            opened(retention=Retention(age_ms=5_000)) as backend,
            Redis.from_url(url) as raw,
        ):
            await run(backend, [ask("job", await now_ms(backend))])
            stem = f"{prefix}:{{job}}:"
            left: dict[str, int] = {
                name: await raw.pttl(stem + name) for name in ("runs", "records", "state")
            }

            assert 0 < left["runs"] <= 5_000
            assert 0 < left["records"] <= 5_000
            assert -1 == left["state"]

    asyncio.run(scenario())


def test_the_history_of_many_jobs_is_the_newest_of_all(opened: Opened, ask: Ask) -> None:
    """
    Of more jobs than one round trip asks for, the newest records come, in the protocol's order.
    """

    async def scenario() -> None:
        async with opened() as backend:
            first = await now_ms(backend) - 10_000
            claims = [ask(f"job-{number:03}", first + number % 7) for number in range(300)]
            await backend.claim(claims, timeout_ms=TIMEOUT_MS)
            everything = await backend.history(None, limit=1_000, timeout_ms=TIMEOUT_MS)
            newest = await backend.history(None, limit=10, timeout_ms=TIMEOUT_MS)
            order = [(-record.slot, record.job) for record in everything]

            assert 300 == len(everything)
            assert sorted(order) == order
            assert list(everything[:10]) == list(newest)

    asyncio.run(scenario())


def test_a_registered_job_without_a_run_has_no_record(opened: Opened) -> None:
    """
    Registering names the job, and leaves nothing in the history.
    """

    async def scenario() -> None:
        async with opened() as backend:
            request = RegisterRequest(job="job", slot=None, fingerprint="", zone_digests="")
            (first,) = await backend.register([request], timeout_ms=TIMEOUT_MS)
            (again,) = await backend.register([request], timeout_ms=TIMEOUT_MS)
            told: Any = again

            assert not isinstance(first, Exception)
            assert (False, "", "") == (told.new, told.fingerprint, told.zone_digests)
            assert [] == await kept(backend)
            assert [] == await kept(backend, "job")

    asyncio.run(scenario())


def test_hints_follow_the_runs_that_are_watched(opened: Opened, ask: Ask) -> None:
    """
    One watch after another, of other runs each time, hears of its own alone.
    """

    async def scenario() -> None:
        async with opened() as runner, opened() as backup:
            slot = await now_ms(runner)
            claims = [ask(f"job-{number}", slot) for number in range(4)]
            await runner.claim(claims, timeout_ms=TIMEOUT_MS)
            heard = []
            for watched, claim in (
                (claims[:2], claims[1]),
                (claims[2:], claims[2]),
                (claims[3:], claims[3]),
            ):
                watch = asyncio.create_task(
                    backup.next_hint(
                        [(each.job, slot, 1) for each in watched], timeout_ms=TIMEOUT_MS
                    )
                )
                await asyncio.sleep(
                    0.1
                )  # The watcher subscribes; were it later, it would see the change itself.
                release = ReleaseRequest(job=claim.job, slot=slot, attempt=1, token=claim.token)
                await runner.release([release], timeout_ms=TIMEOUT_MS)
                heard.append(await watch)

            assert [{"job-1"}, {"job-2"}, {"job-3"}] == heard

    asyncio.run(scenario())


def test_a_watch_outlives_its_connection(url: str, opened: Opened, ask: Ask) -> None:
    """
    When the listening connection is killed, the watch goes on over another one.
    """

    async def scenario() -> None:
        async with opened() as runner, opened() as backup, Redis.from_url(url) as raw:
            slot = await now_ms(runner)
            claim = ask("job", slot)
            await runner.claim([claim], timeout_ms=TIMEOUT_MS)
            watch = asyncio.create_task(backup.next_hint([("job", slot, 1)], timeout_ms=TIMEOUT_MS))
            await asyncio.sleep(0.1)  # The watcher subscribes.
            await raw.client_kill_filter(_type="pubsub")
            release = ReleaseRequest(job="job", slot=slot, attempt=1, token=claim.token)
            await runner.release([release], timeout_ms=TIMEOUT_MS)

            assert frozenset({"job"}) == await watch

    asyncio.run(scenario())
