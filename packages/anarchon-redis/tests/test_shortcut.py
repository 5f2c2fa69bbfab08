"""
The short way of answers: the same answers as the client's own way, and all else left to the client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis.exceptions import ConnectionError as LostConnectionError
from redis.exceptions import ResponseError

from anarchon.backend import ClaimRequest, Verdict
from anarchon_conformance.relay import CuttingRelay, relaying
from anarchon_redis import RedisBackend
from anarchon_redis.address import read_address
from anarchon_redis.client import close_client, make_listener
from anarchon_redis.commands import packed_command
from anarchon_redis.connections import Connections
from anarchon_redis.options import Options
from anarchon_redis.shortcut import Shortcut

TIMEOUT_MS = 10_000

Ask = Callable[..., ClaimRequest]
Opened = Callable[..., AbstractAsyncContextManager[RedisBackend]]

PLAIN = st.lists(st.one_of(st.binary(max_size=12), st.integers(-(10**12), 10**12)), min_size=1)
SPECIAL = st.sampled_from([b"-ERR no\r\n", b"+OK\r\n", b"_\r\n", b">2\r\n+a\r\n+b\r\n", b"*0\r\n"])
CUTS = st.lists(st.integers(0, 200), max_size=8)


def written(answer: bytes | int) -> bytes:
    """
    Write an answer as a server does.
    """
    if isinstance(answer, int):
        return b":%d\r\n" % answer
    return b"$%d\r\n%b\r\n" % (len(answer), answer)


async def fed(data: bytes, cuts: list[int], number: int) -> tuple[list[Any], bytes, bool]:
    """
    Feed a shortcut in pieces while a call waits for so many answers.

    Returns:
        What the call was told, what is left to redis-py, and whether that is known.
    """
    reader = asyncio.StreamReader()
    shortcut = Shortcut(asyncio.Transport(), asyncio.StreamReaderProtocol(reader))
    call = asyncio.ensure_future(shortcut.answers(number))
    await asyncio.sleep(0)  # lets the call begin to wait
    places = [0, *sorted(cut for cut in cuts if cut < len(data)), len(data)]
    for begin, end in pairwise(places):
        shortcut.data_received(data[begin:end])
    reader.feed_eof()
    return await call, await reader.read(), shortcut.heard


@given(answers=PLAIN, cuts=CUTS)
def test_plain_answers_arrive_whole_however_they_are_cut(
    answers: list[bytes | int], cuts: list[int]
) -> None:
    """
    Texts (also with ends of lines in them) and integers are the call's, and nothing of them reaches redis-py.
    """
    data = b"".join(map(written, answers))
    told, left, heard = asyncio.run(fed(data, cuts, len(answers)))

    assert (answers, b"", False) == (told, left, heard)


@given(before=PLAIN, special=SPECIAL, after=PLAIN, cuts=CUTS)
def test_all_else_is_left_to_the_client_with_what_follows(
    before: list[bytes | int], special: bytes, after: list[bytes | int], cuts: list[int]
) -> None:
    """
    From an error or a push on, everything is read in redis-py's way, to the last byte.
    """
    rest = special + b"".join(map(written, after))
    data = b"".join(map(written, before)) + rest
    told, left, heard = asyncio.run(fed(data, cuts, len(before) + 1 + len(after)))

    assert (before, rest, True) == (told, left, heard)


@given(answers=PLAIN, cuts=CUTS)
def test_an_answer_too_many_is_noticed(answers: list[bytes | int], cuts: list[int]) -> None:
    """
    What nobody has asked for stays to be found before the next call.
    """
    data = b"".join(map(written, answers))
    told, left, heard = asyncio.run(fed(data + b"+more\r\n", cuts, len(answers)))

    assert (answers, b"+more\r\n", True) == (told, left, heard)


async def lent_from(url: str, play: Callable[[Connections], Any]) -> None:
    """
    Give the connections of a client to a scenario.
    """
    client = make_listener(read_address(url), Options())
    try:
        await play(Connections(client))
    finally:
        await close_client(client)


def test_an_error_among_answers_costs_no_connection(url: str) -> None:
    """
    An error stands in its place, the answers around it are there, and the same connection serves the next call.
    """

    async def scenario(connections: Connections) -> None:
        lent = await connections.take()
        for words in (["ECHO", "a"], ["NOSUCH"], ["STRLEN", "none"]):
            await lent.send(packed_command(words))
        first, error, last = await lent.answers(3)
        await connections.keep(lent)
        again = await connections.take()
        await again.send(packed_command(["ECHO", "b"]))

        assert (b"a", 0) == (first, last)
        assert isinstance(error, ResponseError)
        assert again is lent
        assert [b"b"] == await again.answers(1)
        await connections.keep(again)

    asyncio.run(lent_from(url, scenario))


def test_a_connection_that_was_told_something_is_not_lent_again(url: str) -> None:
    """
    An answer that nobody has waited for would be taken for that of the next call.
    """

    async def scenario(connections: Connections) -> None:
        lent = await connections.take()
        # The server reads both at once, and writes both answers at once.
        await lent.send(packed_command(["ECHO", "late"]) + packed_command(["ECHO", "later"]))
        await lent.answers(1)
        await connections.keep(lent)
        other = await connections.take()
        await other.send(packed_command(["ECHO", "mine"]))

        assert other is not lent
        assert [b"mine"] == await other.answers(1)
        await connections.keep(other)

    asyncio.run(lent_from(url, scenario))


def test_the_end_of_a_connection_ends_the_call(url: str) -> None:
    """
    A call whose connection breaks hears of it, whether before or within its answers.
    """

    async def play(relay: CuttingRelay, keep: int, connections: Connections) -> None:
        lent = await connections.take()
        relay.lose_reply(keep)
        await lent.send(packed_command(["ECHO", "some text"]))
        with pytest.raises(LostConnectionError):
            await lent.answers(1)
        await connections.drop(lent)

    async def scenario() -> None:
        host, port = RedisBackend(url)._address.hosts[0]
        for keep in (0, 3, 8):
            async with relaying(CuttingRelay(host, port)) as relay:
                place = f"redis://127.0.0.1:{relay.port}/0"
                await lent_from(place, partial(play, relay, keep))

    asyncio.run(scenario())


def test_a_client_that_hides_its_stream_serves_as_well(
    opened: Opened, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Without the short way, another release of redis-py say, the answers come its way.
    """
    monkeypatch.setattr(Shortcut, "of", classmethod(lambda _cls, _connection: None))

    async def scenario() -> None:
        async with opened() as backend:
            slot = await backend.time(timeout_ms=TIMEOUT_MS)
            for verdict in (Verdict.WON, Verdict.RUNNING):
                claims = [ask(f"job-{number}", slot) for number in range(100)]
                answers: Any = await backend.claim(claims, timeout_ms=TIMEOUT_MS)

                assert {verdict} == {answer.verdict for answer in answers}

    asyncio.run(scenario())
