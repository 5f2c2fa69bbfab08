"""
Measure what a claim costs on Redis, against the raw round trip of the same client in the same run.

    python -m bench.redis_store [--rounds N] [--url URL] [--kind redis|valkey] [--version V] [--json PATH]
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from itertools import count
from typing import get_args

from redis.asyncio import Redis

import anarchon_testbed as testbed
from anarchon_redis import RedisBackend, Strategy
from anarchon_redis.address import read_address
from anarchon_redis.client import make_listener
from anarchon_redis.options import Options
from anarchon_redis.server import server_of
from bench.claims import TIMEOUT_MS, Claims, batch_target, single_target
from bench.tables import Block, Line, Report, Sizes, arguments_of, measure, measured, sizes_of

PING = "raw PING, one a call"
SET = "raw SET NX PX, one a call"

serial = count(1)


class Raw:
    """
    The client alone.
    """

    def __init__(self, client: Redis, sizes: Sizes) -> None:
        self._client = client
        self._sizes = sizes

    @property
    def pipe(self) -> str:
        """
        What the line of batches is called.
        """
        return f"raw SET NX PX, {self._sizes.batch} a pipeline"

    def lines(self) -> list[Line]:
        """
        Name them all.
        """
        return [
            Line(name=PING, against=PING, run=self.ping),
            Line(name=SET, against=PING, run=self.set),
            Line(name=self.pipe, against=self.pipe, run=self.pipeline),
        ]

    async def ping(self) -> Block:
        """
        One plain round trip.
        """
        return await measured([self._client.ping] * self._sizes.singles, self._sizes.singles)

    async def set(self) -> Block:
        """
        The least that a claim could be: one key that is there or not.
        """

        async def once() -> None:
            await self._client.set(f"raw:{next(serial)}", "token", nx=True, px=60_000)

        return await measured([once] * self._sizes.singles, self._sizes.singles)

    async def pipeline(self) -> Block:
        """
        The same, many in one round trip.
        """

        async def once() -> None:
            line = self._client.pipeline(transaction=False)
            for _ in range(self._sizes.batch):
                line.execute_command("SET", f"raw:{next(serial)}", "token", "NX", "PX", 60_000)
            await line.execute()

        return await measured([once], self._sizes.batch)


async def run(url: str, sizes: Sizes) -> Report:
    """
    Measure every strategy that the server can serve, on a server that is emptied first.
    """
    client = make_listener(read_address(url), Options())
    await client.flushdb()
    server = server_of(await client.execute_command("HELLO"))  # type: ignore[no-untyped-call] # redis-py
    raw = Raw(client, sizes)
    lines = raw.lines()
    backends = []
    strategies: list[Strategy] = [
        strategy
        for strategy in get_args(Strategy)
        if strategy != "idmp" or (server.kind == "redis" and server.numbers >= (8, 6))
    ]
    for strategy in strategies:
        backend = RedisBackend(url, strategy=strategy, prefix=f"bench:{strategy}")
        await backend.open(timeout_ms=TIMEOUT_MS)
        backends.append(backend)
        lines += Claims(backend, sizes, name=strategy).lines(one=PING, lost=PING, many=raw.pipe)
    rows = await measure(lines, sizes.rounds)
    for backend in backends:
        await backend.close()
    await client.aclose()
    report = Report(title=server.shown, sizes=sizes, rows=rows)
    targets = [
        target
        for strategy in strategies
        for target in (
            single_target(report, f"{strategy}: won, one a call"),
            single_target(report, f"{strategy}: lost, one a call"),
            batch_target(
                report, f"{strategy}: won, one a call", f"{strategy}: won, {sizes.batch} a call"
            ),
        )
    ]
    return replace(report, targets=tuple(targets))


def main() -> None:
    """
    Find a server, measure, print, and write JSON where that is asked for.
    """
    parser = arguments_of(__doc__)
    parser.add_argument("--url", help="a server whose database may be emptied; else one is started")
    parser.add_argument("--kind", choices=["redis", "valkey"], default="redis")
    parser.add_argument("--version")
    options = parser.parse_args()
    url = options.url or testbed.shared_url(options.kind, options.version)
    report = asyncio.run(run(url, sizes_of(options)))
    report.show()
    if options.json is not None:
        report.write(options.json)


if __name__ == "__main__":
    main()
