"""
The tables, and how a file comes to have them: versioned steps under the write lock.
"""

from __future__ import annotations

import os
import sqlite3
from urllib.parse import quote

from anarchon.backend import PROTOCOL_VERSION
from anarchon.errors import ProtocolVersionError, ServerTooOldError, StoreRefusedError
from anarchon_sqlite.options import Synchronous
from anarchon_sqlite.place import check_place
from anarchon_sqlite.statements import Statements
from anarchon_sqlite.transaction import BUSY_TIMEOUT_MS, Ticket, insist, write_transaction

__all__ = [
    "SCHEMA_VERSION",
    "SQLITE_MIN",
    "check_sqlite_version",
    "connect",
    "connect_to_read",
    "prepare",
    "prepare_to_read",
]

SCHEMA_VERSION = 2
"""
The schema that this code reads and writes.
"""

SQLITE_MIN = (3, 34, 1)
"""
The oldest SQLite that the tests and the conformance kit have passed on.
"""

_FIRST = (
    # What decides about a job. One row a job, which is never pruned: `high` protects its slots.
    """
    CREATE TABLE {prefix}_jobs (
        job TEXT NOT NULL PRIMARY KEY,
        high INTEGER,
        live_slot INTEGER,
        live_attempt INTEGER,
        live_token TEXT,
        live_instance_id TEXT,
        live_lease_ms INTEGER,
        live_lease_until_ms INTEGER,
        live_lease_clock TEXT,
        live_crashes INTEGER,
        live_previous_high INTEGER,
        skip_slot INTEGER,
        skip_token TEXT,
        skip_previous_high INTEGER,
        fingerprint TEXT,
        zone_digests TEXT,
        since_ms INTEGER,
        records INTEGER NOT NULL
    ) WITHOUT ROWID
    """,
    # The history: one row an attempt.
    """
    CREATE TABLE {prefix}_runs (
        job TEXT NOT NULL,
        slot INTEGER NOT NULL,
        attempt INTEGER NOT NULL,
        token TEXT NOT NULL,
        instance_id TEXT NOT NULL,
        status TEXT NOT NULL,
        reason TEXT,
        claimed_ms INTEGER NOT NULL,
        started_ms INTEGER,
        finished_ms INTEGER,
        error TEXT,
        PRIMARY KEY (job, slot, attempt)
    ) WITHOUT ROWID
    """,
    # For the history of all jobs, and for pruning by age.
    "CREATE INDEX {prefix}_runs_by_slot ON {prefix}_runs (slot DESC, job, attempt DESC)",
)

# When the lease of the unfinished run ends by the clocks of other machines and boots: a JSON object, clock to ms.
_LEASES_ELSEWHERE = ("ALTER TABLE {prefix}_jobs ADD COLUMN live_lease_elsewhere TEXT",)

# Step n leads from schema n to schema n + 1. A step that a release has carried is never edited.
_STEPS: tuple[tuple[str, ...], ...] = (_FIRST, _LEASES_ELSEWHERE)


def check_sqlite_version(version: tuple[int, ...] = sqlite3.sqlite_version_info) -> None:
    """
    Refuse an SQLite that is too old.

    Raises:
        ServerTooOldError: With the version that was found, and the one that is needed.
    """
    if version < SQLITE_MIN:
        found, needed = (".".join(map(str, numbers)) for numbers in (version, SQLITE_MIN))
        msg = f"this Python carries SQLite {found}; SQLite {needed} or newer is needed"
        raise ServerTooOldError(msg)


def connect(path: str) -> sqlite3.Connection:
    """
    Open one connection to the file, whose transactions are begun by hand.

    Raises:
        StoreRefusedError: The file lies where SQLite cannot be shared.
    """
    check_place(path)
    return sqlite3.connect(path, timeout=BUSY_TIMEOUT_MS / 1_000, isolation_level=None)


def connect_to_read(path: str) -> sqlite3.Connection:
    """
    Open one connection to a file that is there; none is made.

    Raises:
        StoreRefusedError: There is no such file, or it lies where SQLite cannot be shared.
    """
    check_place(path)
    if not os.path.exists(path):  # noqa: PTH110 - the path stays the text that the user gave
        msg = f"SQLite file {path} does not exist; a scheduler makes it when it starts"
        raise StoreRefusedError(msg)
    # "ro" would not do: a reader of a file with write-ahead logging may have to make its index anew.
    return sqlite3.connect(
        f"file:{quote(path)}?mode=rw",
        timeout=BUSY_TIMEOUT_MS / 1_000,
        isolation_level=None,
        uri=True,
    )


