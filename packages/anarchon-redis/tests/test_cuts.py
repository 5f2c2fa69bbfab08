"""
A connection that is cut anywhere: asked again with the same token, the store says the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from anarchon.backend import ClaimAnswer, ClaimRequest, CloseAnswer, FinishRequest, Verdict
from anarchon.errors import StoreUnavailableError
from anarchon.records import Status
from anarchon_conformance.relay import CuttingRelay, relaying
from anarchon_redis import RedisBackend

TIMEOUT_MS = 10_000
STRATEGIES = ["lease", "stream-id", "idmp", "script"]

Ask = Callable[..., ClaimRequest]
Opened = Callable[..., AbstractAsyncContextManager[RedisBackend]]


async def claimed(backend: RedisBackend, request: ClaimRequest) -> ClaimAnswer:
    """
    Claim one run.
    """
    (answer,) = await backend.claim([request], timeout_ms=TIMEOUT_MS)
    assert isinstance(answer, ClaimAnswer)
    return answer


async def now_ms(backend: RedisBackend) -> int:
    """
    Ask for the store's time.
    """
    told = await backend.time(timeout_ms=TIMEOUT_MS)
    assert told is not None
    return told


async def cut_claims(
    backend: RedisBackend, other: RedisBackend, ask: Ask, lose: Callable[[int], None], step: int
) -> int:
    """
    Claim with a cut after 0, step, 2 * step … bytes until a claim gets through whole.

    Returns:
        How many claims were cut.
    """
    slot = await now_ms(backend)
    taken = Verdict.RUNNING if backend.capabilities.leases else Verdict.TAKEN
    cuts = 0
    while True:
        claim = ask(f"{lose.__name__}-{cuts}", slot)
        lose(cuts * step)
        try:
            await claimed(backend, claim)
        except StoreUnavailableError:
            cuts += 1
        else:
            return cuts
        again = await claimed(backend, claim)
        stranger = await claimed(other, ask(claim.job, slot))
        records = await other.history(claim.job, limit=5, timeout_ms=TIMEOUT_MS)

        assert (Verdict.WON, taken) == (again.verdict, stranger.verdict)
        assert again.previous_high is None
        assert [Status.RUNNING] == [record.status for record in records]


@pytest.mark.slow
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_claim_cut_at_any_byte_can_be_repeated(
    strategy: str, url: str, opened: Opened, ask: Ask
) -> None:
    """
    The reply is cut at each of its bytes and the request at every seventh: the same token wins, once.
    """

    async def scenario() -> None:
        host, port = RedisBackend(url)._address.hosts[0]
        async with (
            relaying(CuttingRelay(host, port)) as proxy,
            opened(f"redis://127.0.0.1:{proxy.port}/0", strategy=strategy) as backend,
            opened(strategy=strategy) as other,
        ):
            replies = await cut_claims(backend, other, ask, proxy.lose_reply, 1)
            proxy.lose_reply(10**9)
            requests = await cut_claims(backend, other, ask, proxy.lose_request, 7)

            assert replies > 20
            assert requests > 20

    asyncio.run(scenario())


@pytest.mark.parametrize("lost", ["lose_request", "lose_reply"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_finish_that_was_lost_can_be_repeated(
    lost: str, strategy: str, url: str, opened: Opened, ask: Ask
) -> None:
    """
    Whether the store has heard of it or not, the same finish is accepted, and recorded once.
    """

    async def scenario() -> None:
        host, port = RedisBackend(url)._address.hosts[0]
        async with (
            relaying(CuttingRelay(host, port)) as proxy,
            opened(f"redis://127.0.0.1:{proxy.port}/0", strategy=strategy) as backend,
        ):
            claim = ask("job", await now_ms(backend))
            await claimed(backend, claim)
            finish = FinishRequest(
                job="job", slot=claim.slot, attempt=1, token=claim.token, status=Status.FAILED
            )
            getattr(proxy, lost)()
            with pytest.raises(StoreUnavailableError):
                await backend.finish([finish], timeout_ms=TIMEOUT_MS)
            (again,) = await backend.finish([finish], timeout_ms=TIMEOUT_MS)
            records = await backend.history("job", limit=5, timeout_ms=TIMEOUT_MS)

            assert isinstance(again, CloseAnswer)
            assert again.accepted
            assert [Status.FAILED] == [record.status for record in records]

    asyncio.run(scenario())


def test_a_batch_whose_reply_is_lost_is_unknown_as_a_whole(
    url: str, opened: Opened, ask: Ask
) -> None:
    """
    A cut in the middle of a batch's pieces raises; asked again, each item has one answer.
    """

    async def scenario() -> None:
        host, port = RedisBackend(url)._address.hosts[0]
        async with (
            relaying(CuttingRelay(host, port)) as proxy,
            opened(f"redis://127.0.0.1:{proxy.port}/0") as backend,
        ):
            slot = await now_ms(backend)
            claims = [ask(f"job-{number}", slot) for number in range(200)]
            proxy.lose_reply(5_000)
            with pytest.raises(StoreUnavailableError):
                await backend.claim(claims, timeout_ms=TIMEOUT_MS)
            answers: Any = await backend.claim(claims, timeout_ms=TIMEOUT_MS)
            records = await backend.history(None, limit=500, timeout_ms=TIMEOUT_MS)

            assert {Verdict.WON} == {answer.verdict for answer in answers}
            assert 200 == len(records)

    asyncio.run(scenario())


def test_connections_that_were_cut_while_idle_cost_one_call(
    url: str, opened: Opened, ask: Ask
) -> None:
    """
    Nothing notices that an idle connection has gone; the next call goes over a new one, or says so.
    """

    async def scenario() -> None:
        host, port = RedisBackend(url)._address.hosts[0]
        async with (
            relaying(CuttingRelay(host, port)) as proxy,
            opened(f"redis://127.0.0.1:{proxy.port}/0") as backend,
        ):
            claim = ask("job", await now_ms(backend))
            await proxy.hang_up()
            try:
                answer = await claimed(backend, claim)
            except StoreUnavailableError:
                answer = await claimed(backend, claim)

            assert Verdict.WON == answer.verdict

    asyncio.run(scenario())
