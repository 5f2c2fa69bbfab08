"""
Read a part of the log, beside the line's own reading.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

import aiormq.abc

from anarchon.errors import StoreUnavailableError
from anarchon_rabbitmq.entries import Message, NewerLayoutError, decode
from anarchon_rabbitmq.line import OFFSET, PREFETCH, Channel, Line
from anarchon_rabbitmq.trouble import CLIENT_ERRORS, client_errors

__all__ = ["Placed", "read_part"]

Placed = tuple[int, Message | None]
"""
An offset and the message there; None if it is not one of ours.
"""

_ACKNOWLEDGED_AT: Final = PREFETCH // 4


class _Part:
    """
    Collects messages until the last one wanted.
    """

    def __init__(self, stop: int | None) -> None:
        self._stop = stop
        self.messages: list[Placed] = []
        self.complete: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def deliver(self, message: aiormq.abc.DeliveredMessage) -> None:
        properties = message.header.properties
        offset = (properties.headers or {}).get(OFFSET)
        if self.complete.done() or not isinstance(offset, int):
            return
        try:
            self.messages.append((offset, decode(offset, properties.message_type, message.body)))
        except NewerLayoutError:
            # The line meets it too, and says so.
            self.messages.append((offset, None))
        if self._stop is None or offset >= self._stop:
            self.complete.set_result(None)
        elif len(self.messages) % _ACKNOWLEDGED_AT == 0:
            with contextlib.suppress(*CLIENT_ERRORS):
                await message.channel.basic_ack(
                    message.delivery_tag or 0, multiple=True, wait=False
                )

    def ended(self, _: object) -> None:
        if not self.complete.done():
            msg = "the broker ended the reading of the stream"
            self.complete.set_exception(StoreUnavailableError(msg))


async def read_part(
    line: Line, stream: str, start: int | str, stop: int | None = None
) -> list[Placed]:
    """
    Read from an offset, or from a while ago, up to the offset *stop*, which must stand in the log.

    Without *stop* the first message alone is read.

    Raises:
        BackendError: It could not be read.
    """
    part = _Part(stop)
    channel: Channel | None = None
    try:
        with client_errors(line.where):
            channel = await line.channel()
            channel.closing.add_done_callback(part.ended)
            channel.on_consumer_cancel_callbacks.add(part.ended)
            await channel.basic_consume(stream, part.deliver, arguments={OFFSET: start})
            await part.complete
    finally:
        if not part.complete.done():
            part.complete.cancel()
        elif not part.complete.cancelled():
            part.complete.exception()
        if channel is not None:
            line.spawn(_close(channel))
    return part.messages


async def _close(channel: Channel) -> None:
    with contextlib.suppress(*CLIENT_ERRORS):
        await channel.close()
