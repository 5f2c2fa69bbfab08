"""
What is remembered of claims and for how long, at its edges: keys that expire, streams that are trimmed, ids.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from redis.asyncio import Redis

from anarchon.backend import AnswerReason, ClaimAnswer, ClaimRequest, Verdict
from anarchon.errors import RequestError, StoreRefusedError
from anarchon_redis import RedisBackend
from anarchon_redis.keys import Keys

TIMEOUT_MS = 10_000
HOUR_MS = 3_600_000
CLAIM_ONLY = ["stream-id", "idmp", "script"]

Ask = Callable[..., ClaimRequest]
Opened = Callable[..., AbstractAsyncContextManager[RedisBackend]]


async def now_ms(backend: RedisBackend) -> int:
    """
    Ask for the store's time.
    """
    told = await backend.time(timeout_ms=TIMEOUT_MS)
    assert told is not None
    return told


async def claimed(backend: RedisBackend, request: ClaimRequest) -> ClaimAnswer:
    """
    Claim one run.
    """
    (answer,) = await backend.claim([request], timeout_ms=TIMEOUT_MS)
    if not isinstance(answer, ClaimAnswer):
        raise answer
    return answer


def said(answer: ClaimAnswer) -> tuple[Verdict, AnswerReason | None]:
    """
    Take what decides out of an answer.
    """
    return answer.verdict, answer.reason


@pytest.mark.parametrize("strategy", CLAIM_ONLY)
def test_a_slot_older_than_the_memory_is_refused(strategy: str, opened: Opened, ask: Ask) -> None:
    """
    What may have been forgotten may have run: it is late, not won; a younger one is won.
    """

    async def scenario() -> None:
        async with opened(strategy=strategy, claim_memory_ms=HOUR_MS) as backend:
            now = await now_ms(backend)
            old = await claimed(backend, ask("job", now - HOUR_MS - 1))
            young = await claimed(backend, ask("job", now - HOUR_MS + 60_000))

            assert (Verdict.LATE, AnswerReason.TOO_OLD) == said(old)
            assert Verdict.WON == young.verdict

    asyncio.run(scenario())


@pytest.mark.parametrize("strategy", CLAIM_ONLY)
def test_a_slot_ahead_of_the_server_is_early(strategy: str, opened: Opened, ask: Ask) -> None:
    """
    An instance whose clock is fast hears how long to wait, by the server's clock, and takes nothing.
    """

    async def scenario() -> None:
        async with opened(strategy=strategy) as backend:
            now = await now_ms(backend)
            early = await claimed(backend, ask("job", now + 10_000))
            due = await claimed(backend, ask("job", now))

            assert Verdict.EARLY == early.verdict
            assert 8_000 < early.wait_ms <= 10_000
            assert Verdict.WON == due.verdict

    asyncio.run(scenario())


@pytest.mark.parametrize("strategy", CLAIM_ONLY)
def test_a_lateness_beyond_the_memory_is_refused(strategy: str, opened: Opened, ask: Ask) -> None:
    """
    A job that may be later than claims are remembered is an error that names both, and nothing is claimed.
    """

    async def scenario() -> None:
        async with opened(strategy=strategy, claim_memory_ms=HOUR_MS) as backend:
            slot = await now_ms(backend)
            with pytest.raises(RequestError, match=r"max_lateness is 3600001 ms.*claim_memory_ms"):
                await claimed(backend, ask("job", slot, max_lateness_ms=HOUR_MS + 1))
            answer = await claimed(backend, ask("job", slot, max_lateness_ms=HOUR_MS))

            assert Verdict.WON == answer.verdict

    asyncio.run(scenario())


def test_a_key_outlives_the_refusal_of_its_slot(
    url: str, prefix: str, opened: Opened, ask: Ask
) -> None:
    """
    The key of a claim expires only when its slot has been refused for age for a minute.
    """

    async def scenario() -> None:
        async with (
            opened(strategy="script", claim_memory_ms=HOUR_MS) as backend,
            Redis.from_url(url) as raw,
        ):
            slot = await now_ms(backend) - 1_000
            await claimed(backend, ask("job", slot))
            (key,) = Keys(prefix).of("job", f"claim:{slot}")
            expires = await raw.pexpiretime(key)

            assert slot + HOUR_MS + 60_000 == expires

    asyncio.run(scenario())


def test_trimming_a_stream_reopens_no_slot(url: str, prefix: str, opened: Opened, ask: Ask) -> None:
    """
    A slot whose entry was trimmed or deleted is late for everyone, its winner too.
    """

    async def scenario() -> None:
        async with opened(strategy="stream-id") as backend, Redis.from_url(url) as raw:
            slot = await now_ms(backend) - 10_000
            won = [ask("job", slot + number) for number in range(5)]
            for claim in won:
                assert Verdict.WON == (await claimed(backend, claim)).verdict
            (key,) = Keys(prefix).of("job", "stream")
            await raw.xtrim(key, maxlen=1, approximate=False)
            answers = [await claimed(backend, ask("job", claim.slot)) for claim in won]
            await raw.xtrim(key, maxlen=0, approximate=False)
            after = await claimed(backend, ask("job", won[-1].slot))
            newer = await claimed(backend, ask("job", won[-1].slot + 1))

            assert [Verdict.LATE] * 4 + [Verdict.TAKEN] == [each.verdict for each in answers]
            assert (Verdict.LATE, AnswerReason.TOO_OLD) == said(after)
            assert Verdict.WON == newer.verdict

    asyncio.run(scenario())


def test_a_stream_keeps_what_is_within_the_memory(
    url: str, prefix: str, opened: Opened, ask: Ask
) -> None:
    """
    Entries go once their slots are older than the memory, and never before: 1,500 of them stay.
    """

    async def scenario() -> None:
        async with (
            opened(strategy="stream-id", claim_memory_ms=HOUR_MS) as backend,
            Redis.from_url(url) as raw,
        ):
            slot = await now_ms(backend) - 10_000
            for start in range(0, 1_500, 500):
                claims = [ask("job", slot + start + number) for number in range(500)]
                await backend.claim(claims, timeout_ms=TIMEOUT_MS)
            (key,) = Keys(prefix).of("job", "stream")

            assert 1_500 == await raw.xlen(key)

    asyncio.run(scenario())


def test_the_ids_of_a_stream_may_overflow(url: str, prefix: str, opened: Opened, ask: Ask) -> None:
    """
    The server forgets the oldest of more than 10,000 ids; those slots are late from before it does.
    """

    async def scenario() -> None:
        async with opened(strategy="idmp") as backend, Redis.from_url(url) as raw:
            first = await now_ms(backend) - 60_000
            for start in range(0, 10_200, 500):
                size = min(500, 10_200 - start)
                claims = [ask("job", first + start + number) for number in range(size)]
                answers: Any = await backend.claim(claims, timeout_ms=TIMEOUT_MS)

                assert {Verdict.WON} == {answer.verdict for answer in answers}
            strangers = [ask("job", first + number) for number in range(0, 10_200, 50)]
            answers = await backend.claim(strangers, timeout_ms=TIMEOUT_MS)
            (key,) = Keys(prefix).of("job", "ids")

            assert {Verdict.TAKEN, Verdict.LATE} >= {answer.verdict for answer in answers}
            assert 9_900 == await raw.xlen(key)

    asyncio.run(scenario())


def test_other_settings_of_the_ids_are_refused(
    url: str, prefix: str, opened: Opened, ask: Ask
) -> None:
    """
    An instance with another memory would clear what the server remembers: it is refused instead.
    """

    async def scenario() -> None:
        async with (
            opened(strategy="idmp", claim_memory_ms=HOUR_MS) as backend,
            opened(strategy="idmp", claim_memory_ms=2 * HOUR_MS) as other,
        ):
            slot = await now_ms(backend)
            await claimed(backend, ask("job", slot))
            with pytest.raises(StoreRefusedError, match="remembers ids for 3660 s, at most 10000"):
                await claimed(other, ask("job", slot))
            answer = await claimed(backend, ask("job", slot))

            assert Verdict.TAKEN == answer.verdict

    asyncio.run(scenario())


@pytest.mark.parametrize("strategy", ["lease", *CLAIM_ONLY])
def test_flushing_the_server_forgets_every_claim(
    strategy: str, url: str, opened: Opened, ask: Ask
) -> None:
    """
    After FLUSHALL a slot that has run can be won again: the documentation says so, and this shows it.

    The backend itself goes on, its scripts and the marker of its prefix being gone too.
    """

    async def scenario() -> None:
        place = f"{url.rpartition('/')[0]}/9"
        async with opened(place, strategy=strategy) as backend, Redis.from_url(place) as raw:
            slot = await now_ms(backend)
            before = await claimed(backend, ask("job", slot))
            await raw.flushdb()
            await raw.script_flush()
            after = await claimed(backend, ask("job", slot))

            assert [Verdict.WON] * 2 == [before.verdict, after.verdict]
            assert 1 == len(await backend.history(None, limit=5, timeout_ms=TIMEOUT_MS))

    asyncio.run(scenario())
