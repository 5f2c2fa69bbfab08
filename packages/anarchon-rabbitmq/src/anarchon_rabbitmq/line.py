"""
A live way to the log: one connection, a channel that appends, and a consumer that reads.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any, Final

import aiormq.abc
from aio_pika import exceptions
from pamqp import commands as spec

from anarchon.errors import (
    BackendError,
    ProtocolVersionError,
    ServerTooOldError,
    StoreRefusedError,
    StoreUnavailableError,
)
from anarchon_rabbitmq.address import Address
from anarchon_rabbitmq.client import Client
from anarchon_rabbitmq.entries import MESSAGE_TYPE, Message, NewerLayoutError, decode
from anarchon_rabbitmq.options import Options
from anarchon_rabbitmq.trouble import CLIENT_ERRORS, client_errors, store_error

__all__ = ["OFFSET", "PREFETCH", "Channel", "Line"]

OFFSET: Final = "x-stream-offset"

PREFETCH: Final = 1_000
"""
How many messages the broker sends ahead of their acknowledgement.
"""

_ACKNOWLEDGED_AT: Final = 250

_ACKNOWLEDGED_AFTER_S: Final = 5.0
"""
How long a message waits for its acknowledgement, in seconds. A broker ends the channel of whoever
owes it one for long, half an hour by default.
"""

_VERSION_MIN: Final = (3, 10)

Channel = aiormq.abc.AbstractChannel


class Line:
    """
    One connection to one node, from its start to the first thing that breaks.

    Args:
        address, host: Where to.

        options: How.

        read: Takes each message, in the log's order, and must not wait.

        lost: Is called once, with the reason, when the line is of no use any more.
    """

    def __init__(
        self,
        address: Address,
        host: tuple[str, int],
        options: Options,
        *,
        read: Callable[[Line, int, Message | None], None],
        lost: Callable[[Line, BackendError], None],
    ) -> None:
        self._options = options
        self._read = read
        self._lost = lost
        self.where = f"RabbitMQ at {host[0]}:{host[1]}"
        self.version = ""
        self.broken: BackendError | None = None
        self.read_count = 0
        self._client = Client(address, host, options)
        self._channel: Channel | None = None
        self._held: dict[Channel, object] = {}
        self._tag = 0
        self._owed = 0
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[Any]] = set()

    @property
    def over(self) -> bool:
        """
        Whether nothing is left of it.
        """
        return self.broken is not None and not self._tasks

    async def connect(self) -> None:
        """
        Connect, and make sure of the stream.

        Raises:
            BackendError: It did not work; the line is of no use then.
        """
        with client_errors(self.where):
            self._check(await self._client.connect())
            self._channel = await self._declared()

    async def channel(self) -> Channel:
        """
        Open one more channel.
        """
        opened = await self._client.connection.channel(on_return_raises=True)
        channel = await opened.get_underlay_channel()
        # The wrapper ends what it wraps when nobody holds it any more.
        self._held[channel] = opened
        channel.closing.add_done_callback(lambda future: self._ended(channel, future))
        channel.on_consumer_cancel_callbacks.add(self._cancelled)
        await channel.basic_qos(prefetch_count=PREFETCH)
        return channel

    async def follow(self, offset: int | str) -> None:
        """
        Have every message from an offset on read, for as long as the line lives.
        """
        channel = self._opened()
        with client_errors(self.where):
            await channel.basic_consume(
                self._options.stream, self._deliver, arguments={OFFSET: offset}
            )

    def append(self, mark: str, body: bytes, failed: Callable[[BackendError], None]) -> None:
        """
        Send a message for the end of the log. That it was read says that it stands there.
        """
        self.spawn(self._publish(mark, body, failed))

    async def ask(self) -> None:
        """
        Make a round trip.
        """
        channel = self._opened()
        with client_errors(self.where):
            await channel.queue_declare(self._options.stream, passive=True)

    def drop(self, reason: BackendError) -> None:
        """
        Cut the connection off: what is under way on it has an unknown outcome.
        """
        if self.broken is None:
            self.broken = reason
            self._settle()
            self._client.abort()
            self.spawn(self._client.close())
            self._lost(self, reason)

    async def close(self) -> None:
        """
        Close the connection.
        """
        if self.broken is None:
            self.broken = StoreUnavailableError(f"{self.where}: this backend was closed")
            self._settle()
            await self._client.close()
            self._lost(self, self.broken)
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=1.0)
        for task in self._tasks:
            task.cancel()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """
        Run something beside the caller, who may be cancelled.
        """
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _opened(self) -> Channel:
        if self.broken is not None:
            # Each has one of its own: a traceback belongs to one task.
            raise type(self.broken)(str(self.broken))
        assert self._channel is not None
        return self._channel

    def _check(self, properties: dict[str, Any]) -> None:
        product, version = str(properties.get("product", "")), str(properties.get("version", ""))
        if product != "RabbitMQ":
            msg = f"{self.where}: this broker calls itself {product!r}; streams are RabbitMQ's"
            raise StoreRefusedError(msg)
        numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
        if numbers < _VERSION_MIN:
            msg = f"{self.where}: RabbitMQ {version} is too old; 3.10 or newer is needed"
            raise ServerTooOldError(msg)
        self.version = version

    async def _declared(self) -> Channel:
        """
        Make the stream where it is missing; another instance may do the same at this moment.
        """
        stream, arguments = self._options.stream, self._options.stream_arguments
        channel = await self.channel()
        try:
            await channel.queue_declare(stream, passive=True)
        except exceptions.ChannelNotFoundEntity:
            # The broker closes a channel that asked for what there is not, or differs.
            channel = await self.channel()
            try:
                await channel.queue_declare(stream, durable=True, arguments=arguments)
            except exceptions.ChannelPreconditionFailed:
                # Somebody was quicker, with other limits: theirs count.
                channel = await self.channel()
                await channel.queue_declare(stream, passive=True)
        return channel

    async def _publish(
        self, mark: str, body: bytes, failed: Callable[[BackendError], None]
    ) -> None:
        properties = spec.Basic.Properties(
            content_type="application/json",
            delivery_mode=2,
            message_id=mark,
            message_type=MESSAGE_TYPE,
        )
        try:
            with client_errors(self.where):
                await self._opened().basic_publish(
                    body, routing_key=self._options.stream, properties=properties, mandatory=True
                )
        except BackendError as error:
            failed(error)

    async def _deliver(self, message: aiormq.abc.DeliveredMessage) -> None:
        # Each delivery is a task of its own: nothing may be awaited before it was read,
        # or a later one overtakes it.
        if self.broken is not None:
            return
        properties = message.header.properties
        offset = (properties.headers or {}).get(OFFSET)
        if not isinstance(offset, int):
            msg = f"{self.where}: queue {self._options.stream!r} is no stream; use another prefix"
            self.drop(StoreRefusedError(msg))
            return
        try:
            self._read(self, offset, decode(offset, properties.message_type, message.body))
        except NewerLayoutError as error:
            msg = f"{self.where}: stream {self._options.stream!r} holds {error}; upgrade, or use another prefix"
            self.drop(ProtocolVersionError(msg))
            return
        self.read_count += 1
        self._tag = message.delivery_tag or 0
        self._owed += 1
        if self._owed >= _ACKNOWLEDGED_AT:
            await self._acknowledge()
        elif self._owed == 1:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(
                _ACKNOWLEDGED_AFTER_S, lambda: self.spawn(self._acknowledge())
            )

    async def _acknowledge(self) -> None:
        self._settle()
        if self._channel is not None and self.broken is None:
            with contextlib.suppress(*CLIENT_ERRORS):
                await self._channel.basic_ack(self._tag, multiple=True, wait=False)

    def _settle(self) -> None:
        self._owed = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _cancelled(self, _: object) -> None:
        self.drop(
            StoreUnavailableError(f"{self.where}: the broker ended the reading of the stream")
        )

    def _ended(self, channel: Channel, future: asyncio.Future[Any]) -> None:
        error = None if future.cancelled() else future.exception()
        self._held.pop(channel, None)
        if channel is not self._channel:
            return
        self.drop(store_error(error or ConnectionError("the channel was closed"), self.where))
