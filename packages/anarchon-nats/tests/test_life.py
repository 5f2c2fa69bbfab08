"""
A connection that is cut or silent, a server that is frozen or killed: every call ends, and the next one works.
"""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import pytest
from nats.aio.client import Client
from store_fixtures import until_answered

import anarchon_testbed as testbed
from anarchon import RunContext, Scheduler
from anarchon.backend import ClaimRequest, FinishRequest, Verdict
from anarchon.errors import BackendError, StoreUnavailableError
from anarchon.records import Reason, Status
from anarchon.scheduler import ending
from anarchon_conformance.relay import relaying
from anarchon_nats import NatsBackend
from anarchon_nats.conformance import NatsRelay

pytestmark = pytest.mark.slow

TIMEOUT_MS = 10_000
SHORT_MS = 300

Opened = Callable[..., AbstractAsyncContextManager[NatsBackend]]
Ask = Callable[..., ClaimRequest]
End = Callable[..., FinishRequest]


async def recent(backend: NatsBackend) -> int:
    """
    Name a slot of a minute ago, by the server's clock.
    """
    await backend.time(timeout_ms=TIMEOUT_MS)
    return backend._time.now_ms() - 60_000


async def verdict(backend: NatsBackend, claim: ClaimRequest) -> Verdict:
    """
    Send one claim.
    """
    (answer,) = await backend.claim([claim], timeout_ms=TIMEOUT_MS)
    assert not isinstance(answer, BackendError)
    return answer.verdict


def test_an_open_that_was_cancelled_leaves_no_connection(url: str, prefix: str) -> None:
    """
    Also where its connection was made in the same pass of the loop, and nobody had taken it over yet.
    """

    async def scenario() -> list[Client]:
        for number in range(240):
            backend = NatsBackend(url, prefix=prefix)
            opening = asyncio.ensure_future(backend.open(timeout_ms=TIMEOUT_MS))
            for _ in range(number % 30):
                await asyncio.sleep(0)  # A connection takes about a dozen passes.
            opening.cancel()
            await asyncio.gather(opening, return_exceptions=True)
            await backend.close()
        gc.collect()
        return [each for each in gc.get_objects() if isinstance(each, Client) and each.is_connected]

    assert [] == asyncio.run(scenario())


def test_a_silent_server_is_unknown_by_the_deadline(url: str, opened: Opened, ask: Ask) -> None:
    """
    Calls of every kind end at their deadlines; afterwards the same token is told the truth, over a new connection.
    """

    async def scenario() -> tuple[list[str], list[float], list[Verdict]]:
        parts = urlsplit(url)
        loop = asyncio.get_running_loop()
        async with (
            relaying(NatsRelay(parts.hostname or "", parts.port or 0)) as relay,
            opened(f"nats://127.0.0.1:{relay.port}") as backend,
            opened() as other,
        ):
            slot = await recent(backend)
            won = ask("won", slot)
            told = [await verdict(backend, won)]
            relay.fall_silent()
            lost = ask("lost", slot)
            calls: list[Callable[[], Any]] = [
                lambda: backend.claim([lost], timeout_ms=SHORT_MS),
                lambda: backend.time(timeout_ms=SHORT_MS),
                lambda: backend.history(None, limit=1, timeout_ms=SHORT_MS),
            ]
            words, spent = [], []
            for call in calls:
                begun = loop.time()
                with pytest.raises(StoreUnavailableError) as raised:
                    await call()
                spent.append(loop.time() - begun)
                words.append(str(raised.value))
            relay.fall_silent(silent=False)
            told += [await verdict(other, ask("lost", slot))]
            told += [await until_answered(partial(verdict, backend, each)) for each in (lost, won)]
            return words, spent, told

    words, spent, told = asyncio.run(scenario())

    assert [] == [each for each in words if "outcome is unknown" not in each]
    assert min(spent) > SHORT_MS / 1_000 * 0.9
    assert [Verdict.WON, Verdict.WON, Verdict.TAKEN, Verdict.WON] == told


