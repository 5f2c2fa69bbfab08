"""
This backend as the conformance kit opens it; only its entry point imports this module.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import hashlib
import os
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from anarchon.records import Retention
from anarchon_conformance.profile import BackendProfile, Opener, ProfileError, Proxy
from anarchon_postgres.backend import PostgresBackend
from anarchon_postgres.driver import connect
from anarchon_postgres.relay import relay_to
from anarchon_postgres.schema import quoted

__all__ = ["opener_for", "profile"]

_DSN = "ANARCHON_TEST_POSTGRES_URL"
_RUN = "ANARCHON_POSTGRES_KIT_RUN"
_OPEN_TIMEOUT_MS = 15_000
_PORT = 5432


def opener_for(kind: type[PostgresBackend]) -> Opener:
    """
    Return what opens a backend for a namespace: a schema in the database of this run.

    A process that the kit starts inherits the environment, and so finds the same one.
    """

    @asynccontextmanager
    async def opened(
        namespace: str, /, *, retention: Retention | None = None
    ) -> AsyncIterator[PostgresBackend]:
        backend = kind(_dsn(), schema=_schema(namespace), retention=retention)
        await backend.open(timeout_ms=_OPEN_TIMEOUT_MS)
        try:
            yield backend
        finally:
            await backend.close()

    return opened


def _dsn() -> str:
    known = os.environ.get(_DSN)
    if known is None:
        msg = f"set {_DSN} to the DSN of a database in which the kit may make schemas"
        raise ProfileError(msg)
    return known


def _schema(namespace: str) -> str:
    """
    Name the schema of a namespace; the run's first process removes all of them at its end.
    """
    run = os.environ.get(_RUN)
    if run is None:
        run = f"kit_{secrets.token_hex(4)}_"
        os.environ[_RUN] = run
        atexit.register(_drop, run)
    return run + hashlib.sha256(namespace.encode("utf-8", "surrogatepass")).hexdigest()[:24]


def _drop(run: str) -> None:
    with contextlib.suppress(Exception):
        asyncio.run(_drop_schemas(run))


async def _drop_schemas(run: str) -> None:
    connection = await connect(_dsn(), timeout=5, statement_cache_size=0)
    try:
        found = await connection.fetch(
            "SELECT nspname FROM pg_namespace WHERE starts_with(nspname, $1)", run
        )
        # One at a time: all in one transaction would need more locks than a server has by default.
        for row in found:
            await connection.execute(f"DROP SCHEMA {quoted(row['nspname'])} CASCADE")
    finally:
        await connection.close(timeout=5)


@asynccontextmanager
async def _open_lossy(namespace: str) -> AsyncIterator[Proxy]:
    parts = urlsplit(_dsn())
    async with relay_to(parts.hostname or "127.0.0.1", parts.port or _PORT) as (relay, port):
        login = parts.netloc.rpartition("@")[0]
        netloc = f"{login}@127.0.0.1:{port}" if login else f"127.0.0.1:{port}"
        # The relay reads the messages that it loses.
        dsn = parts._replace(netloc=netloc, query="sslmode=disable").geturl()
        backend = PostgresBackend(dsn, schema=_schema(namespace))
        await backend.open(timeout_ms=_OPEN_TIMEOUT_MS)
        try:
            yield Proxy(backend=backend, loss=relay)
        finally:
            await backend.close()


profile = BackendProfile(name="postgres", open=opener_for(PostgresBackend), proxy=_open_lossy)
