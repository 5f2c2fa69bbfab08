"""
A relay before a store that is reached over TCP: it loses messages on demand, and falls silent.

What a profile needs for `proxy` and `line`. It reads what passes, or counts its bytes, so
that the client behind it speaks without TLS.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Protocol, TypeVar

from anarchon.backend import Backend
from anarchon_conformance.profile import Line, LineOpener, Loss, Proxy, ProxyOpener

__all__ = ["CHUNK_BYTES", "CuttingRelay", "Relay", "Silencing", "relaying", "through"]

CHUNK_BYTES = 65_536
"""
How much is read at a time.
"""


class Relay:
    """
    Stands between clients and a server, and carries every connection both ways.

    A kind of it that loses messages returns from `requests` or `replies` to break the
    connection, as a real wire does that loses something.

    Args:
        host, port: The server behind it.
    """

    def __init__(self, host: str, port: int) -> None:
        self._server = (host, port)
        self._connections: set[asyncio.Task[None]] = set()
        self.port = 0
        self.silent = False

    def fall_silent(self, *, silent: bool = True) -> None:
        """
        Take what comes from now on and pass nothing on, as a machine does that was cut off.
        """
        self.silent = silent

    async def requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """
        Carry what a client sends, until this returns.
        """
        await self.carry(reader, writer)

    async def replies(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """
        Carry what the server sends, until this returns.
        """
        await self.carry(reader, writer)

    async def carry(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        part: Callable[[bytes], bytes] = bytes,
    ) -> None:
        """
        Carry bytes one way, until they end or only a part of what was read is to pass.
        """
        while data := await reader.read(CHUNK_BYTES):
            passing = part(data)
            await self.send(writer, passing)
            if len(passing) < len(data):
                return

    async def send(self, writer: asyncio.StreamWriter, data: bytes) -> None:
        """
        Pass bytes on, unless silence has fallen.
        """
        if not self.silent:
            writer.write(data)
            await writer.drain()

    async def hang_up(self) -> None:
        """
        End every connection that passes through.
        """
        connections = set(self._connections)
        for connection in connections:
            connection.cancel()
        _ = await asyncio.gather(*connections, return_exceptions=True)

    def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """
        Take one connection of a client.
        """
        # A task of our own: streams of Python 3.11 log a handler of theirs that is cancelled.
        connection = asyncio.ensure_future(self._carry(reader, writer))
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)
        # However it ends, also if it was cancelled before it began.
        connection.add_done_callback(lambda _: writer.transport.abort())

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._server)
        except OSError:
            return  # A server that is down is a connection that ends.
        ways = [
            asyncio.ensure_future(self._until_broken(self.requests(reader, far_writer))),
            asyncio.ensure_future(self._until_broken(self.replies(far_reader, writer))),
        ]
        try:
            _ = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            far_writer.transport.abort()
            for way in ways:
                way.cancel()
            _ = await asyncio.gather(*ways, return_exceptions=True)

    async def _until_broken(self, way: Any) -> None:
        # An end that resets its connection, or closes it within a message, ends this one.
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            await way


class CuttingRelay(Relay):
    """
    Passes bytes on until it is told to cut.

    A cut closes the connection that meets it, on both sides; later ones pass again.
    """

    def __init__(self, host: str, port: int) -> None:
        super().__init__(host, port)
        self._request_cut, self._reply_cut = _Cut(), _Cut()

    def lose_request(self, after: int = 0) -> None:
        """
        Cut when this many bytes more have gone to the server.
        """
        self._request_cut.left = after

    def lose_reply(self, after: int = 0) -> None:
        """
        Cut when this many bytes more have come from the server.
        """
        self._reply_cut.left = after

    async def requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """
        Carry what a client sends, up to the cut.
        """
        await self.carry(reader, writer, self._request_cut.up_to)

    async def replies(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """
        Carry what the server sends, up to the cut.
        """
        await self.carry(reader, writer, self._reply_cut.up_to)


class _Cut:
    """
    Where a connection is cut next: after so many bytes, or nowhere.
    """

    def __init__(self) -> None:
        self.left: int | None = None

    def up_to(self, data: bytes) -> bytes:
        """
        Give what passes of *data*; a cut that was met is over.
        """
        if self.left is None:
            return data
        passing = data[: self.left]
        self.left = self.left - len(data) if len(passing) == len(data) else None
        return passing


_Relay = TypeVar("_Relay", bound=Relay)


@asynccontextmanager
async def relaying(relay: _Relay) -> AsyncIterator[_Relay]:
    """
    Let a relay listen on a port of this machine, which is then its `port`.
    """
    server = await asyncio.start_server(relay.connected, "127.0.0.1", 0)
    relay.port = server.sockets[0].getsockname()[1]
    try:
        yield relay
    finally:
        server.close()
        await relay.hang_up()


class Silencing(Loss, Protocol):
    """
    A relay that loses messages, and falls silent.
    """

    def fall_silent(self) -> None:
        """
        See Line.
        """


def through(
    near: Callable[[str], AbstractAsyncContextManager[tuple[Backend, Silencing]]],
) -> tuple[ProxyOpener, LineOpener]:
    """
    Make a profile's `proxy` and `line` of one function that opens a client behind a relay for a namespace.
    """

    @asynccontextmanager
    async def proxy(namespace: str) -> AsyncIterator[Proxy]:
        async with near(namespace) as (backend, relay):
            yield Proxy(backend=backend, loss=relay)

    @asynccontextmanager
    async def line(namespace: str) -> AsyncIterator[Line]:
        async with near(namespace) as (backend, relay):
            yield Line(backend=backend, fall_silent=relay.fall_silent)

    return proxy, line