def test_a_frozen_server_is_unknown_and_goes_on(opened: Opened, ask: Ask) -> None:
    """
    What was sent before the freeze is kept when it thaws: the asker hears so when it asks again, and nobody else wins.
    """

    async def scenario(server: testbed.NatsServer) -> list[Verdict]:
        async with opened(server.url) as backend:
            claim = ask("job", await recent(backend))
            server.freeze()
            try:
                with pytest.raises(StoreUnavailableError, match="outcome is unknown"):
                    await backend.claim([claim], timeout_ms=SHORT_MS)
            finally:
                server.thaw()
            first = await until_answered(partial(verdict, backend, claim))
            return [first, await verdict(backend, ask("job", claim.slot))]

    with testbed.nats(own=True) as server:
        assert [Verdict.WON, Verdict.TAKEN] == asyncio.run(scenario(server))


def test_claims_outlive_the_server(opened: Opened, ask: Ask, end: End) -> None:
    """
    Killed and restarted it has every claim and every end; its own tokens are recognised, and strangers win nothing.
    """

    async def scenario(
        server: testbed.NatsServer,
    ) -> tuple[Counter[Verdict], Counter[Verdict], int]:
        async with opened(server.url) as backend:
            slot = await recent(backend)
            claims = [ask(f"job-{number}", slot) for number in range(200)]
            await backend.claim(claims, timeout_ms=TIMEOUT_MS)
            await backend.finish([end(each) for each in claims[::2]], timeout_ms=TIMEOUT_MS)
            await server.kill()
            with pytest.raises(StoreUnavailableError):
                await backend.claim(claims[:1], timeout_ms=SHORT_MS)
            await server.start()
            own = await until_answered(partial(backend.claim, claims, timeout_ms=TIMEOUT_MS))
            strangers = [ask(each.job, slot) for each in claims]
            others = await backend.claim(strangers, timeout_ms=TIMEOUT_MS)
            records = await backend.history(None, limit=500, timeout_ms=TIMEOUT_MS)
            ended = sum(each.status is Status.SUCCESS for each in records)
            return counted(own), counted(others), ended

    with testbed.nats(own=True) as server:
        own, others, ended = asyncio.run(scenario(server))

    assert {Verdict.WON: 200} == own
    assert {Verdict.TAKEN: 200} == others
    assert 100 == ended


def counted(answers: Any) -> Counter[Verdict]:
    """
    Count verdicts.
    """
    return Counter(answer.verdict for answer in answers)


def test_a_cut_connection_ends_all_that_wait_on_it_at_once(
    url: str, opened: Opened, ask: Ask
) -> None:
    """
    Nobody waits for a deadline of minutes when the connection is known to be gone.
    """

    async def scenario() -> list[BaseException | Any]:
        parts = urlsplit(url)
        async with (
            relaying(NatsRelay(parts.hostname or "", parts.port or 0)) as relay,
            opened(f"nats://127.0.0.1:{relay.port}") as backend,
        ):
            slot = await recent(backend)
            relay.fall_silent()
            calls = [
                asyncio.ensure_future(
                    backend.claim([ask(f"job-{number}", slot)], timeout_ms=600_000)
                )
                for number in range(5)
            ]
            waiting = backend._wire._line._waiting  # type: ignore[union-attr]  # it is open
            while len(waiting) < 5:  # noqa: ASYNC110 - nothing tells that a message is on its way
                await asyncio.sleep(0)  # Until all of them are.
            relay.fall_silent(silent=False)
            relay.lose_request()
            calls.append(
                asyncio.ensure_future(backend.claim([ask("cut", slot)], timeout_ms=600_000))
            )
            return await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), 60)

    ended = asyncio.run(scenario())

    assert [StoreUnavailableError] * 6 == [type(each) for each in ended]


