"""
This backend as the conformance kit opens it; only its entry point imports this module.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import sqlite3
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import TypeVar

from anarchon.errors import StoreUnavailableError
from anarchon.records import Retention
from anarchon_conformance.profile import BackendProfile, Line, Opener, Proxy
from anarchon_sqlite.backend import SqliteBackend
from anarchon_sqlite.hop import Hop
from anarchon_sqlite.transaction import Ticket

__all__ = ["opener_for", "profile"]

_FOLDER = "ANARCHON_SQLITE_KIT_FOLDER"
_OPEN_TIMEOUT_MS = 15_000

T = TypeVar("T")


def opener_for(kind: type[SqliteBackend]) -> Opener:
    """
    Return what opens a backend for a namespace: a prefix in the one file of this run.

    All namespaces share the file, so that tables which touch each other show. A
    process that the kit starts inherits the environment, and so finds the same file.
    """

    @asynccontextmanager
    async def opened(
        namespace: str, /, *, retention: Retention | None = None
    ) -> AsyncIterator[SqliteBackend]:
        backend = kind(_folder() / "kit.db", prefix=_prefix(namespace), retention=retention)
        await backend.open(timeout_ms=_OPEN_TIMEOUT_MS)
        try:
            yield backend
        finally:
            await backend.close()

    return opened


def _prefix(namespace: str) -> str:
    return "k" + hashlib.sha256(namespace.encode("utf-8", "surrogatepass")).hexdigest()[:24]


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


class _Lossy(SqliteBackend):
    """
    A backend whose next request, or the reply to it, gets lost on demand.

    There is no wire to cut between a process and a file; what a caller sees of a
    cut one is a call that raises, before or after the store has done it.
    """

    _lost = ""

    def lose_request(self) -> None:
        """
        Let the next request vanish.
        """
        self._lost = "request"

    def lose_reply(self) -> None:
        """
        Let the reply to the next request vanish.
        """
        self._lost = "reply"

    async def _on(
        self, hop: Hop, work: Callable[[sqlite3.Connection, Ticket], T], timeout_ms: int
    ) -> T:
        lost, self._lost = self._lost, ""
        if lost == "request":
            raise StoreUnavailableError("the request was lost")
        result = await super()._on(hop, work, timeout_ms)
        if lost == "reply":
            raise StoreUnavailableError("the reply was lost")
        return result


@asynccontextmanager
async def _open_lossy(namespace: str) -> AsyncIterator[Proxy]:
    backend = _Lossy(_folder() / "kit.db", prefix=_prefix(namespace))
    await backend.open(timeout_ms=_OPEN_TIMEOUT_MS)
    try:
        yield Proxy(backend=backend, loss=backend)
    finally:
        await backend.close()


@asynccontextmanager
async def _open_line(namespace: str) -> AsyncIterator[Line]:
    """
    Open a backend whose file somebody can lock for good: nothing else keeps a file from answering.

    The file is the namespace's own, so that other tests of the run go on.
    """
    path = _folder() / f"{_prefix(namespace)}.db"
    backend = SqliteBackend(path)
    await backend.open(timeout_ms=_OPEN_TIMEOUT_MS)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        try:
            yield Line(
                backend=backend, fall_silent=lambda: other.execute("BEGIN IMMEDIATE").close()
            )
        finally:
            await backend.close()


profile = BackendProfile(
    name="sqlite", open=opener_for(SqliteBackend), proxy=_open_lossy, line=_open_line
)
