"""
Measure what a claim costs on RabbitMQ, against the client's own confirmed publish in the same run.

    python -m bench.rabbitmq_store [--rounds N] [--url URL] [--version V] [--json PATH]
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

import aio_pika
from aio_pika.abc import AbstractChannel

import anarchon_testbed as testbed
from anarchon_rabbitmq import RabbitMQBackend
from bench.claims import TIMEOUT_MS, Claims, batch_target, single_target
from bench.tables import Block, Line, Report, Sizes, arguments_of, measure, measured, sizes_of

PUBLISH = "raw publish, confirmed, one a call"
STREAM = "bench.raw"


class Raw:
    """
    The client alone: messages that a stream keeps, and a broker that confirms them.
    """

    def __init__(self, channel: AbstractChannel, sizes: Sizes) -> None:
        self._channel = channel
        self._sizes = sizes

    @property
    def many(self) -> str:
        """
        What the line of batches is called.
        """
        return f"raw publish, confirmed, {self._sizes.batch} in flight"

    def lines(self) -> list[Line]:
        """
        Name them all.
        """
        return [
            Line(name=PUBLISH, against=PUBLISH, run=self.publish),
            Line(name=self.many, against=self.many, run=self.in_flight),
        ]

    async def publish(self) -> Block:
        """
        The least that a claim could be: one message and its confirmation.
        """
        return await measured([self._once] * self._sizes.singles, self._sizes.singles)

    async def in_flight(self) -> Block:
        """
        The same, many before the first confirmation.
        """

        async def once() -> None:
            await asyncio.gather(*(self._once() for _ in range(self._sizes.batch)))

        return await measured([once], self._sizes.batch)

    async def _once(self) -> None:
        message = aio_pika.Message(b"x" * 100, delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
        await self._channel.default_exchange.publish(message, routing_key=STREAM)


class RabbitMQClaims(Claims):
    """
    Claims on a store that tells no time.
    """

    async def now_ms(self) -> int:
        """
        Tell this machine's clock.
        """
        return time.time_ns() // 1_000_000


async def run(url: str, sizes: Sizes) -> Report:
    """
    Measure on streams of one broker, that of the raw messages too.
    """
    connection = await aio_pika.connect(url)
    channel = await connection.channel()
    await channel.declare_queue(STREAM, durable=True, arguments={"x-queue-type": "stream"})
    backend = RabbitMQBackend(url, prefix="bench")
    await backend.open(timeout_ms=TIMEOUT_MS)
    raw, claims = Raw(channel, sizes), RabbitMQClaims(backend, sizes)
    lines = [*raw.lines(), *claims.lines(one=PUBLISH, lost=PUBLISH, many=raw.many)]
    rows = await measure(lines, sizes.rounds)
    title = backend.service
    await backend.close()
    for stream in (STREAM, "bench.runs"):
        await channel.queue_delete(stream)
    await connection.close()
    report = Report(title=title, sizes=sizes, rows=rows)
    targets = (
        single_target(report, "won, one a call"),
        batch_target(report, "won, one a call", claims.batch_name),
    )
    return replace(report, targets=targets)


def main() -> None:
    """
    Find a broker, measure, print, and write JSON where that is asked for.
    """
    parser = arguments_of(__doc__)
    parser.add_argument(
        "--url", help="a broker without queues of the names bench.raw and bench.runs"
    )
    parser.add_argument("--version")
    options = parser.parse_args()
    url = options.url or testbed.shared_url("rabbitmq", options.version)
    report = asyncio.run(run(url, sizes_of(options)))
    report.show()
    if options.json is not None:
        report.write(options.json)


if __name__ == "__main__":
    main()
