"""
What endangers a file, and which jobs it knows.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator

from anarchon.operating import Finding, KnownJob, Severity
from anarchon.protocol.state import rebase, view
from anarchon_sqlite.batch import Tables
from anarchon_sqlite.options import Synchronous
from anarchon_sqlite.place import file_system_of, read_mounts
from anarchon_sqlite.rows import state_of
from anarchon_sqlite.transaction import Ticket, insist

__all__ = ["look_at_file", "place_finding", "read_known_jobs"]

_FREE_BYTES_MIN = 64 * 2**20
_LOG_BYTES_MAX = 64 * 2**20
_CHECKED_BYTES_MAX = 64 * 2**20
_IN_MEMORY = ("ramfs", "tmpfs")


def read_known_jobs(raw: sqlite3.Connection, ticket: Ticket, *, tables: Tables) -> list[KnownJob]:
    """
    Read every job, in the order of the names.
    """
    rows = insist(ticket, lambda: raw.execute(tables.statements.read_all_jobs).fetchall())
    now = tables.now(raw)
    known = []
    for row in rows:
        state = rebase(state_of(row), now)
        known.append(
            KnownJob(
                job=row[0],
                high=state.high,
                since_ms=state.since_ms,
                fingerprint=state.fingerprint,
                zone_digests=state.zone_digests,
                run=None if state.live is None else view(state.live, now),
            )
        )
    return known


def look_at_file(
    raw: sqlite3.Connection, ticket: Ticket, *, path: str, synchronous: Synchronous
) -> list[Finding]:
    """
    Look at the file, its place and its settings.
    """
    return [
        Finding(
            check="server", severity=Severity.FINE, message=f"SQLite {sqlite3.sqlite_version}."
        ),
        _journal(insist(ticket, lambda: raw.execute("PRAGMA journal_mode").fetchall())[0][0]),
        _synchronous(synchronous),
        place_finding(file_system_of(os.path.realpath(path), read_mounts())),
        *_room(path),
        *_damage(raw, ticket, path),
    ]


def place_finding(kind: str | None) -> Finding:
    """
    Judge the type of the file system that the file lies on; None where nothing tells it.
    """
    if kind in _IN_MEMORY:
        return Finding(
            check="place",
            severity=Severity.WARNING,
            message=f"The file lies in memory ({kind}): after a reboot nothing is known of any slot.",
            advice="Keep the file on a disk, unless a reboot may start everything anew.",
        )
    if kind == "overlay":
        return Finding(
            check="place",
            severity=Severity.WARNING,
            message="The file lies in a container's own layer (overlay): it goes with the container, and no other"
            " container sees it.",
            advice="Put the file on a volume that all instances of this host mount.",
        )
    return Finding(
        check="place",
        severity=Severity.FINE,
        message=f"The file lies on a local file system ({kind or 'of a type that is not told'}).",
    )


def _journal(mode: str) -> Finding:
    if mode == "wal":
        return Finding(
            check="journal",
            severity=Severity.FINE,
            message="Write-ahead logging is on (journal mode wal).",
        )
    return Finding(
        check="journal",
        severity=Severity.WARNING,
        message=f"The journal mode is {mode!r}: whoever reads the file blocks claims, and the other way round.",
        advice="Something other than a scheduler has changed it. A scheduler that starts turns write-ahead logging on"
        " again; keep other programs from changing the file's journal mode.",
    )


def _synchronous(synchronous: Synchronous) -> Finding:
    if synchronous == "full":
        return Finding(
            check="durability",
            severity=Severity.FINE,
            message="Commits are on the disk before they are answered (synchronous full).",
        )
    return Finding(
        check="durability",
        severity=Severity.WARNING,
        message="With synchronous normal the last commits may be forgotten when the power fails, and a slot that they"
        " recorded may run again. The end of a process forgets nothing.",
        advice="Leave synchronous at 'full', unless every handler may run twice for a slot.",
    )


def _room(path: str) -> Iterator[Finding]:
    free = shutil.disk_usage(os.path.dirname(path)).free  # noqa: PTH120 - the path stays the text that the user gave
    if free < _FREE_BYTES_MIN:
        yield Finding(
            check="space",
            severity=Severity.WARNING,
            message=f"{free // 2**20} MiB are free where the file lies; without room no slot is claimed.",
            advice="Free some space, or keep fewer records (retention).",
        )
    else:
        yield Finding(
            check="space", severity=Severity.FINE, message=f"{free // 2**20} MiB are free."
        )
    log_bytes = _size(f"{path}-wal")
    if log_bytes > _LOG_BYTES_MAX:
        yield Finding(
            check="log",
            severity=Severity.WARNING,
            message=f"The write-ahead log has grown to {log_bytes // 2**20} MiB: some connection keeps a transaction"
            " open, so that the log cannot be taken into the file.",
            advice="Find the program that reads the file without ending its transaction, and end it.",
        )


def _damage(raw: sqlite3.Connection, ticket: Ticket, path: str) -> Iterator[Finding]:
    """
    Let SQLite check the file, where that takes a moment only.
    """
    if _size(path) > _CHECKED_BYTES_MAX:
        return
    found = insist(ticket, lambda: raw.execute("PRAGMA quick_check(1)").fetchall())[0][0]
    if found != "ok":
        yield Finding(
            check="damage",
            severity=Severity.PROBLEM,
            message=f"The file is damaged: {found}.",
            advice="Restore it from a backup, or move it away and let the schedulers start anew.",
        )


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size  # noqa: PTH116 - the path stays the text that the user gave
    except OSError:
        return 0
