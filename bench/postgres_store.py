"""
Measure what a claim costs on PostgreSQL, beside the raw round trip and the raw INSERT of the same client.

Every round measures every line once, one after the other, so that a machine which is
busier for a while is so for all of them. What counts is the ratio to the raw line of
the same round; the absolute times belong to the machine.

    python bench/postgres_store.py [--rounds N] [--dsn DSN | --version 18] [--no-fsync] [--pooled] [--json PATH]

Without --dsn the testbed starts a server that waits for the disk at each commit, as a server should.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import anarchon_testbed as testbed
from anarchon.backend import ClaimRequest, FinishRequest, RegisterRequest, RenewRequest
from anarchon.records import Status
from anarchon_postgres import PostgresBackend
from anarchon_postgres.driver import Connection, connect

TIMEOUT_MS = 60_000
SINGLES = 100
BATCH = 1_000
INSERT = "INSERT INTO {schema}.raw VALUES ($1, $2, $3) ON CONFLICT DO NOTHING"
INSERT_MANY = (
    "INSERT INTO {schema}.raw SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[])"
    " ON CONFLICT DO NOTHING"
)
FINGERPRINT = "0123456789abcdef"

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
    One line of the table: medians over all rounds. `ratio` is its median latency an item to the raw line's.
    """

    name: str
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


class Bench:
    """
    The connections under measurement, and one method a line.
    """

    def __init__(self, dsn: str, *, pooled: bool) -> None:
        self._dsn = dsn
        self._schema = f"bench_{os.getpid()}"
        self._backend = PostgresBackend(dsn, schema=self._schema)
        # The driver's own statement cache does not work behind a pooler.
        self._options = {"statement_cache_size": 0} if pooled else {}
        self._raw: Connection | None = None

    async def open(self) -> None:
        """
        Open everything.
        """
        await self._backend.open(timeout_ms=TIMEOUT_MS)
        self._raw = await connect(self._dsn, **self._options)
        await self.raw.execute(
            f"CREATE TABLE {self._schema}.raw (job text, slot bigint, token text, PRIMARY KEY (job, slot))"
        )

    async def close(self) -> None:
        """
        Remove what was made, and close everything.
        """
        await self._backend.close()
        await self.raw.execute(f"DROP SCHEMA {self._schema} CASCADE")
        await self.raw.close(timeout=5)

    @property
    def service(self) -> str:
        """
        The server in words.
        """
        return self._backend.service

    @property
    def raw(self) -> Connection:
        """
        The client's own connection.
        """
        assert self._raw is not None
        return self._raw

    async def trip(self) -> Block:
        """
        Make the round trip that asks for nothing.
        """
        return await measured([partial(self.raw.fetch, "SELECT 1")] * SINGLES, SINGLES)

    async def insert(self) -> Block:
        """
        Insert one row a call.
        """
        sql = INSERT.format(schema=self._schema)
        calls = [
            partial(self.raw.fetch, sql, f"job-{next(serial)}", 1, "token") for _ in range(SINGLES)
        ]
        return await measured(calls, SINGLES)

    async def won(self) -> Block:
        """
        Claim one run a call, and win it.
        """
        claims = await self._claims(SINGLES)
        return await measured([partial(self._claim, [each]) for each in claims], SINGLES)

    async def lost(self) -> Block:
        """
        Claim a run that somebody else executes: what all instances but one do.
        """
        return await self._other(1)

    async def watched(self) -> Block:
        """
        Ask for the next attempt of a run that goes on: what a backup does.
        """
        return await self._other(2)

    async def renewed(self) -> Block:
        """
        Renew one lease a call.
        """
        claims = await self._claims(1)
        await self._claim(claims)
        renewals = [RenewRequest(**key_of(claims[0]), lease_ms=30_000)]
        call = partial(self._backend.renew, renewals, timeout_ms=TIMEOUT_MS)
        return await measured([call] * SINGLES, SINGLES)

    async def insert_many(self) -> Block:
        """
        Insert a batch of rows in one statement.
        """
        jobs = [f"job-{next(serial)}" for _ in range(BATCH)]
        sql = INSERT_MANY.format(schema=self._schema)
        call = partial(self.raw.fetch, sql, jobs, [1] * BATCH, ["token"] * BATCH)
        return await measured([call], BATCH)

    async def won_many(self) -> Block:
        """
        Claim a batch of runs, and win them all.
        """
        claims = await self._claims(BATCH)
        return await measured([partial(self._claim, claims)], BATCH)

    async def life(self) -> Block:
        """
        Claim, renew and finish a batch of runs: three items a run.
        """
        claims = await self._claims(BATCH)
        keys = [key_of(each) for each in claims]
        renewals = [RenewRequest(**key, lease_ms=30_000, started_ago_ms=1) for key in keys]
        ends = [FinishRequest(**key, status=Status.SUCCESS, started_ago_ms=2) for key in keys]
        return await measured(
            [
                partial(self._claim, claims),
                partial(self._backend.renew, renewals, timeout_ms=TIMEOUT_MS),
                partial(self._backend.finish, ends, timeout_ms=TIMEOUT_MS),
            ],
            3 * BATCH,
        )

    async def _other(self, attempt: int) -> Block:
        (mine,) = await self._claims(1)
        await self._claim([mine])
        other = ClaimRequest(
            job=mine.job,
            slot=mine.slot,
            attempt=attempt,
            token="other",
            instance_id="host:2",
            lease_ms=30_000,
        )
        return await measured([partial(self._claim, [other])] * SINGLES, SINGLES)

    async def _claim(self, requests: Sequence[ClaimRequest]) -> None:
        await self._backend.claim(requests, timeout_ms=TIMEOUT_MS)

    async def _claims(self, number: int) -> list[ClaimRequest]:
        """
        Write claims of jobs that are known and that nobody has claimed, as a scheduler's are.
        """
        now_ms = await self._backend.time(timeout_ms=TIMEOUT_MS)
        assert now_ms is not None
        claims = [claim(now_ms) for _ in range(number)]
        known = [
            RegisterRequest(job=each.job, slot=None, fingerprint=FINGERPRINT) for each in claims
        ]
        await self._backend.register(known, timeout_ms=TIMEOUT_MS)
        return claims


