"""
Measure what a claim costs on NATS, against the client's own confirmed publish in the same run.

    python -m bench.nats_store [--rounds N] [--url URL] [--nodes 1|3] [--replicas 1|3] [--json PATH]
"""

from __future__ import annotations

import asyncio
import time
from contextlib import ExitStack
from dataclasses import replace
from itertools import count

import nats
from nats.js import JetStreamContext

import anarchon_testbed as testbed
from anarchon_nats import NatsBackend
from bench.claims import TIMEOUT_MS, Claims, batch_target, single_target
from bench.tables import Block, Line, Report, Sizes, arguments_of, measure, measured, sizes_of

PUBLISH = "raw publish, confirmed, one a call"

serial = count(1)


class Raw:
    """
    The client alone: messages that a stream keeps, and says so.
    """

    def __init__(self, client: JetStreamContext, sizes: Sizes) -> None:
        self._client = client
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

        async def once() -> None:
            await self._client.publish(f"raw.{next(serial)}", b"x" * 80)

        return await measured([once] * self._sizes.singles, self._sizes.singles)

    async def in_flight(self) -> Block:
        """
        The same, many before the first confirmation.
        """

        async def once() -> None:
            sent = [
                await self._client.publish_async(f"raw.{next(serial)}", b"x" * 80)
                for _ in range(self._sizes.batch)
            ]
            await asyncio.gather(*sent)

        return await measured([once], self._sizes.batch)


class NatsClaims(Claims):
    """
    Claims on a store that tells no time.
    """

    async def now_ms(self) -> int:
        """
        Tell this machine's clock.
        """
        return time.time_ns() // 1_000_000


async def run(url: str, replicas: int, sizes: Sizes) -> Report:
    """
    Measure on streams with so many replicas, that of the raw messages too.
    """
    client = await nats.connect(url.split(","))
    stream = client.jetstream()
    await stream.add_stream(name="raw", subjects=["raw.>"], num_replicas=replicas)
    backend = NatsBackend(url, prefix="bench", replicas=replicas)
    await backend.open(timeout_ms=TIMEOUT_MS)
    raw, claims = Raw(stream, sizes), NatsClaims(backend, sizes)
    lines = [*raw.lines(), *claims.lines(one=PUBLISH, lost=PUBLISH, many=raw.many)]
    rows = await measure(lines, sizes.rounds)
    title = backend.service
    await backend.close()
    await stream.delete_stream("raw")
    await client.close()
    report = Report(title=title, sizes=sizes, rows=rows)
    targets = (
        single_target(report, "won, one a call"),
        batch_target(report, "won, one a call", claims.batch_name),
    )
    return replace(report, targets=targets)


def main() -> None:
    """
    Find a server, measure, print, and write JSON where that is asked for.
    """
    parser = arguments_of(__doc__)
    parser.add_argument("--url", help="a server that has no streams `raw` and `bench`")
    parser.add_argument("--nodes", type=int, choices=[1, 3], default=1)
    parser.add_argument("--replicas", type=int, choices=[1, 3], default=1)
    options = parser.parse_args()
    with ExitStack() as stack:
        url = options.url
        if url is None and options.nodes == 1:
            url = stack.enter_context(testbed.nats(own=True)).url
        elif url is None:
            url = stack.enter_context(testbed.nats_cluster()).url
        report = asyncio.run(run(url, options.replicas, sizes_of(options)))
    report.show()
    if options.json is not None:
        report.write(options.json)


if __name__ == "__main__":
    main()
