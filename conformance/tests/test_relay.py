"""
The relay carries what it is given, loses what it is told to lose, and is silent when it has to be.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager

import pytest

from anarchon_conformance.relay import CuttingRelay, relaying

Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@asynccontextmanager
async def echo() -> AsyncIterator[tuple[int, bytearray]]:
    """
    Run a server that sends back what it hears, and tells what it has heard.
    """
    heard = bytearray()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(1_000):
                heard.extend(data)
                writer.write(data)
        except ConnectionError:
            pass  # A cut resets the connection.
        finally:
            writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1], heard
    finally:
        server.close()


def told(story: Callable[[CuttingRelay, bytearray], Coroutine[None, None, None]]) -> None:
    """
    Run a story with a relay before a server that echoes.
    """

    async def run() -> None:
        async with echo() as (port, heard), relaying(CuttingRelay("127.0.0.1", port)) as relay:
            await asyncio.wait_for(story(relay, heard), 60)

    asyncio.run(run())


async def joined(relay: CuttingRelay) -> Ends:
    """
    Connect to the relay.
    """
    return await asyncio.open_connection("127.0.0.1", relay.port)


async def rest(ends: Ends) -> bytes:
    """
    Read until the connection ends, however it does.
    """
    got = bytearray()
    try:
        while data := await ends[0].read(1_000):
            got.extend(data)
    except ConnectionError:
        pass  # To end by a reset is to end.
    ends[1].close()
    return bytes(got)


@pytest.mark.parametrize(
    ("lost", "passed", "answered"),
    [("lose_request", b"abc", b"c"), ("lose_reply", b"abcdef", b"c")],
)
def test_a_cut_comes_after_so_many_bytes_and_once(
    lost: str, passed: bytes, answered: bytes
) -> None:
    """
    What is before the cut has passed, the connection ends there, and the next one is whole.
    """

    async def story(relay: CuttingRelay, heard: bytearray) -> None:
        getattr(relay, lost)(3)
        first = await joined(relay)
        first[1].write(b"ab")

        assert b"ab" == await first[0].readexactly(2)

        first[1].write(b"cdef")
        got = await rest(first)
        second = await joined(relay)
        second[1].write(b"ghi")

        assert b"ghi" == await second[0].readexactly(3)
        assert passed + b"ghi" == bytes(heard)
        assert got in {b"", answered}  # A reset may overtake the last byte.
        second[1].close()

    told(story)


def test_silence_passes_nothing_and_ends_no_connection() -> None:
    """
    What was said during a silence is lost; what comes after it passes on the same connection.
    """

    async def story(relay: CuttingRelay, heard: bytearray) -> None:
        ends = await joined(relay)
        ends[1].write(b"before")

        assert b"before" == await ends[0].readexactly(6)

        relay.fall_silent()
        other = await joined(relay)
        other[1].write(b"unheard")
        other[1].write_eof()

        assert b"" == await rest(other)  # It ends when the relay has read it all.

        relay.fall_silent(silent=False)
        ends[1].write(b"after")

        assert b"after" == (await ends[0].readexactly(5))
        assert b"beforeafter" == bytes(heard)
        ends[1].close()

    told(story)


def test_hanging_up_ends_every_connection() -> None:
    """
    Whoever is connected finds the connection closed; the relay goes on for others.
    """

    async def story(relay: CuttingRelay, heard: bytearray) -> None:
        first, second = await joined(relay), await joined(relay)
        for ends in (first, second):
            ends[1].write(b"x")
            await ends[0].readexactly(1)
        await relay.hang_up()

        assert [b"", b""] == [await rest(first), await rest(second)]

        third = await joined(relay)
        third[1].write(b"y")

        assert b"y" == await third[0].readexactly(1)
        assert b"xxy" == bytes(heard)
        third[1].close()

    told(story)


def test_a_server_that_is_down_is_a_connection_that_ends() -> None:
    """
    Nobody is left waiting before a server that is not there.
    """

    async def run() -> bytes:
        async with echo() as (port, _):
            pass
        async with relaying(CuttingRelay("127.0.0.1", port)) as relay:
            return await asyncio.wait_for(rest(await joined(relay)), 60)

    assert b"" == asyncio.run(run())
