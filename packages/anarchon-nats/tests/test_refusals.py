"""
What is refused: servers that cannot serve, logins that do not fit, streams that were changed.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import nats
import pytest

import anarchon_testbed as testbed
from anarchon.backend import ClaimRequest, FinishRequest, Verdict
from anarchon.errors import (
    BackendError,
    ProtocolVersionError,
    RequestError,
    ServerTooOldError,
    StoreRefusedError,
    StoreUnavailableError,
)
from anarchon.records import Status
from anarchon_nats import NatsBackend
from anarchon_nats.options import Options
from anarchon_nats.stream import stream_config
from anarchon_nats.subjects import Subjects

TIMEOUT_MS = 10_000

Opened = Callable[..., AbstractAsyncContextManager[NatsBackend]]
Ask = Callable[..., ClaimRequest]
End = Callable[..., FinishRequest]
Administer = Callable[..., Any]


def refusal(place: str, **options: Any) -> BackendError:
    """
    Try to open, and return what it raises.
    """

    async def attempt() -> None:
        backend = NatsBackend(place, **options)
        try:
            await backend.open(timeout_ms=TIMEOUT_MS)
        finally:
            await backend.close()

    with pytest.raises(BackendError) as raised:
        asyncio.run(attempt())
    return raised.value


@asynccontextmanager
async def pretender(**info: Any) -> AsyncIterator[tuple[str, bytearray]]:
    """
    Greet like a server that cannot be had here, and collect what clients send.
    """
    heard = bytearray()
    guests: list[asyncio.StreamWriter] = []
    greeting = {"server_id": "X", "version": "2.15.1", "headers": True, "max_payload": 1_048_576}

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        guests.append(writer)
        writer.write(b"INFO %s \r\n" % json.dumps(greeting | info).encode())
        while data := await reader.read(65_536):
            heard.extend(data)
            if b"PING" in data:
                writer.write(b"PONG\r\n")

    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}", heard
    finally:
        server.close()
        for guest in guests:
            guest.transport.abort()
        await asyncio.sleep(0)  # Until their sockets are closed, too.


@pytest.mark.parametrize("version", ["2.9.25", "0.8.0", "unheard"])
def test_an_old_server_is_refused(version: str) -> None:
    """
    The message has the version found and the one needed.
    """

    async def scenario() -> None:
        async with pretender(version=version, jetstream=True) as (place, _):
            await NatsBackend(f"nats://{place}").open(timeout_ms=TIMEOUT_MS)

    with pytest.raises(ServerTooOldError) as raised:
        asyncio.run(scenario())

    assert version in str(raised.value)
    assert "2.10 or newer is needed" in str(raised.value)


@pytest.mark.parametrize("login", ["user:secret", "secret"])
def test_a_login_for_tls_is_not_sent_in_the_open(login: str) -> None:
    """
    A server that was to speak TLS and offers none is refused before it hears the password.
    """

    async def scenario() -> bytes:
        async with pretender(auth_required=True, jetstream=True) as (place, heard):
            with pytest.raises(StoreRefusedError, match="does not ask for TLS"):
                await NatsBackend(f"tls://{login}@{place}").open(timeout_ms=TIMEOUT_MS)
            return bytes(heard)

    assert b"secret" not in asyncio.run(scenario())


def test_a_file_that_is_not_there_is_refused_at_once() -> None:
    """
    Trying again would not make it appear.
    """
    for options in (
        {"ca_file": "/nowhere.pem"},
        {"credentials_file": "/nowhere.creds"},
        {"nkey_file": "/nowhere.nk"},
    ):
        backend = NatsBackend("nats://127.0.0.1:1", **options)  # type: ignore[arg-type]  # one option a turn
        with pytest.raises(StoreRefusedError, match=r"cannot be read|cannot be used"):
            asyncio.run(backend.open(timeout_ms=TIMEOUT_MS))


def test_nobody_listening_is_an_outage() -> None:
    """
    The message names the server; asking again may help.
    """
    error = refusal("nats://127.0.0.1:1")

    assert isinstance(error, StoreUnavailableError)
    assert "127.0.0.1:1" in str(error)


@pytest.mark.slow
def test_a_server_without_jetstream_is_refused() -> None:
    """
    The message says how it is turned on.
    """
    with testbed.nats(jetstream=False) as server:
        error = refusal(server.url)

    assert isinstance(error, StoreRefusedError)
    assert "has no JetStream" in str(error)
    assert "-js" in str(error)


@pytest.mark.slow
def test_an_account_without_jetstream_is_refused() -> None:
    """
    The server has it, and this login may not use it.
    """
    accounts = {
        "has": {"jetstream": "enabled", "users": [{"user": "one", "password": "p"}]},
        "has_not": {"users": [{"user": "two", "password": "p"}]},
    }
    config = {"authorization": {}, "accounts": accounts}
    with testbed.nats(users={"one": "p"}, config=config) as server:
        error = refusal(server.url.replace("one:", "two:"))

    assert isinstance(error, StoreRefusedError)
    assert "turn JetStream on for this account" in str(error)


@pytest.mark.slow
def test_a_wrong_login_is_refused_at_once() -> None:
    """
    Neither a wrong password nor none is an outage, and the message has no password.
    """
    with testbed.nats(users={"me": "right"}) as server:
        wrong = refusal(server.url.replace("right", "wrong"))
        none = refusal(f"nats://127.0.0.1:{server.port}")

    assert [StoreRefusedError] * 2 == [type(wrong), type(none)]
    assert "does not know this login" in str(wrong)
    assert "wrong" not in str(wrong)


NEEDED = [
    "PREFIX.claim.>",
    "PREFIX.end.>",
    "$JS.API.STREAM.INFO.PREFIX",
    "$JS.API.STREAM.CREATE.PREFIX",
    "$JS.API.STREAM.MSG.GET.PREFIX",
    "$JS.API.STREAM.PURGE.PREFIX",
]
"""
What the documentation says that a user needs: to publish there, and to subscribe to its inbox.
"""


@pytest.mark.slow
@pytest.mark.parametrize("taken", [None, 0, 1, 2])
def test_rights_that_are_missing_are_said_at_once(
    taken: int | None, prefix: str, opened: Opened, ask: Ask, end: End
) -> None:
    """
    A user with the documented rights needs no more; without one of them the call fails with the server's words.
    """
    rights = [right.replace("PREFIX", prefix) for right in NEEDED]
    missing = None if taken is None else rights.pop(taken)
    permissions = {"publish": rights, "subscribe": ["_INBOX.>"]}
    users = [
        {"user": "admin", "password": "p"},
        {"user": "me", "password": "p", "permissions": permissions},
    ]

    async def scenario(place: str) -> list[Any]:
        async with opened(place.replace("admin:", "me:")) as backend:
            slot = 60_000 + await now_ms(backend) - 120_000
            claim = ask("job", slot)
            (answer,) = await backend.claim([claim], timeout_ms=TIMEOUT_MS)
            (closed,) = await backend.finish([end(claim)], timeout_ms=TIMEOUT_MS)
            records = await backend.history(None, limit=5, timeout_ms=TIMEOUT_MS)
            return [answer, closed, records]

    config = {"authorization": {"users": users}}
    with testbed.nats(users={"admin": "p"}, config=config) as server:
        if missing is None:
            answer, closed, records = asyncio.run(scenario(server.url))

            assert (Verdict.WON, True, 1) == (answer.verdict, closed.accepted, len(records))
            return
        with pytest.raises(StoreRefusedError, match="may not do that") as raised:
            asyncio.run(scenario(server.url))

    # nats-py tells what the server says in small letters.
    assert missing.removesuffix(">").lower() in str(raised.value)


async def now_ms(backend: NatsBackend) -> int:
    """
    Tell the server's time, as the backend knows it.
    """
    await backend.time(timeout_ms=TIMEOUT_MS)
    return backend._time.now_ms()


CHANGES: list[tuple[dict[str, Any], type[BackendError], str]] = [
    (
        {"max_msgs_per_subject": -1, "discard_new_per_subject": False},
        StoreRefusedError,
        "two winners",
    ),
    ({"discard": "old", "discard_new_per_subject": False}, StoreRefusedError, "two winners"),
    ({"metadata": {}}, StoreRefusedError, "is not anarchon's"),
    ({"metadata": {"anarchon.layout": "2"}}, ProtocolVersionError, "layout 2"),
    (
        {"metadata": {"anarchon.layout": "1", "anarchon.claim_memory_ms": "1000"}},
        StoreRefusedError,
        "all instances must be given the same",
    ),
    ({"max_age": 7_200_000_000_000}, StoreRefusedError, "drops everything after 7200000 ms"),
    ({"subjects": ["PREFIX.claim.*.*"]}, StoreRefusedError, "does not listen to PREFIX.end"),
]


@pytest.mark.slow
@pytest.mark.parametrize("case", CHANGES)
def test_a_stream_that_does_not_keep_its_promise_is_refused(
    url: str,
    administer: Administer,
    prefix: str,
    case: tuple[dict[str, Any], type[BackendError], str],
) -> None:
    """
    Whoever made or edited it: before the first claim, and with what is wrong.
    """
    change, kind, words = case
    config = stream_config(Options(prefix=prefix), Subjects(prefix)) | change
    if "subjects" in change:
        config["subjects"] = [each.replace("PREFIX", prefix) for each in change["subjects"]]
    made = administer(f"STREAM.CREATE.{prefix}", config)
    error = refusal(url, prefix=prefix)

    assert "error" not in made
    assert kind is type(error)
    assert words.replace("PREFIX", prefix) in str(error)


@pytest.mark.slow
def test_options_that_the_stream_was_not_made_with_are_refused(
    url: str, prefix: str, opened: Opened
) -> None:
    """
    Two memories or two numbers of replicas on one stream; and replicas where there is no cluster.
    """

    async def make() -> None:
        async with opened():
            pass

    asyncio.run(make())
    errors = [
        refusal(url, prefix=prefix, claim_memory_ms=60_000),
        refusal(url, prefix=prefix, replicas=3),
        refusal(url, prefix=f"{prefix}-three", replicas=3),
    ]
    words = ["claim_memory_ms is 60000", "nats stream edit", "leave replicas out"]

    assert [StoreRefusedError] * 3 == [type(error) for error in errors]
    assert [True] * 3 == [word in str(error) for word, error in zip(words, errors, strict=True)]


@pytest.mark.slow
def test_a_full_disk_refuses_claims_and_frees_them_again(ask: Ask, opened: Opened) -> None:
    """
    No claim is won without a message that is kept; the store's own words are told; room lifts it.
    """

    async def scenario(server: testbed.NatsServer) -> list[Any]:
        async with opened(server.url) as backend:
            slot = await now_ms(backend) - 60_000

            async def fill() -> None:
                for number in range(100):
                    claim = ask(f"job-{number}", slot, instance_id="x" * 20_000)
                    await backend.claim([claim], timeout_ms=TIMEOUT_MS)

            with pytest.raises(StoreRefusedError, match="room lifts it") as raised:
                await fill()
            server.request(f"$JS.API.STREAM.PURGE.{backend._subjects.stream}")
            (again,) = await backend.claim([ask("job-x", slot)], timeout_ms=TIMEOUT_MS)
            return [str(raised.value), again]

    with testbed.nats(store_bytes_max=1_000_000) as server:
        words, again = asyncio.run(scenario(server))

    assert "insufficient" in words or "exceeded" in words
    assert Verdict.WON == again.verdict


@pytest.mark.slow
def test_a_text_larger_than_the_server_takes_is_cut(ask: Ask, end: End, opened: Opened) -> None:
    """
    A finish never fails for its error, nor its neighbours for it; a label that does not fit fails its own claim alone.
    """

    async def scenario(place: str) -> tuple[list[Any], list[Any], list[str | None]]:
        async with opened(place) as backend:
            slot = await now_ms(backend) - 60_000
            claims = [ask("a", slot), ask("b", slot, instance_id="x" * 9_000), ask("c", slot)]
            answers = await backend.claim(claims, timeout_ms=TIMEOUT_MS)
            ends = [
                end(claims[0], status=Status.FAILED, error="\N{COLLISION SYMBOL}" * 16_000),
                end(claims[1]),
                end(claims[2], status=Status.FAILED, error="short"),
            ]
            closed = await backend.finish(ends, timeout_ms=TIMEOUT_MS)
            records = await backend.history(None, limit=5, timeout_ms=TIMEOUT_MS)
            return list(answers), list(closed), [record.error for record in records]

    with testbed.nats(config={"max_payload": 8_192}) as server:
        answers, closed, errors = asyncio.run(scenario(server.url))

    assert [False, True, False] == [isinstance(each, RequestError) for each in answers]
    assert [True, False, True] == [each.accepted for each in closed]
    assert errors[0] is not None
    assert errors[0].startswith("\N{COLLISION SYMBOL}" * 500)
    assert errors[0].endswith("… [cut: 16000 characters in all]")
    assert "short" == errors[1]


@pytest.mark.slow
def test_a_stream_that_was_deleted_is_an_outage_until_somebody_starts(
    administer: Administer, prefix: str, opened: Opened, ask: Ask
) -> None:
    """
    A running scheduler does not make a new stream: it would grant what the old one had remembered.
    """

    async def scenario() -> Verdict:
        async with opened() as backend:
            slot = await now_ms(backend) - 60_000
            administer(f"STREAM.DELETE.{prefix}")
            with pytest.raises(StoreUnavailableError, match="has deleted it"):
                await backend.claim([ask("job", slot)], timeout_ms=TIMEOUT_MS)
            async with opened():
                (answer,) = await backend.claim([ask("job", slot)], timeout_ms=TIMEOUT_MS)
            assert not isinstance(answer, BackendError)
            return answer.verdict

    assert Verdict.WON == asyncio.run(scenario())


@pytest.mark.slow
def test_a_strangers_message_fails_its_own_run_alone(
    url: str, prefix: str, opened: Opened, ask: Ask, end: End
) -> None:
    """
    What is no claim in the place of one is an error of that item; others are served, and the history leaves it out.
    """

    async def scenario() -> tuple[list[Any], list[Any], list[str]]:
        async with opened() as backend:
            slot = await now_ms(backend) - 60_000
            client = await nats.connect(url)
            for subject in (f"claim.a.{slot}", "claim.a.b", "end.=ZZ.1", f"end.c.{slot}"):
                await client.publish(f"{prefix}.{subject}", b"[]")
            await client.flush()
            await client.close()
            claims = [ask("a", slot), ask("b", slot)]
            answers = await backend.claim(claims, timeout_ms=TIMEOUT_MS)
            ends = [*map(end, claims), end(ask("c", slot))]
            closed = await backend.finish(ends, timeout_ms=TIMEOUT_MS)
            records = await backend.history(None, limit=9, timeout_ms=TIMEOUT_MS)
            return list(answers), list(closed), [record.job for record in records]

    answers, closed, jobs = asyncio.run(scenario())

    assert [True, False] == [isinstance(each, RequestError) for each in answers]
    assert [True, False, True] == [isinstance(each, RequestError) for each in closed]
    assert "is not anarchon's" in str(answers[0])
    assert ["b"] == jobs


@pytest.mark.slow
def test_a_name_that_cannot_be_kept_fails_alone(opened: Opened, ask: Ask, end: End) -> None:
    """
    Its neighbours are served, in a claim and in a finish.
    """

    async def scenario() -> list[Any]:
        async with opened() as backend:
            slot = await now_ms(backend) - 60_000
            claims = [ask("a", slot), ask("x" * 256, slot), ask("b", slot)]
            won = await backend.claim(claims, timeout_ms=TIMEOUT_MS)
            ended = await backend.finish([end(each) for each in claims], timeout_ms=TIMEOUT_MS)
            return [type(each) is RequestError for each in [*won, *ended]]

    assert [False, True, False] * 2 == asyncio.run(scenario())
