"""
A broker that is silent, blocked, gone or made anew: every claim ends by its deadline, none of them wins by it,
and the next one works when it is over.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial

import aio_pika
import pytest
from store_fixtures import until_answered

import anarchon_testbed as testbed
from anarchon.backend import ClaimAnswer, ClaimRequest, Verdict
from anarchon.errors import StoreUnavailableError
from anarchon.records import Status
from anarchon_conformance.relay import CuttingRelay, relaying
from anarchon_rabbitmq import RabbitMQBackend

pytestmark = pytest.mark.slow

TIMEOUT_MS = 30_000
SHORT_MS = 1_000

Ask = Callable[..., ClaimRequest]
Opened = Callable[..., AbstractAsyncContextManager[RabbitMQBackend]]


async def verdict(
    backend: RabbitMQBackend, request: ClaimRequest, *, timeout_ms: int = TIMEOUT_MS
) -> Verdict:
    """
    Make one claim.
    """
    (answer,) = await backend.claim([request], timeout_ms=timeout_ms)
    assert isinstance(answer, ClaimAnswer), answer
    return answer.verdict


async def unknown(call: Awaitable[object]) -> bool:
    """
    Await a call that has to end without an answer, and long before the test does.
    """
    with pytest.raises(StoreUnavailableError):
        await asyncio.wait_for(call, TIMEOUT_MS / 1_000)
    return True


async def until_it_works(backend: RabbitMQBackend, request: ClaimRequest) -> Verdict:
    """
    Claim again with the same token, until there is an answer.
    """
    return await until_answered(lambda: verdict(backend, request, timeout_ms=5_000))


async def until_blocked(broker: testbed.RabbitMQServer) -> None:
    """
    Wait until every connection has heard of an alarm: the broker tells them one after the other, and later.
    """
    states = "[State || [{state, State}] <- rabbit_networking:connection_info_all([state])]"
    told = ""
    for _ in range(60):
        told = await asyncio.to_thread(broker.evaluate, states)
        if "running" not in told and "block" in told:
            return
    raise TimeoutError(told)


def test_a_broker_that_is_silent(
    url: str, prefix: str, opened: Opened, now_ms: int, ask: Ask
) -> None:
    """
    Behind a proxy that passes nothing on, claims, finishes, histories, the clock and open() end without an answer.
    """

    async def scenario() -> None:
        login, _, place = url.rpartition("@")
        host, _, port = place.partition(":")
        async with relaying(CuttingRelay(host, int(port))) as proxy:
            through = f"{login}@127.0.0.1:{proxy.port}"
            async with opened(through) as backend, opened(url) as other:
                held, lost = ask("job", now_ms), ask("job", now_ms + 1)
                first = await verdict(backend, held)
                proxy.fall_silent()
                ended = [
                    await unknown(backend.claim([lost], timeout_ms=SHORT_MS)),
                    # What it knows needs no broker, and the next one has to connect.
                    Verdict.WON == await verdict(backend, held, timeout_ms=SHORT_MS),
                    await unknown(backend.claim([lost], timeout_ms=SHORT_MS)),
                    await unknown(backend.history("job", limit=1, timeout_ms=SHORT_MS)),
                    await unknown(backend.time(timeout_ms=SHORT_MS)),
                    await unknown(backend.clone().open(timeout_ms=SHORT_MS)),
                ]
                elsewhere = await verdict(other, ask("job", now_ms + 2))
                proxy.fall_silent(silent=False)
                again = await until_it_works(backend, lost)
                known = await verdict(backend, ask("job", now_ms + 2))

        assert Verdict.WON == first
        assert [True] * 6 == ended
        assert [Verdict.WON, Verdict.WON, Verdict.TAKEN] == [elsewhere, again, known]

    asyncio.run(scenario())


def test_a_claim_whose_answer_was_lost(
    url: str, prefix: str, opened: Opened, now_ms: int, ask: Ask
) -> None:
    """
    Cut off at any byte of the broker's answer, a claim is recognised by its token, and nobody else has it.
    """

    async def scenario() -> None:
        login, _, place = url.rpartition("@")
        host, _, port = place.partition(":")
        verdicts, strangers = [], []
        async with (
            relaying(CuttingRelay(host, int(port))) as proxy,
            opened(f"{login}@127.0.0.1:{proxy.port}") as backend,
            opened(url) as other,
        ):
            for number in range(30):
                request = ask("job", now_ms + number)
                proxy.lose_reply(3 * number)
                verdicts.append(await until_it_works(backend, request))
                strangers.append(await verdict(other, ask("job", now_ms + number)))

        assert {Verdict.WON} == set(verdicts)
        assert {Verdict.TAKEN} == set(strangers)

    asyncio.run(scenario())


def test_a_memory_alarm_blocks_claims_and_wins_none(
    broker: testbed.RabbitMQServer, opened: Opened, now_ms: int, ask: Ask
) -> None:
    """
    A broker short of memory reads nothing from who publishes. Claims end unknown, and go on when it has memory.
    """

    async def scenario() -> None:
        alarm = "{resource_limit, memory, node()}"
        async with opened(broker.url) as backend, opened(broker.url) as other:
            first = await verdict(backend, ask("job", now_ms))
            broker.evaluate(f"rabbit_alarm:set_alarm({{{alarm}, []}})")
            try:
                await until_blocked(broker)
                lost = ask("job", now_ms + 1)
                ended = [
                    await unknown(backend.claim([lost], timeout_ms=SHORT_MS)) for _ in range(2)
                ]
            finally:
                broker.evaluate(f"rabbit_alarm:clear_alarm({alarm})")
            again = await until_it_works(backend, lost)
            stranger = await until_it_works(other, ask("job", now_ms + 1))

        assert [True, True] == ended
        assert [Verdict.WON, Verdict.WON, Verdict.TAKEN] == [first, again, stranger]

    asyncio.run(scenario())


def test_a_consumer_that_lost_its_channel(
    broker: testbed.RabbitMQServer, opened: Opened, now_ms: int, ask: Ask
) -> None:
    """
    The broker ends channels, or connections, while claims are made: they are asked again, and have one winner.
    """

    async def scenario() -> None:
        kinds = [
            "[exit(Pid, kill) || Pid <- rabbit_channel:list_local()]",
            'rabbit_networking:close_connections(rabbit_networking:local_connections(), "test")',
        ]
        async with opened(broker.url) as backend, opened(broker.url) as other:
            winners: list[tuple[Verdict, Verdict]] = []
            for number in range(6):
                disturbing = asyncio.ensure_future(
                    asyncio.to_thread(broker.evaluate, kinds[number % 2])
                )
                over = False
                # One pair more when it was done: what the broker ends, it may end a moment later.
                while not over:
                    over = disturbing.done()
                    slot = now_ms + len(winners)
                    winners.append(
                        await asyncio.gather(
                            until_it_works(backend, ask("job", slot)),
                            until_it_works(other, ask("job", slot)),
                        )
                    )
                await disturbing

            records = await until_answered(
                lambda: backend.history("job", limit=10, timeout_ms=TIMEOUT_MS)
            )

        assert [{Verdict.WON, Verdict.TAKEN}] * len(winners) == [set(pair) for pair in winners]
        assert [Status.RUNNING] * 10 == [record.status for record in records]
        assert [now_ms + len(winners) - back for back in range(1, 11)] == [
            record.slot for record in records
        ]

    asyncio.run(scenario())


def test_a_broker_that_is_killed_forgets_no_claim(
    broker: testbed.RabbitMQServer, opened: Opened, now_ms: int, ask: Ask
) -> None:
    """
    After SIGKILL and a start with its data every claim is where it was, for those who were there and those who come.
    """

    async def scenario() -> None:
        requests = [ask("job", now_ms + number) for number in range(200)]
        async with opened(broker.url) as backend:
            before = await backend.claim(requests, timeout_ms=TIMEOUT_MS)
            # A broker writes down minutes later that it has streams at all: the first one has to be known.
            broker.evaluate("[dets:sync(Table) || Table <- dets:all()]")
            await broker.restart()
            again = await until_it_works(backend, ask("job", now_ms + 200))
            async with opened(broker.url) as late:
                others = [ask("job", request.slot) for request in requests]
                strangers, owner = [
                    await until_answered(partial(late.claim, each, timeout_ms=TIMEOUT_MS))
                    for each in (others, requests)
                ]

        assert [Verdict.WON] * 200 == [answer.verdict for answer in before]  # type: ignore[union-attr]  # or it fails
        assert Verdict.WON == again
        assert [Verdict.TAKEN] * 200 == [answer.verdict for answer in strangers]  # type: ignore[union-attr]  # as above
        assert [Verdict.WON] * 200 == [answer.verdict for answer in owner]  # type: ignore[union-attr]  # or it fails

    asyncio.run(scenario())


def test_a_stream_that_was_deleted(
    broker: testbed.RabbitMQServer, prefix: str, opened: Opened, now_ms: int, ask: Ask
) -> None:
    """
    Somebody deletes the stream: it is made anew, claims go on, and who was there remembers what it held.
    """

    async def delete() -> None:
        connection = await aio_pika.connect(broker.url)
        channel = await connection.channel()
        await channel.queue_delete(f"{prefix}.runs")
        await connection.close()

    async def scenario() -> None:
        async with opened(broker.url) as backend:
            first = await verdict(backend, ask("job", now_ms))
            for number in range(20):
                await verdict(backend, ask("job", now_ms - number - 1))
            await delete()
            after = await until_it_works(backend, ask("job", now_ms + 1))
            async with opened(broker.url) as late:
                stranger = await verdict(late, ask("job", now_ms + 1))
            known = await verdict(backend, ask("job", now_ms))

        assert [Verdict.WON, Verdict.WON, Verdict.TAKEN] == [first, after, stranger]
        assert Verdict.TAKEN == known

    asyncio.run(scenario())


def test_a_frozen_broker_holds_nobody(
    broker: testbed.RabbitMQServer, opened: Opened, now_ms: int, ask: Ask
) -> None:
    """
    A broker that was stopped keeps its connections open and says nothing; close() does not wait for it.
    """

    async def scenario() -> float:
        backend = opened(broker.url)
        entered = await backend.__aenter__()
        await verdict(entered, ask("job", now_ms))
        broker.freeze()
        try:
            await unknown(entered.claim([ask("job", now_ms + 1)], timeout_ms=SHORT_MS))
            begun = time.monotonic()
            await backend.__aexit__(None, None, None)
            return time.monotonic() - begun
        finally:
            broker.thaw()

    # Two tries of a second each to say good-bye, on a machine that has time; the broker's own limits are minutes.
    assert asyncio.run(scenario()) < 20
