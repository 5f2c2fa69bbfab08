"""
One connection to one node, which can also be cut off: closing politely takes a broker that answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from typing import Any, Final

import aio_pika
from aio_pika.abc import ConnectionParameter
from aiormq.connection import TransportFactory
from yarl import URL

from anarchon_rabbitmq.address import Address
from anarchon_rabbitmq.options import Options

__all__ = ["Client", "Streams"]

HEARTBEAT_S: Final = 30
"""
How often the two sides prove to be there, in seconds.

A handler that blocks the event loop for longer than two of these loses the connection,
which costs one reconnection.
"""

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]

_CLOSE_SECONDS_MAX: Final = 1.0


class _Transports(TransportFactory):
    """
    Opens the transport, and keeps hold of it.
    """

    def __init__(self, host: str, port: int, context: ssl.SSLContext | None) -> None:
        self._place = (host, port)
        self._context = context
        self._writer: asyncio.StreamWriter | None = None

    async def create(self, url: URL, **kwargs: Any) -> Streams:  # noqa: ARG002 - the address is known here
        """
        Open the transport.
        """
        host, port = self._place
        reader, writer = await asyncio.open_connection(host, port, ssl=self._context)
        self._writer = writer
        return reader, writer

    def abort(self) -> None:
        """
        Cut the transport off, without a word to the other side.
        """
        if self._writer is not None:
            self._writer.transport.abort()


class _Connection(aio_pika.Connection):
    PARAMETERS = (
        *aio_pika.Connection.PARAMETERS,
        ConnectionParameter(name="transport_factory", parser=lambda value: value, is_kwarg=True),
    )


class Client:
    """
    One connection of aio-pika. It does not reconnect by itself: whoever has lost it asks for another.
    """

    def __init__(self, address: Address, host: tuple[str, int], options: Options) -> None:
        self._transports = _Transports(*host, tls_context(options) if address.tls else None)
        # The password is not in the text that errors and logs show.
        url = URL.build(
            scheme="amqps" if address.tls else "amqp",
            host=host[0],
            port=host[1],
            user=address.username,
            password=address.password,
            query={"heartbeat": str(HEARTBEAT_S), "name": f"anarchon {options.prefix}"},
        )
        if address.vhost != "/":
            url = url.with_path(f"/{address.vhost}")
        self.connection: aio_pika.Connection = _Connection(url, transport_factory=self._transports)

    async def connect(self) -> dict[str, Any]:
        """
        Connect and log in; gives what the broker says of itself.
        """
        connecting = asyncio.ensure_future(self.connection.connect())
        connecting.add_done_callback(_seen)
        try:
            await asyncio.shield(connecting)
        except asyncio.CancelledError:
            # The client would say good-bye to a broker that may be silent.
            self.abort()
            connecting.cancel()
            raise
        transport = self.connection.transport
        assert transport is not None
        return dict(transport.connection.server_properties or {})

    def abort(self) -> None:
        """
        Cut the connection off.
        """
        self._transports.abort()

    async def close(self) -> None:
        """
        Say good-bye, and cut the connection off if that takes long.
        """
        closing = asyncio.ensure_future(self.connection.close())
        try:
            await asyncio.wait({closing}, timeout=_CLOSE_SECONDS_MAX)
        finally:
            self.abort()
            with contextlib.suppress(Exception):
                await asyncio.wait_for(closing, _CLOSE_SECONDS_MAX)


def _seen(task: asyncio.Future[None]) -> None:
    """
    Look at the outcome of a task that nobody may await any more.
    """
    if not task.cancelled():
        task.exception()


def tls_context(options: Options) -> ssl.SSLContext:
    """
    Make what TLS needs from the options.

    Raises:
        OSError: A file cannot be read.
    """
    context = ssl.create_default_context(cafile=options.ca_file)
    if not options.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if options.certificate_file is not None:
        context.load_cert_chain(options.certificate_file, options.key_file)
    return context
