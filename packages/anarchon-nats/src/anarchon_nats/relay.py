"""
A relay that loses messages on demand, or falls silent: what tests put before a server.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

__all__ = ["Relay", "relay_to"]

_CHUNK = 65_536
_WRITE = re.compile(rb"PUB \S+\.(?:claim|end)\.")
_WRITTEN = re.compile(rb'"seq": ?\d|"error"')


class Relay:
    """
    Stands between a client and a server, without TLS.

    A message that is lost takes its connection with it, as it would on a real wire. Reading
    and looking are left alone: what counts is the claim or the end of a run.

    Args:
        host, port: The server behind it.
    """

    def __init__(self, host: str, port: int) -> None:
        self._server = (host, port)
        self._lose_request = False
        self._lose_reply = False
        self._withheld = False
        self._silent = False
        self.port = 0

    def lose_request(self) -> None:
        """
        Let the next claim or end vanish before the store sees it.
        """
        self._lose_request = True

    def lose_reply(self) -> None:
        """
        Let the store keep the next claim or end, and let its answer vanish.
        """
        self._lose_reply = True

    def fall_silent(self, *, silent: bool = True) -> None:
        """
        Take what comes from now on and pass nothing on, as a machine does that was cut off.
        """
        self._silent = silent

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """
        Carry one connection until one of its ends closes, or a message was lost.
        """
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._server)
        except OSError:
            writer.transport.abort()  # A server that is down is a connection that ends.
            return
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
        with contextlib.suppress(OSError):
            while data := await reader.read(_CHUNK):
                if self._silent:
                    continue
                if _WRITE.search(data):
                    if self._lose_request:
                        self._lose_request = False
                        return
                    self._withheld, self._lose_reply = self._lose_reply, False
                writer.write(data)
                await writer.drain()

    async def _replies(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(_CHUNK):
                if self._silent:
                    continue
                if self._withheld:
                    if _WRITTEN.search(data):
                        self._withheld = False
                        return
                    continue
                writer.write(data)
                await writer.drain()


@asynccontextmanager
async def relay_to(host: str, port: int) -> AsyncIterator[Relay]:
    """
    Run a relay on a port of this machine.
    """
    relay = Relay(host, port)
    connections: set[asyncio.Task[None]] = set()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(relay.serve(reader, writer))
        connections.add(task)
        task.add_done_callback(connections.discard)

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    relay.port = server.sockets[0].getsockname()[1]
    try:
        yield relay
    finally:
        server.close()
        for task in list(connections):
            task.cancel()
        _ = await asyncio.gather(*connections, return_exceptions=True)
