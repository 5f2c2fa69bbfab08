"""
A backend on a real broker: its life, and what it says when the broker will not have it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Any

import aio_pika
import pytest

import anarchon_testbed as testbed
from anarchon.backend import ClaimAnswer, ClaimRequest, FinishRequest, Verdict
from anarchon.errors import (
    BackendStateError,
    InvalidOptionError,
    ProtocolVersionError,
    RequestError,
    ServerTooOldError,
    StoreRefusedError,
    StoreUnavailableError,
)
from anarchon.records import Status
from anarchon_rabbitmq import RabbitMQBackend

pytestmark = pytest.mark.slow

TIMEOUT_MS = 30_000

Ask = Callable[..., ClaimRequest]
Opened = Callable[..., AbstractAsyncContextManager[RabbitMQBackend]]


async def verdict(backend: RabbitMQBackend, request: ClaimRequest) -> Verdict:
    """
    Make one claim.
    """
    (answer,) = await backend.claim([request], timeout_ms=TIMEOUT_MS)
    assert isinstance(answer, ClaimAnswer), answer
    return answer.verdict


def test_life(url: str, prefix: str) -> None:
    """
    A backend is opened once and closed for good; its clone starts afresh.
    """

    async def scenario() -> None:
        backend = RabbitMQBackend(url, prefix=prefix)
        with pytest.raises(BackendStateError, match="is unopened; open"):
            await backend.time(timeout_ms=TIMEOUT_MS)
        await backend.open(timeout_ms=TIMEOUT_MS)
        with pytest.raises(BackendStateError, match="is open; clone"):
            await backend.open(timeout_ms=TIMEOUT_MS)

        assert await backend.time(timeout_ms=TIMEOUT_MS) is None
        assert backend.service.startswith("RabbitMQ 4.")
        await backend.close()
        await backend.close()
        with pytest.raises(BackendStateError, match="is closed; open"):
            await backend.history(None, limit=1, timeout_ms=TIMEOUT_MS)
        clone = backend.clone()
        await clone.open(timeout_ms=TIMEOUT_MS)
        await clone.close()

    asyncio.run(scenario())


def test_closing_during_open_ends_both(url: str, prefix: str) -> None:
    """
    A backend that is closed while it is being opened stays closed, whenever that is.
    """

    async def scenario() -> None:
        for turns in range(0, 40, 4):
            backend = RabbitMQBackend(url, prefix=prefix)
            opening = asyncio.create_task(backend.open(timeout_ms=TIMEOUT_MS))
            for _ in range(turns):
                await asyncio.sleep(0)
            await backend.close()
            with pytest.raises(BackendStateError):
                await opening
            with pytest.raises(BackendStateError):
                await backend.time(timeout_ms=TIMEOUT_MS)

    asyncio.run(scenario())


def test_an_open_that_is_cancelled_may_be_repeated(url: str, prefix: str) -> None:
    """
    Cancelled at any of its awaits, open() leaves nothing open and the backend unopened.
    """

    async def scenario() -> None:
        backend = RabbitMQBackend(url, prefix=prefix)
        for turns in range(0, 30, 3):
            opening = asyncio.create_task(backend.open(timeout_ms=TIMEOUT_MS))
            for _ in range(turns):
                await asyncio.sleep(0)
            opening.cancel()
            with pytest.raises(asyncio.CancelledError):
                await opening
        await backend.open(timeout_ms=TIMEOUT_MS)
        await backend.close()

    asyncio.run(scenario())


def refused(place: str, **options: Any) -> BaseException:
    """
    Open a backend that cannot be opened, and give the error.
    """

    async def scenario() -> None:
        backend = RabbitMQBackend(place, **options)
        try:
            await backend.open(timeout_ms=TIMEOUT_MS)
        finally:
            await backend.close()

    with pytest.raises(Exception) as caught:  # noqa: PT011 - the caller looks at what it is
        asyncio.run(scenario())
    return caught.value


def test_a_broker_that_says_no(url: str, prefix: str) -> None:
    """
    A wrong login, a virtual host that is not there, nobody at all: each is told with the broker's own words.
    """
    place = url.partition("@")[2]
    login = refused(f"amqp://guest:wrong@{place}", prefix=prefix)
    vhost = refused(f"{url}/nowhere", prefix=prefix)
    nobody = refused("amqp://127.0.0.1:1", prefix=prefix)

    assert isinstance(login, StoreRefusedError)
    assert "ACCESS_REFUSED" in str(login)
    assert "wrong" not in str(login)
    assert isinstance(vhost, StoreRefusedError)
    assert "vhost nowhere not found" in str(vhost)
    assert isinstance(nobody, StoreUnavailableError)
    assert "127.0.0.1:1" in str(nobody)


def test_a_user_without_rights(broker: testbed.RabbitMQServer, prefix: str) -> None:
    """
    A user who may not make the stream hears which rights are needed.
    """
    nothing = ", ".join(['<<"^$">>'] * 3)
    broker.evaluate(
        'rabbit_auth_backend_internal:add_user(<<"poor">>, <<"pass">>, <<"test">>),'
        f'rabbit_auth_backend_internal:set_permissions(<<"poor">>, <<"/">>, {nothing}, <<"test">>)'
    )
    error = refused(f"amqp://poor:pass@{broker.host}:{broker.port}", prefix=prefix)

    assert isinstance(error, StoreRefusedError)
    assert "ACCESS_REFUSED" in str(error)
    assert "needs the rights configure, write and read" in str(error)


def test_a_queue_that_is_no_stream(url: str, prefix: str) -> None:
    """
    A queue of the stream's name would hand each message to one instance alone: it is refused.
    """

    async def declare() -> None:
        connection = await aio_pika.connect(url)
        channel = await connection.channel()
        await channel.declare_queue(
            f"{prefix}.runs", durable=True, arguments={"x-queue-type": "classic"}
        )
        await connection.close()

    asyncio.run(declare())
    error = refused(url, prefix=prefix)

    assert isinstance(error, StoreRefusedError)
    assert "is no stream" in str(error)


def test_a_stream_of_a_later_version(url: str, prefix: str, opened: Opened, now_ms: int) -> None:
    """
    A message of a later layout could be a claim: whoever cannot read it stops. A stranger's is passed over.
    """

    async def publish(kind: str | None) -> None:
        connection = await aio_pika.connect(url)
        channel = await connection.channel()
        message = aio_pika.Message(b"{}", type=kind)
        await channel.default_exchange.publish(message, routing_key=f"{prefix}.runs")
        await connection.close()

    async def scenario() -> None:
        request = ClaimRequest(job="job", slot=now_ms, token="t", instance_id="i")
        async with opened() as backend:
            await publish(None)
            before = await verdict(backend, request)
            await publish("anarchon/2")
            # What comes back after it has it before: the line was lost on the way.
            with pytest.raises(ProtocolVersionError, match="anarchon/2"):
                await verdict(backend, replace(request, slot=now_ms + 1))

            assert Verdict.WON == before

    asyncio.run(scenario())
    error = refused(url, prefix=prefix)

    assert isinstance(error, ProtocolVersionError)
    assert "upgrade" in str(error)


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        (b"\x08RabbitMQ", b"\x08CabbitMQ", StoreRefusedError),
        (b"\x07versionS\x00\x00\x00\x054", b"\x07versionS\x00\x00\x00\x053", ServerTooOldError),
    ],
)
def test_another_broker(url: str, old: bytes, new: bytes, kind: type[Exception]) -> None:
    """
    Another broker, or one that is too old, is refused with the name or version found and the one needed.
    """

    async def scenario() -> BaseException:
        host, _, port = url.rpartition("@")[2].partition(":")

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            up_reader, up_writer = await asyncio.open_connection(host, int(port))

            async def pass_on(
                source: asyncio.StreamReader, target: asyncio.StreamWriter, *, change: bool
            ) -> None:
                while data := await source.read(65_536):
                    # A broker's name and version stand in its greeting, in the first bytes that it sends.
                    target.write(
                        data.replace(b"\x00" + old, b"\x00" + new).replace(old, new)
                        if change
                        else data
                    )
                target.close()

            await asyncio.gather(
                pass_on(reader, up_writer, change=False), pass_on(up_reader, writer, change=True)
            )

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        backend = RabbitMQBackend(f"amqp://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        with pytest.raises(kind) as caught:
            await backend.open(timeout_ms=TIMEOUT_MS)
        await backend.close()
        server.close()
        return caught.value

    error = asyncio.run(scenario())

    assert "streams are RabbitMQ's" in str(error) or "3.10 or newer is needed" in str(error)


def test_tls(prefix: str, now_ms: int, ask: Ask) -> None:
    """
    amqps:// with an authority of one's own; a certificate that cannot be trusted is a refusal.
    """
    with testbed.rabbitmq(tls=True) as server:
        assert server.certificates is not None

        async def scenario() -> Verdict:
            backend = RabbitMQBackend(
                server.url,
                prefix=prefix,
                ca_file=str(server.certificates.ca),  # type: ignore[union-attr]  # It was looked at above.
            )
            await backend.open(timeout_ms=TIMEOUT_MS)
            told = await verdict(backend, ask("job", now_ms))
            await backend.close()
            return told

        won = asyncio.run(scenario())
        unknown = refused(server.url, prefix=prefix)

    assert Verdict.WON == won
    assert isinstance(unknown, StoreRefusedError)
    assert "certificate" in str(unknown)


def test_limits_of_another_instance_count(url: str, prefix: str, opened: Opened) -> None:
    """
    Instances that come with other limits use the stream as it is; those that make it together do not quarrel.
    """

    async def scenario() -> None:
        backends = [
            RabbitMQBackend(url, prefix=prefix, log_bytes_max=10_000_000 * number)
            for number in range(1, 9)
        ]
        await asyncio.gather(*(backend.open(timeout_ms=TIMEOUT_MS) for backend in backends))
        slot = time.time_ns() // 1_000_000
        verdicts = [
            await verdict(
                backend, ClaimRequest(job="j", slot=slot, token=f"{number}", instance_id="i")
            )
            for number, backend in enumerate(backends)
        ]
        for backend in backends:
            await backend.close()
        async with opened(log_bytes_max=50_000_000):
            pass

        assert [Verdict.WON, *[Verdict.TAKEN] * 7] == verdicts

    asyncio.run(scenario())


def test_a_late_joiner_wins_nothing_old(
    url: str, prefix: str, opened: Opened, now_ms: int, ask: Ask
) -> None:
    """
    Who joins after many claims finds every one of them taken, whoever made it, and ends another's run by its token.
    """

    async def scenario() -> None:
        slots = [now_ms - 1_000 * number for number in range(200)]
        async with opened(url) as first:
            for slot in slots:
                await verdict(first, ask("job", slot, token=f"token-{slot}"))
        async with opened(url) as late:
            verdicts = {await verdict(late, ask("job", slot)) for slot in slots}
            repeated = await verdict(late, ask("job", slots[0], token=f"token-{slots[0]}"))
            finish = FinishRequest(
                job="job",
                slot=slots[0],
                attempt=1,
                token=f"token-{slots[0]}",
                status=Status.SUCCESS,
            )
            (closed,) = await late.finish([finish], timeout_ms=TIMEOUT_MS)
            (newest,) = await late.history("job", limit=1, timeout_ms=TIMEOUT_MS)

        assert {Verdict.TAKEN} == verdicts
        assert Verdict.WON == repeated
        assert (True, Status.SUCCESS) == (closed.accepted, newest.status)  # type: ignore[union-attr]  # or it fails

    asyncio.run(scenario())


def test_a_lateness_beyond_the_memory(opened: Opened, now_ms: int, ask: Ask) -> None:
    """
    A job that allows more lateness than claims are remembered for is an error of that job alone.
    """

    async def scenario() -> None:
        async with opened(claim_memory_ms=60_000) as backend:
            answers = await backend.claim(
                [
                    ask("patient", now_ms, max_lateness_ms=60_001),
                    ask("job", now_ms, max_lateness_ms=60_000),
                ],
                timeout_ms=TIMEOUT_MS,
            )

        assert isinstance(answers[0], RequestError)
        assert "give the backend a longer claim_memory_ms" in str(answers[0])
        assert isinstance(answers[1], ClaimAnswer)
        assert Verdict.WON == answers[1].verdict

    asyncio.run(scenario())


def test_an_authority_that_is_not_there() -> None:
    """
    A file that cannot be read is told when the backend is made.
    """
    with pytest.raises(InvalidOptionError, match="no-such-file"):
        RabbitMQBackend("amqps://a", ca_file="/no-such-file")
