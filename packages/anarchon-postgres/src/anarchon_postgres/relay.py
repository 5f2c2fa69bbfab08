"""
A relay that loses messages on demand, for the conformance kit: bytes go through it both ways.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

__all__ = ["Relay", "relay_to"]

_HEADER = (
    5  # A message of the server is its kind, a length of four bytes that counts itself, and a body.
)


class Relay:
    """
    Stands between a client and a server, without TLS.

    A message that is lost takes its connection with it, as it would on a real wire.
    """

    def __init__(self, host: str, port: int) -> None:
        self._server = (host, port)
        self._lose_request = False
        self._lose_reply = False
        self._silent = False

    def lose_request(self) -> None:
        """
        Let the next request vanish before the store sees it.
        """
        self._lose_request = True

    def lose_reply(self) -> None:
        """
        Let the store commit the next request, and let its reply vanish.
        """
        self._lose_reply = True

    def fall_silent(self) -> None:
        """
        Take what comes from now on and pass nothing on, as a machine does that was cut off.
        """
        self._silent = True

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """
        Carry one connection until one of its ends closes, or a message was lost.
        """
        far_reader, far_writer = await asyncio.open_connection(*self._server)
        ways = [
            asyncio.ensure_future(self._requests(reader, far_writer)),
            asyncio.ensure_future(self._replies(far_reader, writer)),
        ]
        try:
            _ = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            _ = await asyncio.gather(*ways, return_exceptions=True)
            for end in (writer, far_writer):
                end.transport.abort()

    async def _requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            if self._silent:
                continue
            if self._lose_request:
                self._lose_request = False
                return
            writer.write(data)
            await writer.drain()

    async def _replies(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """
        Pass messages on, up to the rows of a reply that is to be lost.

        The server says that it is ready (Z) once it has committed; only then does the
        connection break.
        """
        withheld = False
        with contextlib.suppress(asyncio.IncompleteReadError):
            while True:
                header = await reader.readexactly(_HEADER)
                body = await reader.readexactly(int.from_bytes(header[1:], "big") - 4)
                kind = header[:1]
                if self._lose_reply and kind in (b"D", b"C"):
                    self._lose_reply = False
                    withheld = True
                if withheld and kind == b"Z":
                    return
                if not withheld and not self._silent:
                    writer.write(header + body)
                    await writer.drain()


@asynccontextmanager
async def relay_to(host: str, port: int) -> AsyncIterator[tuple[Relay, int]]:
    """
    Run a relay on a port of this machine, and give both.
    """
    relay = Relay(host, port)
    connections: set[asyncio.Task[None]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(relay.serve(reader, writer))
        connections.add(task)
        task.add_done_callback(connections.discard)

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    try:
        yield relay, server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in list(connections):
            task.cancel()
        _ = await asyncio.gather(*connections, return_exceptions=True)
