"""
Measure what a claim costs on PostgreSQL, beside the raw round trip and the raw INSERT of the same client.

    python -m bench.postgres_store [--rounds N] [--dsn DSN | --version 18] [--no-fsync] [--pooled] [--json PATH]

Without --dsn the testbed starts a server that waits for the disk at each commit, as a server should.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import count

import anarchon_testbed as testbed
from anarchon_postgres import PostgresBackend
from anarchon_postgres.driver import Connection, connect
from bench.claims import TIMEOUT_MS, Claims, batch_target, single_target
from bench.tables import Block, Line, Report, Sizes, arguments_of, measure, measured, sizes_of

SELECT = "raw SELECT 1, one a call"
INSERT = "raw INSERT, one a call"
INSERT_ONE = "INSERT INTO {schema}.raw VALUES ($1, $2, $3) ON CONFLICT DO NOTHING"
INSERT_MANY = (
    "INSERT INTO {schema}.raw SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[])"
    " ON CONFLICT DO NOTHING"
)

serial = count(1)


class Raw:
    """
    The client alone, with a table of its own.
    """

    def __init__(self, connection: Connection, schema: str, sizes: Sizes) -> None:
        self._connection = connection
        self._schema = schema
        self._sizes = sizes

    @property
    def many(self) -> str:
        """
        What the line of batches is called.
        """
        return f"raw INSERT, {self._sizes.batch} a call"

    def lines(self) -> list[Line]:
        """
        Name them all.
        """
        return [
            Line(name=SELECT, against=INSERT, run=self.select),
            Line(name=INSERT, against=INSERT, run=self.insert),
            Line(name=self.many, against=self.many, run=self.insert_many),
        ]

    async def select(self) -> Block:
        """
        Make the round trip that asks for nothing.
        """
        call = partial(self._connection.fetch, "SELECT 1")
        return await measured([call] * self._sizes.singles, self._sizes.singles)

    async def insert(self) -> Block:
        """
        Insert one row a call.
        """
        sql = INSERT_ONE.format(schema=self._schema)
        calls = [
            partial(self._connection.fetch, sql, f"job-{next(serial)}", 1, "token")
            for _ in range(self._sizes.singles)
        ]
        return await measured(calls, len(calls))

    async def insert_many(self) -> Block:
        """
        Insert a batch of rows in one statement.
        """
        size = self._sizes.batch
        jobs = [f"job-{next(serial)}" for _ in range(size)]
        sql = INSERT_MANY.format(schema=self._schema)
        call = partial(self._connection.fetch, sql, jobs, [1] * size, ["token"] * size)
        return await measured([call], size)


async def run(dsn: str, sizes: Sizes, *, pooled: bool = False, fsync: bool = True) -> Report:
    """
    Measure in a schema of its own, which is removed at the end.
    """
    schema = f"bench_{os.getpid()}"
    backend = PostgresBackend(dsn, schema=schema)
    await backend.open(timeout_ms=TIMEOUT_MS)
    # The driver's own statement cache does not work behind a pooler.
    connection = await connect(dsn, **({"statement_cache_size": 0} if pooled else {}))
    await connection.execute(
        f"CREATE TABLE {schema}.raw (job text, slot bigint, token text, PRIMARY KEY (job, slot))"
    )
    raw = Raw(connection, schema, sizes)
    lines = raw.lines() + Claims(backend, sizes).lines(one=INSERT, lost=SELECT, many=raw.many)
    rows = await measure(lines, sizes.rounds)
    title = f"{backend.service.partition(' at ')[0]}, fsync {'on' if fsync else 'off'}"
    await backend.close()
    await connection.execute(f"DROP SCHEMA {schema} CASCADE")
    await connection.close(timeout=5)
    report = Report(
        title=f"{title}{', behind PgBouncer' if pooled else ''}", sizes=sizes, rows=rows
    )
    return replace(
        report,
        targets=(
            single_target(report, "won, one a call"),
            single_target(report, "lost, one a call"),
            batch_target(report, "won, one a call", f"won, {sizes.batch} a call"),
        ),
    )


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
    parser = arguments_of(__doc__)
    parser.add_argument("--dsn")
    parser.add_argument("--version")
    parser.add_argument("--fsync", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--pooled", action="store_true")
    options = parser.parse_args()
    with server_of(options) as dsn:
        report = asyncio.run(
            run(dsn, sizes_of(options), pooled=options.pooled, fsync=options.fsync)
        )
    report.show()
    if options.json is not None:
        report.write(options.json)


if __name__ == "__main__":
    main()
