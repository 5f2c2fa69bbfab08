"""
The stores that keep leases, each with a URL, and the least that any scheduler would ask of it.

The floor of a store is what three processes do that race for each due slot and nothing
else: no lease, no history, no takeover; all claims of an instant in one round trip.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import anarchon_testbed as testbed

__all__ = ["STORES", "Race", "apart", "racer", "url_of"]

STORES = ("sqlite", "redis", "postgres")

Race = Callable[[Sequence[str], int], Awaitable[list[str]]]


def url_of(store: str, folder: Path) -> str:
    """
    Give the URL of a store, from a server that is started if need be.
    """
    if store == "sqlite":
        return f"sqlite:///{(folder / 'jobs.db').absolute()}"
    return testbed.shared_url(store)


def apart(url: str, name: str) -> str:
    """
    Give the URL of a place of its own in the same store.
    """
    if url.startswith("sqlite:"):
        return f"{url}.{name}"
    return f"{url}{'&' if '?' in url else '?'}{'prefix' if url.startswith('redis') else 'schema'}={name}"


async def racer(url: str) -> Race:
    """
    Give the function that races for the slots of some jobs, and returns what it won.
    """
    if url.startswith("sqlite:"):
        return _sqlite(url.removeprefix("sqlite:///"))
    if url.startswith("redis:"):
        return _redis(url)
    return await _postgres(url)


def _sqlite(path: str) -> Race:
    connection = sqlite3.connect(f"{path}.floor", isolation_level=None, timeout=5)
    connection.execute("PRAGMA journal_mode=WAL").fetchall()
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute(
        "CREATE TABLE IF NOT EXISTS claim(job TEXT, slot INTEGER, PRIMARY KEY(job, slot)) WITHOUT ROWID"
    )

    async def race(jobs: Sequence[str], slot: int) -> list[str]:
        connection.execute("BEGIN IMMEDIATE")
        won = [
            job
            for job in jobs
            if connection.execute("INSERT OR IGNORE INTO claim VALUES(?, ?)", (job, slot)).rowcount
        ]
        connection.execute("COMMIT")
        return won

    return race


def _redis(url: str) -> Race:
    from redis.asyncio import Redis  # noqa: PLC0415 - a worker of another store is to be measured without it

    client = Redis.from_url(url.partition("?")[0])

    async def race(jobs: Sequence[str], slot: int) -> list[str]:
        line = client.pipeline(transaction=False)
        for job in jobs:
            line.execute_command("SET", f"floor:{job}:{slot}", "token", "NX", "EX", 60)
        return [job for job, set_ in zip(jobs, await line.execute(), strict=True) if set_]

    async def race_one(jobs: Sequence[str], slot: int) -> list[str]:
        if len(jobs) > 1:
            return await race(jobs, slot)
        won = await client.set(f"floor:{jobs[0]}:{slot}", "token", nx=True, ex=60)
        return list(jobs) if won else []

    return race_one


async def _postgres(url: str) -> Race:
    from anarchon_postgres.driver import connect  # noqa: PLC0415 - as above

    connection: Any = await connect(url.partition("?")[0])
    # One of the three makes it; the lock lets the others wait.
    await connection.execute(
        "BEGIN; SELECT pg_advisory_xact_lock(7); CREATE TABLE IF NOT EXISTS public.floor_claims"
        " (job text, slot bigint, PRIMARY KEY (job, slot)); COMMIT"
    )

    async def race(jobs: Sequence[str], slot: int) -> list[str]:
        rows = await connection.fetch(
            "INSERT INTO public.floor_claims SELECT job, $2 FROM unnest($1::text[]) AS job ORDER BY job"
            " ON CONFLICT DO NOTHING RETURNING job",
            list(jobs),
            slot,
        )
        return [row["job"] for row in rows]

    return race