def prepare_to_read(
    raw: sqlite3.Connection, ticket: Ticket, *, statements: Statements, path: str
) -> None:
    """
    Make sure that a connection never writes, and that there is something to be read.

    Raises:
        StoreRefusedError: The file holds no tables of this prefix.

        ProtocolVersionError: It is of a newer schema or another protocol.
    """
    insist(ticket, lambda: raw.execute("PRAGMA query_only = ON").fetchall())
    table = f"{statements.prefix}_jobs"
    found = insist(
        ticket,
        lambda: raw.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table,)).fetchall(),
    )
    if not found:
        msg = (
            f"SQLite file {path} holds no tables of prefix {statements.prefix!r}; a scheduler makes them when it"
            " starts"
        )
        raise StoreRefusedError(msg)
    insist(ticket, lambda: _version_of(raw, statements, path))


def prepare(
    raw: sqlite3.Connection,
    ticket: Ticket,
    *,
    statements: Statements,
    synchronous: Synchronous,
    path: str,
) -> None:
    """
    Set the connection up, and give the file the tables that it lacks.

    Many processes may do this at once. It takes the write lock, so that a file that
    cannot be written is noticed now and not at the first claim.

    Raises:
        StoreRefusedError: Write-ahead logging does not take here.

        ProtocolVersionError: The file is of a newer schema or another protocol.
    """
    mode = insist(ticket, lambda: raw.execute("PRAGMA journal_mode = WAL").fetchall())[0][0]
    if mode != "wal":
        msg = (
            f"SQLite file {path}: write-ahead logging does not take here (SQLite stays at journal mode {mode!r});"
            " it needs a local file system that lets processes share memory"
        )
        raise StoreRefusedError(msg)
    raw.execute(f"PRAGMA synchronous = {synchronous}").fetchall()
    # On macOS a plain fsync leaves data in the disk's own memory; elsewhere this changes nothing.
    raw.execute(f"PRAGMA fullfsync = {'ON' if synchronous == 'full' else 'OFF'}").fetchall()
    write_transaction(raw, ticket, lambda: _migrate(raw, statements, path))


def _migrate(raw: sqlite3.Connection, statements: Statements, path: str) -> None:
    """
    Take the steps that the file lacks, in one transaction.
    """
    prefix = statements.prefix
    raw.execute(
        f"CREATE TABLE IF NOT EXISTS {prefix}_meta (key TEXT NOT NULL PRIMARY KEY, value TEXT) WITHOUT ROWID"
    )
    version = _version_of(raw, statements, path)
    for step in _STEPS[version:]:
        for statement in step:
            raw.execute(statement.format(prefix=prefix))
    if version < SCHEMA_VERSION:
        raw.execute(statements.write_meta, ("schema_version", str(SCHEMA_VERSION)))
        raw.execute(statements.write_meta, ("protocol_version", str(PROTOCOL_VERSION)))


def _version_of(raw: sqlite3.Connection, statements: Statements, path: str) -> int:
    """
    Tell the schema's version, 0 where there is none yet; refuse one that this code does not know.
    """
    prefix = statements.prefix
    version = _meta(raw, statements, "schema_version") or 0
    protocol = _meta(raw, statements, "protocol_version")
    if version > SCHEMA_VERSION:
        msg = (
            f"SQLite file {path}: the tables of prefix {prefix!r} are of schema {version}, written by a newer"
            f" anarchon-sqlite; this one knows schemas up to {SCHEMA_VERSION}"
        )
        raise ProtocolVersionError(msg)
    if protocol not in (None, PROTOCOL_VERSION):
        msg = (
            f"SQLite file {path}: the tables of prefix {prefix!r} speak protocol {protocol};"
            f" this anarchon-sqlite speaks {PROTOCOL_VERSION}"
        )
        raise ProtocolVersionError(msg)
    return version


def _meta(raw: sqlite3.Connection, statements: Statements, key: str) -> int | None:
    found = raw.execute(statements.read_meta, (key,)).fetchall()
    return int(found[0][0]) if found else None
