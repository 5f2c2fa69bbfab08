"""
Measure what a claim costs on Redis, against the raw round trip of the same client in the same run.

Every round measures every line once, one after the other, so that a machine which is
busier for a while is so for all of them. What counts is the ratio to the raw line of
the same round; the absolute times belong to the machine.

    python bench/redis_store.py [--rounds N] [--url URL] [--kind redis|valkey] [--version V] [--json PATH]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, get_args

from redis.asyncio import Redis

import anarchon_testbed as testbed
from anarchon.backend import ClaimRequest, FinishRequest, RenewRequest
from anarchon.records import Status
from anarchon_redis import RedisBackend, Strategy
from anarchon_redis.address import read_address
from anarchon_redis.client import make_listener
from anarchon_redis.options import Options
from anarchon_redis.server import server_of

TIMEOUT_MS = 30_000
SINGLES = 200
BATCH = 1_000
PING = "raw PING, one a call"
SET = "raw SET NX, one a call"
PIPE = f"raw SET NX, {BATCH} a pipeline"

serial = count(1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """
    One line in one round: how many items, how long they took, and each call's latency.
    """

    items: int
    wall_s: float
    cpu_s: float
    latencies_s: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """
    One line of the table: medians over all rounds. `ratio` is its time an item to the raw line's.
    """

    name: str
    against: str
    per_s: float
    p50_ms: float
    p99_ms: float
    cpu_us: float
    ratio: float


async def measured(calls: Sequence[Callable[[], Awaitable[object]]], items: int) -> Block:
    """
    Make the calls one after the other.
    """
    latencies = []
    wall, cpu = time.perf_counter(), time.process_time()
    for call in calls:
        begin = time.perf_counter()
        await call()
        latencies.append(time.perf_counter() - begin)
    return Block(
        items=items,
        wall_s=time.perf_counter() - wall,
        cpu_s=time.process_time() - cpu,
        latencies_s=tuple(latencies),
    )


def claim(slot: int) -> ClaimRequest:
    """
    Write a claim of a job that nobody has claimed before.
    """
    number = next(serial)
    return ClaimRequest(
        job=f"job-{number}",
        slot=slot,
        token=f"{number:032x}",
        instance_id="host:1",
        lease_ms=30_000,
        not_after_ms=slot + 60_000,
        fingerprint="0123456789abcdef",
    )


class Bench:
    """
    One server under measurement, and one method a line.
    """

    def __init__(self, url: str) -> None:
        self._raw: Redis = make_listener(read_address(url), Options())
        self._backends = {
            strategy: RedisBackend(url, strategy=strategy, prefix=f"bench:{strategy}")
            for strategy in get_args(Strategy)
        }

    async def open(self) -> list[Strategy]:
        """
        Open everything, on a server that is emptied first; tell which strategies it can serve.
        """
        await self._raw.flushdb()
        numbers = server_of(await self._raw.execute_command("HELLO"))  # type: ignore[no-untyped-call] # redis-py
        print(numbers.shown)
        if numbers.kind != "redis" or numbers.numbers < (8, 6):
            del self._backends["idmp"]
        for backend in self._backends.values():
            await backend.open(timeout_ms=TIMEOUT_MS)
        return list(self._backends)

    async def close(self) -> None:
        """
        Close everything.
        """
        for backend in self._backends.values():
            await backend.close()
        await self._raw.aclose()

    async def ping(self) -> Block:
        """
        One plain round trip.
        """
        return await measured([self._raw.ping] * SINGLES, SINGLES)

    async def set(self) -> Block:
        """
        The least that a claim could be: one key that is there or not.
        """

        async def once() -> None:
            await self._raw.set(f"raw:{next(serial)}", "token", nx=True)

        return await measured([once] * SINGLES, SINGLES)

    async def pipeline(self) -> Block:
        """
        The same, many in one round trip.
        """

        async def once() -> None:
            line = self._raw.pipeline(transaction=False)
            for _ in range(BATCH):
                line.execute_command("SET", f"raw:{next(serial)}", "token", "NX")
            await line.execute()

        return await measured([once], BATCH)

    async def single(self, strategy: Strategy) -> Block:
        """
        Claim one run a call, and win it.
        """
        now_ms = await self._now_ms()
        claims = [claim(now_ms) for _ in range(SINGLES)]
        return await measured([partial(self._claim, strategy, [each]) for each in claims], SINGLES)

    async def losing(self, strategy: Strategy) -> Block:
        """
        Claim a run that somebody else executes: what all instances but one do.
        """
        request = claim(await self._now_ms())
        await self._claim(strategy, [request])
        other = ClaimRequest(
            job=request.job, slot=request.slot, token="other", instance_id="host:2", lease_ms=30_000
        )
        return await measured([partial(self._claim, strategy, [other])] * SINGLES, SINGLES)

    async def batch(self, strategy: Strategy) -> Block:
        """
        Claim a batch of runs, and win them all.
        """
        now_ms = await self._now_ms()
        requests = [claim(now_ms) for _ in range(BATCH)]
        return await measured([partial(self._claim, strategy, requests)], BATCH)

    async def life(self) -> Block:
        """
        Claim, renew and finish a batch of runs: three items a run.
        """
        backend, now_ms = self._backends["lease"], await self._now_ms()
        claims = [claim(now_ms) for _ in range(BATCH)]
        keys: list[dict[str, Any]] = [
            {"job": c.job, "slot": c.slot, "attempt": 1, "token": c.token} for c in claims
        ]
        renewals = [RenewRequest(**key, lease_ms=30_000, started_ago_ms=1) for key in keys]
        ends = [FinishRequest(**key, status=Status.SUCCESS, started_ago_ms=2) for key in keys]
        return await measured(
            [
                partial(self._claim, "lease", claims),
                partial(backend.renew, renewals, timeout_ms=TIMEOUT_MS),
                partial(backend.finish, ends, timeout_ms=TIMEOUT_MS),
            ],
            3 * BATCH,
        )

    async def _claim(self, strategy: Strategy, requests: Sequence[ClaimRequest]) -> None:
        await self._backends[strategy].claim(requests, timeout_ms=TIMEOUT_MS)

    async def _now_ms(self) -> int:
        now_ms = await self._backends["lease"].time(timeout_ms=TIMEOUT_MS)
        assert now_ms is not None
        return now_ms


def summary(name: str, against: str, blocks: Sequence[Block], base: Sequence[Block]) -> Row:
    """
    Sum up the rounds of one line, against those of the raw one.
    """
    latencies = sorted(latency for block in blocks for latency in block.latencies_s)
    per_item = [block.wall_s / block.items for block in blocks]
    base_per_item = [block.wall_s / block.items for block in base]
    return Row(
        name=name,
        against=against,
        per_s=1 / statistics.median(per_item),
        p50_ms=latencies[len(latencies) // 2] * 1_000,
        p99_ms=latencies[min(len(latencies) - 1, len(latencies) * 99 // 100)] * 1_000,
        cpu_us=statistics.median(block.cpu_s / block.items for block in blocks) * 1_000_000,
        ratio=statistics.median(
            mine / raw for mine, raw in zip(per_item, base_per_item, strict=True)
        ),
    )


async def run(url: str, rounds: int) -> list[Row]:
    """
    Measure every line in every round.
    """
    bench = Bench(url)
    strategies = await bench.open()
    lines: dict[str, tuple[Callable[[], Awaitable[Block]], str]] = {
        PING: (bench.ping, PING),
        SET: (bench.set, PING),
        PIPE: (bench.pipeline, PIPE),
    }
    for strategy in strategies:
        lines[f"{strategy}: won, one a call"] = (partial(bench.single, strategy), PING)
        lines[f"{strategy}: lost, one a call"] = (partial(bench.losing, strategy), PING)
        lines[f"{strategy}: won, {BATCH} a call"] = (partial(bench.batch, strategy), PIPE)
    lines[f"lease: claim, renew, finish, {BATCH} a call"] = (bench.life, PIPE)
    blocks: dict[str, list[Block]] = {name: [] for name in lines}
    for _ in range(rounds):
        for name, (line, _) in lines.items():
            blocks[name].append(await line())
    await bench.close()
    return [
        summary(name, against, blocks[name], blocks[against])
        for name, (_, against) in lines.items()
    ]


def show(rows: Sequence[Row], rounds: int) -> None:
    """
    Print the table.
    """
    print(f"{rounds} rounds")
    print(f"{'':40}{'items/s':>10}{'p50 ms':>9}{'p99 ms':>9}{'CPU us':>9}{'ratio':>8}")
    for row in rows:
        print(
            f"{row.name:40}{row.per_s:10.0f}{row.p50_ms:9.2f}{row.p99_ms:9.2f}{row.cpu_us:9.1f}{row.ratio:8.2f}"
        )
    print(
        "p50 and p99 are of a call; CPU is of this process for one item; ratio is the time an item to the raw line's:"
        " PING for single calls, a pipeline of SET NX for batches."
    )
    rate = {row.name: row.per_s for row in rows}
    gain = rate[f"lease: won, {BATCH} a call"] / rate["lease: won, one a call"]
    print(f"a lease claim in a batch of {BATCH} costs 1/{gain:.0f} of one alone")


def main() -> None:
    """
    Find a server, measure, print, and write JSON where that is asked for.
    """
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip().splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--url", help="a server whose database may be emptied; else one is started")
    parser.add_argument("--kind", choices=["redis", "valkey"], default="redis")
    parser.add_argument("--version")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    url = options.url or testbed.shared_url(options.kind, options.version)
    rows = asyncio.run(run(url, options.rounds))
    show(rows, options.rounds)
    if options.json is not None:
        told = {"rounds": options.rounds, "rows": [asdict(row) for row in rows]}
        options.json.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