def claim(slot: int) -> ClaimRequest:
    """
    Write a claim of a job of its own.
    """
    number = next(serial)
    return ClaimRequest(
        job=f"job-{number}",
        slot=slot,
        token=f"{number:032x}",
        instance_id="host:1",
        lease_ms=30_000,
        not_after_ms=slot + 600_000,
        fingerprint=FINGERPRINT,
    )


def key_of(request: ClaimRequest) -> dict[str, Any]:
    """
    Say which attempt a claim is for.
    """
    return {"job": request.job, "slot": request.slot, "attempt": 1, "token": request.token}


def summary(name: str, blocks: Sequence[Block], base: Sequence[Block]) -> Row:
    """
    Sum up the rounds of one line, against those of the raw one.
    """
    latencies = sorted(latency for block in blocks for latency in block.latencies_s)
    return Row(
        name=name,
        per_s=statistics.median(block.items / block.wall_s for block in blocks),
        p50_ms=latencies[len(latencies) // 2] * 1_000,
        p99_ms=latencies[min(len(latencies) - 1, len(latencies) * 99 // 100)] * 1_000,
        cpu_us=statistics.median(block.cpu_s / block.items for block in blocks) * 1_000_000,
        ratio=statistics.median(
            one_of(block) / one_of(raw) for block, raw in zip(blocks, base, strict=True)
        ),
    )


def one_of(block: Block) -> float:
    """
    Tell the median latency of a block's calls, for one item.
    """
    return statistics.median(block.latencies_s) * len(block.latencies_s) / block.items


async def run(dsn: str, rounds: int, *, pooled: bool) -> tuple[str, list[Row]]:
    """
    Measure every line in every round.
    """
    bench = Bench(dsn, pooled=pooled)
    await bench.open()
    trip, insert, many = "raw SELECT 1", "raw INSERT, one a call", f"raw INSERT, {BATCH} a call"
    lines: dict[str, tuple[Callable[[], Awaitable[Block]], str]] = {
        trip: (bench.trip, insert),
        insert: (bench.insert, insert),
        "claim won, one a call": (bench.won, insert),
        "renewal, one a call": (bench.renewed, insert),
        "claim lost, one a call": (bench.lost, trip),
        "backup's check, one a call": (bench.watched, trip),
        many: (bench.insert_many, many),
        f"claims won, {BATCH} a call": (bench.won_many, insert),
        f"claim, renew, finish, {BATCH} a call": (bench.life, insert),
    }
    blocks: dict[str, list[Block]] = {name: [] for name in lines}
    for _ in range(rounds + 1):
        for name, (line, _) in lines.items():
            blocks[name].append(await line())
    await bench.close()
    # The first round is for warming up: connections plan each statement once.
    return bench.service, [
        summary(name, blocks[name][1:], blocks[base][1:]) for name, (_, base) in lines.items()
    ]


@contextlib.contextmanager
def server_of(options: argparse.Namespace) -> Iterator[str]:
    """
    Give the DSN of the server that was asked for.
    """
    if options.dsn is not None:
        yield options.dsn
        return
    with testbed.postgres(options.version, own=True, durable=options.fsync) as server:
        if not options.pooled:
            yield server.url
            return
        with testbed.pgbouncer(server) as bouncer:
            yield bouncer.url


def main() -> None:
    """
    Print the table, and write it as JSON where that is asked for.
    """
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip().splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--dsn")
    parser.add_argument("--version")
    parser.add_argument("--fsync", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--pooled", action="store_true")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    with server_of(options) as dsn:
        service, rows = asyncio.run(run(dsn, options.rounds, pooled=options.pooled))
    print(f"{service}, fsync {options.fsync}, pooled {options.pooled}, {options.rounds} rounds")
    print(f"{'':38}{'items/s':>10}{'p50 ms':>9}{'p99 ms':>9}{'CPU us':>9}{'ratio':>8}")
    for row in rows:
        print(
            f"{row.name:38}{row.per_s:10.0f}{row.p50_ms:9.2f}{row.p99_ms:9.2f}{row.cpu_us:9.1f}{row.ratio:8.2f}"
        )
    print(
        "p50 and p99 are of a call; CPU is of this process for one item; ratio is the median time of an item to"
        "\nthat of the raw INSERT (of SELECT 1 for what only reads)."
    )
    if options.json is not None:
        table = {
            "service": service,
            "fsync": options.fsync,
            "pooled": options.pooled,
            "rounds": options.rounds,
            "rows": [asdict(row) for row in rows],
        }
        options.json.write_text(json.dumps(table, indent=2) + "\n")


if __name__ == "__main__":
    main()
