"""
Measure what a claim costs on SQLite, against the raw INSERT on a file with the same settings.

    python -m bench.sqlite_store [--rounds N] [--synchronous full|normal] [--json PATH]
"""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path

from anarchon_sqlite import SqliteBackend
from anarchon_sqlite.hop import Hop
from anarchon_sqlite.transaction import Ticket
from bench.claims import TIMEOUT_MS, Claims, batch_target, single_target
from bench.tables import Block, Line, Report, Sizes, arguments_of, measure, measured, sizes_of

RAW = "raw INSERT, one a commit"
HOP = "raw INSERT, one a hop to its thread"
LOOK = "raw SELECT, one a hop to its thread"
INSERT = "INSERT INTO raw VALUES (?, ?, ?)"
CREATE = (
    "CREATE TABLE raw (job TEXT, slot INTEGER, token TEXT, PRIMARY KEY (job, slot)) WITHOUT ROWID"
)

serial = count(1)


def connect(path: Path, synchronous: str) -> sqlite3.Connection:
    """
    Open a file with the settings that the backend uses.
    """
    raw = sqlite3.connect(path, isolation_level=None)
    raw.execute("PRAGMA journal_mode = WAL").fetchall()
    raw.execute(f"PRAGMA synchronous = {synchronous}").fetchall()
    return raw


class Raw:
    """
    The driver alone, in this thread and on a thread of its own, as the backend's is.
    """

    def __init__(self, folder: Path, synchronous: str, sizes: Sizes) -> None:
        self._sizes = sizes
        self._sync = connect(folder / "sync.db", synchronous)
        self._sync.execute(CREATE)
        path = folder / "hop.db"
        connect(path, synchronous).execute(CREATE)
        self._hop = Hop(
            str(path),
            connect=lambda: connect(path, synchronous),
            prepare=lambda _raw, _ticket: None,
        )

    async def open(self) -> None:
        """
        Start the thread.
        """
        await self._hop.start(timeout_ms=TIMEOUT_MS)

    async def close(self) -> None:
        """
        Close everything.
        """
        await self._hop.close()
        self._sync.close()

    @property
    def many(self) -> str:
        """
        What the line of batches is called.
        """
        return f"raw INSERT, {self._sizes.batch} a commit"

    def lines(self) -> list[Line]:
        """
        Name them all.
        """
        return [
            Line(name=RAW, against=HOP, run=self.insert),
            Line(name=HOP, against=HOP, run=self.hop),
            Line(name=LOOK, against=HOP, run=self.look),
            Line(name=self.many, against=self.many, run=self.batch),
        ]

    async def insert(self) -> Block:
        """
        Insert one row a commit, without a thread.
        """

        async def insert() -> None:
            self._sync.execute(INSERT, (f"job-{next(serial)}", 1, "token")).fetchall()

        return await measured([insert] * self._sizes.singles, self._sizes.singles)

    async def hop(self) -> Block:
        """
        Insert one row a commit, on a connection's thread.
        """

        def insert(raw: sqlite3.Connection, _ticket: Ticket) -> None:
            raw.execute(INSERT, (f"job-{next(serial)}", 1, "token")).fetchall()

        call = partial(self._hop.run, insert, timeout_ms=TIMEOUT_MS)
        return await measured([call] * self._sizes.singles, self._sizes.singles)

    async def look(self) -> Block:
        """
        Look for one row in a transaction, on a connection's thread.
        """

        def look(raw: sqlite3.Connection, _ticket: Ticket) -> None:
            raw.execute("BEGIN IMMEDIATE")
            raw.execute("SELECT * FROM raw WHERE job = 'job-1' AND slot = 1").fetchall()
            raw.execute("COMMIT")

        call = partial(self._hop.run, look, timeout_ms=TIMEOUT_MS)
        return await measured([call] * self._sizes.singles, self._sizes.singles)

    async def batch(self) -> Block:
        """
        Insert a batch of rows in one commit, without a thread.
        """

        async def insert() -> None:
            self._sync.execute("BEGIN IMMEDIATE")
            rows = [(f"job-{next(serial)}", 1, "token") for _ in range(self._sizes.batch)]
            self._sync.executemany(INSERT, rows)
            self._sync.execute("COMMIT")

        return await measured([insert], self._sizes.batch)


async def run(sizes: Sizes, synchronous: str = "full") -> Report:
    """
    Measure on files in a folder that is removed at the end.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        raw = Raw(folder, synchronous, sizes)
        await raw.open()
        backend = SqliteBackend(
            folder / "claims.db", synchronous="full" if synchronous == "full" else "normal"
        )
        await backend.open(timeout_ms=TIMEOUT_MS)
        lines = raw.lines() + Claims(backend, sizes).lines(one=HOP, lost=LOOK, many=raw.many)
        rows = await measure(lines, sizes.rounds)
        await raw.close()
        await backend.close()
    title = f"SQLite {sqlite3.sqlite_version}, synchronous {synchronous}"
    report = Report(title=title, sizes=sizes, rows=rows)
    return replace(
        report,
        targets=(
            single_target(report, "won, one a call"),
            single_target(report, "lost, one a call"),
            batch_target(report, "won, one a call", f"won, {sizes.batch} a call"),
        ),
    )


def main() -> None:
    """
    Print the table, and write it as JSON where that is asked for.
    """
    parser = arguments_of(__doc__)
    parser.add_argument("--synchronous", choices=["full", "normal"], default="full")
    options = parser.parse_args()
    report = asyncio.run(run(sizes_of(options), options.synchronous))
    report.show()
    if options.json is not None:
        report.write(options.json)


if __name__ == "__main__":
    main()
