"""
SQLite's errors in the protocol's words: what may pass, and what will not.
"""

from __future__ import annotations

import os
import sqlite3

from anarchon.errors import BackendError, StoreRefusedError, StoreUnavailableError

__all__ = ["is_broken", "is_busy", "store_error"]

_BUSY = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}

# After these the same call may succeed, and whether this one did is not always known.
_MAY_PASS = {
    *_BUSY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_INTERRUPT,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_PROTOCOL,
}

# After these a new connection is worth a try: the old one may hold on to something that has gone.
_BROKEN = {
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_NOTADB,
    sqlite3.SQLITE_PROTOCOL,
    sqlite3.SQLITE_READONLY,
}

_EXPLAINED = {
    sqlite3.SQLITE_FULL: "there is no room left; nothing was changed, and free space lifts it",
    sqlite3.SQLITE_READONLY: "this process may not write the file, its directory or the files beside it (-wal, -shm)",
    sqlite3.SQLITE_NOTADB: "this file is no SQLite database; name another one",
    sqlite3.SQLITE_CORRUPT: "the file is damaged; restore it from a backup, or name another one",
    sqlite3.SQLITE_BUSY: "another connection kept the file locked",
    sqlite3.SQLITE_IOERR: "the file system failed",
}


def is_busy(error: sqlite3.Error) -> bool:
    """
    Say whether somebody else holds the lock, which waiting cures.
    """
    return _code(error) in _BUSY


def is_broken(error: sqlite3.Error) -> bool:
    """
    Say whether the connection should be given up with the call.
    """
    return _code(error) in _BROKEN


def store_error(error: sqlite3.Error, path: str) -> BackendError:
    """
    Turn SQLite's error into one of the protocol's, with SQLite's own words in it.
    """
    code = _code(error)
    words = str(error)
    name = getattr(error, "sqlite_errorname", None)
    if name is not None:
        words = f"{words} ({name})"
    explained = _EXPLAINED.get(code)
    if code == sqlite3.SQLITE_CANTOPEN and _forbidden(path):
        return StoreRefusedError(
            f"SQLite file {path}: {words}; this process may not read or create it"
        )
    text = f"SQLite file {path}: {words}" + ("" if explained is None else f"; {explained}")
    return StoreUnavailableError(text) if code in _MAY_PASS else StoreRefusedError(text)


def _forbidden(path: str) -> bool:
    """
    Say whether the rights of files are in the way, by the effective user.
    """
    if os.path.exists(path):  # noqa: PTH110 - the path stays the text that the user gave
        return not os.access(path, os.R_OK, effective_ids=os.access in os.supports_effective_ids)
    folder = os.path.dirname(path)  # noqa: PTH120 - the same
    return not os.access(
        folder, os.W_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids
    )


def _code(error: sqlite3.Error) -> int:
    """
    Return the primary result code; 0 for an error of Python's own module.
    """
    code: int = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF
