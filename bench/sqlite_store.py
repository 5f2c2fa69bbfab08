"""
Measure what a claim costs on SQLite, against the raw INSERT on a file with the same settings.

Every round measures every line once, one after the other, so that a machine which is
busier for a while is so for all of them. What counts is the ratio to the raw line of
the same round; the absolute times belong to the machine.

    python bench/sqlite_store.py [--rounds N] [--synchronous full|normal] [--json PATH]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from anarchon.backend import ClaimRequest, FinishRequest, RenewRequest
from anarchon.records import Status
from anarchon_sqlite import SqliteBackend
from anarchon_sqlite.hop import Hop
from anarchon_sqlite.transaction import Ticket

TIMEOUT_MS = 30_000
SINGLES = 200
BATCH = 1_000
INSERT = "INSERT INTO raw VALUES (?, ?, ?)"
CREATE = (
    "CREATE TABLE raw (job TEXT, slot INTEGER, token TEXT, PRIMARY KEY (job, slot)) WITHOUT ROWID"
)

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
    One line of the table: medians over all rounds. `ratio` is its rate to the raw line's.
    """

    name: str
    per_s: float
    p50_ms: float
    p99_ms: float
    cpu_us: float
    ratio: float


def connect(path: Path, synchronous: str) -> sqlite3.Connection:
    """
    Open a file with the settings that the backend uses.
    """
    raw = sqlite3.connect(path, isolation_level=None)
    raw.execute("PRAGMA journal_mode = WAL").fetchall()
    raw.execute(f"PRAGMA synchronous = {synchronous}").fetchall()
    return raw


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
    The files under measurement, and one method a line.
    """

    def __init__(self, folder: Path, synchronous: str) -> None:
        self._synchronous = synchronous
        self._sync = connect(folder / "sync.db", synchronous)
        self._sync.execute(CREATE)
        self._hop_path = folder / "hop.db"
        connect(self._hop_path, synchronous).execute(CREATE)
        self._hop = Hop(
            str(self._hop_path),
            connect=lambda: connect(self._hop_path, synchronous),
            prepare=lambda _raw, _ticket: None,
        )
        self._backend = SqliteBackend(
            folder / "claims.db", synchronous="full" if synchronous == "full" else "normal"
        )

    async def open(self) -> None:
        """
        Open everything.
        """
        await self._hop.start(timeout_ms=TIMEOUT_MS)
        await self._backend.open(timeout_ms=TIMEOUT_MS)

    async def close(self) -> None:
        """
        Close everything.
        """
        await self._hop.close()
        await self._backend.close()
        self._sync.close()

    async def raw(self) -> Block:
        """
        Insert one row a commit, without a thread.
        """

        async def insert() -> None:
            self._sync.execute(INSERT, (f"job-{next(serial)}", 1, "token")).fetchall()

        return await measured([insert] * SINGLES, SINGLES)

    async def hop(self) -> Block:
        """
        Insert one row a commit, on a connection's thread.
        """

        def insert(raw: sqlite3.Connection, _ticket: Ticket) -> None:
            raw.execute(INSERT, (f"job-{next(serial)}", 1, "token")).fetchall()

        return await measured(
            [lambda: self._hop.run(insert, timeout_ms=TIMEOUT_MS)] * SINGLES, SINGLES
        )

    async def single(self) -> Block:
        """
        Claim one run a call, and win it.
        """
        now_ms = await self._now_ms()
        return await measured(
            [partial(self._claim, [claim(now_ms)]) for _ in range(SINGLES)], SINGLES
        )

    async def losing(self) -> Block:
        """
        Claim a run that somebody else executes: what all instances but one do.
        """
        request = claim(await self._now_ms())
        await self._claim([request])
        other = ClaimRequest(
            job=request.job, slot=request.slot, token="other", instance_id="host:2", lease_ms=30_000
        )
        return await measured([partial(self._claim, [other])] * SINGLES, SINGLES)

    async def raw_batch(self) -> Block:
        """
        Insert a batch of rows in one commit, without a thread.
        """

        async def insert() -> None:
            self._sync.execute("BEGIN IMMEDIATE")
            self._sync.executemany(
                INSERT, [(f"job-{next(serial)}", 1, "token") for _ in range(BATCH)]
            )
            self._sync.execute("COMMIT")

        return await measured([insert], BATCH)

    async def batch(self) -> Block:
        """
        Claim a batch of runs, and win them all.
        """
        now_ms = await self._now_ms()
        requests = [claim(now_ms) for _ in range(BATCH)]
        return await measured([partial(self._claim, requests)], BATCH)

    async def life(self) -> Block:
        """
        Claim, renew and finish a batch of runs: three items a run.
        """
        now_ms = await self._now_ms()
        claims = [claim(now_ms) for _ in range(BATCH)]
        keys: list[dict[str, Any]] = [
            {"job": c.job, "slot": c.slot, "attempt": 1, "token": c.token} for c in claims
        ]
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

    async def _claim(self, requests: Sequence[ClaimRequest]) -> None:
        await self._backend.claim(requests, timeout_ms=TIMEOUT_MS)

    async def _now_ms(self) -> int:
        now_ms = await self._backend.time(timeout_ms=TIMEOUT_MS)
        assert now_ms is not None
        return now_ms


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


def summary(name: str, blocks: Sequence[Block], base: Sequence[Block]) -> Row:
    """
    Sum up the rounds of one line, against those of the raw one.
    """
    latencies = sorted(latency for block in blocks for latency in block.latencies_s)
    rates = [block.items / block.wall_s for block in blocks]
    base_rates = [block.items / block.wall_s for block in base]
    return Row(
        name=name,
        per_s=statistics.median(rates),
        p50_ms=latencies[len(latencies) // 2] * 1_000,
        p99_ms=latencies[min(len(latencies) - 1, len(latencies) * 99 // 100)] * 1_000,
        cpu_us=statistics.median(block.cpu_s / block.items for block in blocks) * 1_000_000,
        ratio=statistics.median(rate / raw for rate, raw in zip(rates, base_rates, strict=True)),
    )


async def run(rounds: int, synchronous: str) -> list[Row]:
    """
    Measure every line in every round.
    """
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), synchronous)
        await bench.open()
        lines: dict[str, tuple[Callable[[], Awaitable[Block]], str]] = {
            "raw INSERT, one a commit": (bench.raw, "raw INSERT, one a commit"),
            "raw INSERT, one a hop": (bench.hop, "raw INSERT, one a commit"),
            "claim won, one a call": (bench.single, "raw INSERT, one a commit"),
            "claim lost, one a call": (bench.losing, "raw INSERT, one a commit"),
            f"raw INSERT, {BATCH} a commit": (bench.raw_batch, f"raw INSERT, {BATCH} a commit"),
            f"claims won, {BATCH} a call": (bench.batch, f"raw INSERT, {BATCH} a commit"),
            f"claim, renew, finish, {BATCH} a call": (bench.life, f"raw INSERT, {BATCH} a commit"),
        }
        blocks: dict[str, list[Block]] = {name: [] for name in lines}
        for _ in range(rounds):
            for name, (line, _) in lines.items():
                blocks[name].append(await line())
        await bench.close()
        return [summary(name, blocks[name], blocks[base]) for name, (_, base) in lines.items()]


def main() -> None:
    """
    Print the table, and write it as JSON where that is asked for.
    """
    parser = argparse.ArgumentParser(description=(__doc__ or "").strip().splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--synchronous", choices=["full", "normal"], default="full")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = asyncio.run(run(options.rounds, options.synchronous))
    print(
        f"SQLite {sqlite3.sqlite_version}, synchronous {options.synchronous}, {options.rounds} rounds"
    )
    print(f"{'':38}{'items/s':>10}{'p50 ms':>9}{'p99 ms':>9}{'CPU us':>9}{'ratio':>8}")
    for row in rows:
        print(
            f"{row.name:38}{row.per_s:10.0f}{row.p50_ms:9.2f}{row.p99_ms:9.2f}{row.cpu_us:9.1f}{row.ratio:8.2f}"
        )
    print(
        "p50 and p99 are of a call; CPU is of this process for one item; ratio is the rate to the raw line's."
    )
    if options.json is not None:
        table = [asdict(row) for row in rows]
        options.json.write_text(
            json.dumps(
                {
                    "sqlite": sqlite3.sqlite_version,
                    **vars(options),
                    "json": str(options.json),
                    "rows": table,
                },
                indent=2,
            )
            + "\n"
        )


if __name__ == "__main__":
    main()
