"""
A TCP proxy within a process that loses messages on demand: what tests put before a server.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

__all__ = ["CuttingProxy", "cutting_proxy"]

_CHUNK = 65_536


class CuttingProxy:
    """
    Passes bytes on until it is told to cut.

    A cut closes the connection that meets it, on both sides; later ones pass again.

    Args:
        host, port: The server behind it.
    """

    def __init__(self, host: str, port: int) -> None:
        self._upstream = (host, port)
        self.port = 0
        self._request_bytes: int | None = None
        self._reply_bytes: int | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._silent = False

    def lose_request(self, after: int = 0) -> None:
        """
        Cut when this many bytes more have gone to the server.
        """
        self._request_bytes = after

    def lose_reply(self, after: int = 0) -> None:
        """
        Cut when this many bytes more have come from the server.
        """
        self._reply_bytes = after

    def fall_silent(self, silent: bool = True) -> None:  # noqa: FBT001, FBT002 - reads as a sentence
        """
        Take what comes from now on and pass nothing on, as a machine does that was cut off.
        """
        self._silent = silent

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """
        Serve one connection.
        """
        task = asyncio.current_task()
        if task is not None:
            self._tasks.add(task)
        up_writer: asyncio.StreamWriter | None = None
        try:
            up_reader, up_writer = await asyncio.open_connection(*self._upstream)
            ways = {
                asyncio.ensure_future(self._pump(reader, up_writer, "_request_bytes")),
                asyncio.ensure_future(self._pump(up_reader, writer, "_reply_bytes")),
            }
            try:
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
        except OSError:
            # A server that is down is a connection that ends.
            pass
        except asyncio.CancelledError:
            # Streams of Python 3.11 log a handler that ends so; nobody awaits this one.
            pass
        finally:
            for each in (writer, up_writer):
                if each is not None:
                    each.transport.abort()
            if task is not None:
                self._tasks.discard(task)

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, bound: str
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(_CHUNK):
                if self._silent:
                    continue
                left: int | None = getattr(self, bound)
                if left is None:
                    writer.write(data)
                elif len(data) > left:
                    setattr(self, bound, None)
                    writer.write(data[:left])
                    await writer.drain()
                    return
                else:
                    setattr(self, bound, left - len(data))
                    writer.write(data)
                await writer.drain()

    async def hang_up(self) -> None:
        """
        End every connection that passes through.
        """
        tasks = set(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@asynccontextmanager
async def cutting_proxy(host: str, port: int) -> AsyncIterator[CuttingProxy]:
    """
    Start a proxy on a port of its own.
    """
    proxy = CuttingProxy(host, port)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    proxy.port = server.sockets[0].getsockname()[1]
    try:
        yield proxy
    finally:
        server.close()
        await proxy.hang_up()
