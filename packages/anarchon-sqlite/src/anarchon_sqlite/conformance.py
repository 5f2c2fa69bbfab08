"""
This backend as the conformance kit opens it; only its entry point imports this module.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from anarchon.records import Retention
from anarchon_conformance import BackendProfile

from anarchon_sqlite.backend import SqliteBackend

__all__ = ["backend_for", "profile"]

_FOLDER = "ANARCHON_SQLITE_KIT_FOLDER"
_OPEN_TIMEOUT_MS = 15_000


def backend_for(namespace: str, *, retention: Retention | None = None) -> SqliteBackend:
    """
    Return an unopened backend for a namespace: a prefix in the one file of this run.

    All namespaces share the file, so that tables which touch each other show. A
    process that the kit starts inherits the environment, and so finds the same file.
    """
    prefix = "k" + hashlib.sha256(namespace.encode("utf-8", "surrogatepass")).hexdigest()[:24]
    return SqliteBackend(_folder() / "kit.db", prefix=prefix, retention=retention)


@asynccontextmanager
async def _open(
    namespace: str, *, retention: Retention | None = None
) -> AsyncIterator[SqliteBackend]:
    backend = backend_for(namespace, retention=retention)
    await backend.open(timeout_ms=_OPEN_TIMEOUT_MS)
    try:
        yield backend
    finally:
        await backend.close()


def _folder() -> Path:
    """
    Make a folder for this run, which its first process removes at its end.
    """
    known = os.environ.get(_FOLDER)
    if known is None:
        known = tempfile.mkdtemp(prefix="anarchon-sqlite-")
        os.environ[_FOLDER] = known
        atexit.register(shutil.rmtree, known, ignore_errors=True)
    return Path(known)


profile = BackendProfile(name="sqlite", open=_open)