def test_a_connection_that_ends_with_much_to_send_ends_its_calls(opened: Opened, ask: Ask) -> None:
    """
    nats-py stumbles over what it could not send any more, and tells nobody that the connection is over.
    """

    async def scenario(server: testbed.NatsServer) -> tuple[BaseException | Any, Verdict]:
        async with opened(server.url) as backend:
            slot = await recent(backend)
            server.freeze()
            label = "x" * 500_000
            claims = [ask(f"job-{number}", slot, instance_id=label) for number in range(40)]
            call = asyncio.ensure_future(backend.claim(claims, timeout_ms=600_000))
            client = backend._wire._line._client  # type: ignore[union-attr]  # it is open
            assert client is not None
            while client._pending_data_size < 1_000_000:  # noqa: ASYNC110 - nothing tells that it cannot send
                await asyncio.sleep(0)  # Until the socket takes no more.
            await server.kill()
            (ended,) = await asyncio.wait_for(asyncio.gather(call, return_exceptions=True), 60)
            await server.start()
            return ended, await until_answered(partial(verdict, backend, ask("after", slot)))

    with testbed.nats(own=True) as server:
        ended, after = asyncio.run(scenario(server))

    assert StoreUnavailableError is type(ended)
    assert Verdict.WON == after


def test_schedulers_share_their_slots_and_record_what_stop_interrupts(
    url: str, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Two schedulers, one run for each slot; stop() during a run leaves it interrupted, and nobody takes it over.
    """
    # On a machine that is busy a server may take longer than the half of a second that stop() has to write this down.
    monkeypatch.setattr(ending, "_GRACE_S", 60)

    async def scenario() -> tuple[Counter[int], list[Any]]:
        runs: Counter[int] = Counter()
        enough = asyncio.Event()
        held = asyncio.Event()

        async def tick(ctx: RunContext) -> None:
            runs[ctx.slot] += 1
            if len(runs) >= 6:
                enough.set()

        async def hold(_ctx: RunContext) -> None:
            held.set()
            await asyncio.Event().wait()

        schedulers = []
        for number in range(2):
            scheduler = Scheduler(
                NatsBackend(url, prefix=prefix), instance_id=f"i{number}", stop_timeout=0.2
            )
            scheduler.every("tick", "200ms")(tick)
            scheduler.every("hold", "1s")(hold)
            schedulers.append(scheduler)
        for scheduler in schedulers:
            await scheduler.start()
        await asyncio.wait_for(asyncio.gather(enough.wait(), held.wait()), 60)
        for scheduler in schedulers:
            await scheduler.stop()
        reader = NatsBackend(url, prefix=prefix)
        await reader.open(timeout_ms=TIMEOUT_MS)
        records = await reader.history("hold", limit=10, timeout_ms=TIMEOUT_MS)
        await reader.close()
        return runs, list(records)

    runs, records = asyncio.run(scenario())

    assert {1} == set(runs.values())
    assert {(Status.INTERRUPTED, Reason.STOPPED, 1)} == {
        (each.status, each.reason, each.attempt) for each in records
    }


def test_a_wrong_clock_of_an_instance_forgets_nothing(opened: Opened, ask: Ask) -> None:
    """
    What is too old is judged by the server's clock: a slot beyond the memory is late, and one within is not.
    """

    async def scenario() -> list[Verdict]:
        async with opened(claim_memory_ms=60_000) as backend:
            now_ms = await recent(backend) + 60_000
            old, young = ask("job", now_ms - 61_000), ask("job", now_ms - 50_000)
            return [await verdict(backend, old), await verdict(backend, young)]

    assert [Verdict.LATE, Verdict.WON] == asyncio.run(scenario())


def test_a_claim_that_slept_longer_than_claims_are_kept_is_late(opened: Opened, ask: Ask) -> None:
    """
    A machine that sleeps between looking at the clock and sending may ask for a slot that was pruned meanwhile.
    """

    async def scenario() -> Verdict:
        async with opened(claim_memory_ms=60_000) as backend:
            claim = ask("job", await recent(backend) + 30_000)
            clock = backend._time._clock
            publish = backend._opened().ledger._publish

            async def slept(letters: Any) -> Any:
                backend._time._clock = Ahead(clock.suspend_ms() + 3_600_000)
                return await publish(letters)

            backend._opened().ledger._publish = slept  # type: ignore[method-assign]  # the moment that matters
            return await verdict(backend, claim)

    assert Verdict.LATE == asyncio.run(scenario())


class Ahead:
    """
    A clock that stands where a test has put it.
    """

    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms

    def suspend_ms(self) -> int:
        """
        Tell what was set.
        """
        return self._now_ms

    def wall_ms(self) -> int:
        """
        Tell what was set.
        """
        return self._now_ms
