"""
One connection to one node, which can also be cut off: closing politely takes a broker that answers.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import struct
from typing import Any, Final

import aio_pika
from aio_pika.abc import ConnectionParameter
from aiormq.connection import TransportFactory
from aiormq.exceptions import ConnectionClosed, InvalidFrameError
from yarl import URL

from anarchon.errors import InvalidOptionError
from anarchon_rabbitmq.address import Address
from anarchon_rabbitmq.options import Options

__all__ = ["Client", "tls_context"]

_HEARTBEAT_S: Final = 30
"""
How often the two sides prove to be there, in seconds.

A handler that blocks the event loop for longer than two of these loses the connection,
which costs one reconnection.
"""

_Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]

_CLOSE_SECONDS_MAX: Final = 1.0

_CLOSE_METHOD: Final = struct.pack("!HH", 10, 50)
_CLOSE_BYTES_MIN: Final = 7


class _Reader(asyncio.StreamReader):
    """
    Keeps what was read last: the client forgets why the broker ended a handshake.
    """

    last = b""

    async def readexactly(self, n: int) -> bytes:
        """
        Read.
        """
        self.last = await super().readexactly(n)
        return self.last


class _Transports(TransportFactory):
    """
    Opens the transport, and keeps hold of it.
    """

    def __init__(self, host: str, port: int, context: ssl.SSLContext | None) -> None:
        self._place = (host, port)
        self._context = context
        self._reader: _Reader | None = None
        self._writer: asyncio.StreamWriter | None = None

    @property
    def last(self) -> bytes:
        """
        What the broker said last: a frame without its head.
        """
        return b"" if self._reader is None else self._reader.last

    async def create(self, url: URL, **kwargs: Any) -> _Streams:  # noqa: ARG002 - the address is known here
        """
        Open the transport.
        """
        host, port = self._place
        loop = asyncio.get_running_loop()
        reader = self._reader = _Reader(loop=loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        transport, _ = await loop.create_connection(lambda: protocol, host, port, ssl=self._context)
        self._writer = asyncio.StreamWriter(transport, protocol, reader, loop)
        return reader, self._writer

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
            query={"heartbeat": str(_HEARTBEAT_S), "name": f"anarchon {options.prefix}"},
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
        except InvalidFrameError as error:
            raise _closed_by(self._transports.last) or error from error
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


def _closed_by(frame: bytes) -> ConnectionClosed | None:
    """
    Read why the broker closes a connection: code and text, each with its length before it.
    """
    if frame[:4] != _CLOSE_METHOD or len(frame) < _CLOSE_BYTES_MIN:
        return None
    code, length = struct.unpack_from("!HB", frame, 4)
    text = frame[_CLOSE_BYTES_MIN : _CLOSE_BYTES_MIN + length].decode("utf-8", "replace")
    return ConnectionClosed(code, text)


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
        InvalidOptionError: A file cannot be read, or holds something else.
    """
    try:
        context = ssl.create_default_context(cafile=options.ca_file)
        if options.certificate_file is not None:
            context.load_cert_chain(options.certificate_file, options.key_file)
    except OSError as error:
        names = (options.ca_file, options.certificate_file, options.key_file)
        files = ", ".join(repr(name) for name in names if name is not None)
        msg = f"TLS cannot be set up from {files or 'the certificates of this machine'}: {error}"
        raise InvalidOptionError(msg) from error
    if not options.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
