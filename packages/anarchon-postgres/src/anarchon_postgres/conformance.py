"""
This backend as the conformance kit opens it; only its entry points import this module.

The server is the one whose URL the environment gives (ANARCHON_TEST_POSTGRES_URL),
else one that the project's testbed starts, where it is installed.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import hashlib
import os
import secrets
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

from anarchon.records import Retention
from anarchon_conformance.profile import BackendProfile, Opener, ProfileError
from anarchon_conformance.relay import CHUNK_BYTES, Relay, relaying, through
from anarchon_postgres.backend import PostgresBackend
from anarchon_postgres.driver import connect
from anarchon_postgres.schema import quoted

__all__ = ["any_server", "oldest", "opener_for", "pooled", "profile"]

_GIVEN = "ANARCHON_TEST_POSTGRES_URL"
_POOLED = "ANARCHON_POSTGRES_KIT_POOLED_URL"
_RUN = "ANARCHON_POSTGRES_KIT_RUN"
_OLDEST = "15"
_OPEN_TIMEOUT_MS = 15_000
_PORT = 5432

_HEADER_BYTES = 5
"""
A message of the server is its kind, a length of four bytes that counts itself, and a body.
"""

_Find = Callable[[], str]


def any_server() -> str:
    """
    Find the server of a run of the kit, and give its DSN.

    Raises:
        ProfileError: The environment names none, and there is no testbed to start one.
    """
    return os.environ.get(_GIVEN) or _shared(None)


def opener_for(kind: type[PostgresBackend], find: _Find = any_server) -> Opener:
    """
    Return what opens a backend for a namespace: a schema in the one database of this run.

    A process that the kit starts inherits the environment, and so finds the same one.
    """

    @asynccontextmanager
    async def opened(
        namespace: str, /, *, retention: Retention | None = None
    ) -> AsyncIterator[PostgresBackend]:
        backend = kind(find(), schema=_schema(namespace), retention=retention)
        await backend.open(timeout_ms=_OPEN_TIMEOUT_MS)
        try:
            yield backend
        finally:
            await backend.close()

    return opened


def _oldest_server() -> str:
    return os.environ.get(f"ANARCHON_TEST_POSTGRES_{_OLDEST}_URL") or _shared(_OLDEST)


def _testbed() -> Any:
    try:
        return import_module("anarchon_testbed")
    except ImportError as error:
        msg = f"no server to test: {_GIVEN} is not set, and anarchon-testbed is not installed"
        raise ProfileError(msg) from error


def _shared(version: str | None) -> str:
    url = _testbed().shared_url("postgres", version)
    assert isinstance(url, str)
    return url


def _behind_pooler() -> str:
    """
    Start a server and a PgBouncer in transaction mode before it, for this process and those that it starts.
    """
    if url := os.environ.get(_POOLED):
        return url
    testbed, stack = _testbed(), contextlib.ExitStack()
    server = stack.enter_context(testbed.postgres(own=True))
    bouncer = stack.enter_context(testbed.pgbouncer(server))
    atexit.register(_end, stack, os.getpid())
    os.environ[_POOLED] = bouncer.url
    return os.environ[_POOLED]


def _end(stack: contextlib.ExitStack, owner: int) -> None:
    # A forked process runs this too when it ends; the servers are not its own.
    if os.getpid() == owner:
        stack.close()


def _schema(namespace: str) -> str:
    """
    Name the schema of a namespace. On a server that was given, the run's first process removes them at its end.
    """
    run = os.environ.get(_RUN)
    if run is None:
        run = f"kit_{secrets.token_hex(4)}_"
        os.environ[_RUN] = run
        if dsn := os.environ.get(_GIVEN):
            atexit.register(_drop, dsn, run, os.getpid())
    return run + hashlib.sha256(namespace.encode("utf-8", "surrogatepass")).hexdigest()[:24]


def _drop(dsn: str, run: str, owner: int) -> None:
    if os.getpid() == owner:
        with contextlib.suppress(Exception):
            asyncio.run(_drop_schemas(dsn, run))


async def _drop_schemas(dsn: str, run: str) -> None:
    connection = await connect(dsn, timeout=5, statement_cache_size=0)
    try:
        found = await connection.fetch(
            "SELECT nspname FROM pg_namespace WHERE starts_with(nspname, $1)", run
        )
        # One at a time: all in one transaction would need more locks than a server has by default.
        for row in found:
            await connection.execute(f"DROP SCHEMA {quoted(row['nspname'])} CASCADE")
    finally:
        await connection.close(timeout=5)


class _PostgresRelay(Relay):
    """
    Loses the next request, or what the server answers once it has committed it.
    """

    def __init__(self, host: str, port: int) -> None:
        super().__init__(host, port)
        self._lose_request = False
        self._lose_reply = False

    def lose_request(self) -> None:
        """
        Let the next request vanish before the store sees it.
        """
        self._lose_request = True

    def lose_reply(self) -> None:
        """
        Let the store commit the next request, and let its reply vanish.
        """
        self._lose_reply = True

    async def requests(self, reader: StreamReader, writer: StreamWriter) -> None:
        """
        Carry what a client sends, up to the request that is to be lost.
        """
        while data := await reader.read(CHUNK_BYTES):
            if self._lose_request and not self.silent:
                self._lose_request = False
                return
            await self.send(writer, data)

    async def replies(self, reader: StreamReader, writer: StreamWriter) -> None:
        """
        Pass messages on, up to the rows of a reply that is to be lost.

        The server says that it is ready (Z) once it has committed; only then does the
        connection break.
        """
        withheld = False
        while True:
            header = await reader.readexactly(_HEADER_BYTES)
            body = await reader.readexactly(int.from_bytes(header[1:], "big") - 4)
            kind = header[:1]
            if self._lose_reply and kind in (b"D", b"C"):
                self._lose_reply = False
                withheld = True
            if withheld and kind == b"Z":
                return
            if not withheld:
                await self.send(writer, header + body)


def _profile(name: str, find: _Find) -> BackendProfile:
    @asynccontextmanager
    async def near(namespace: str) -> AsyncIterator[tuple[PostgresBackend, _PostgresRelay]]:
        parts = urlsplit(find())
        server = parts.hostname or "127.0.0.1", parts.port or _PORT
        async with relaying(_PostgresRelay(*server)) as relay:
            login, at, _ = parts.netloc.rpartition("@")
            # The relay reads the messages that it loses, so that they cannot be encrypted.
            place = parts._replace(
                netloc=f"{login}{at}127.0.0.1:{relay.port}", query="sslmode=disable"
            )
            backend = PostgresBackend(place.geturl(), schema=_schema(namespace))
            await backend.open(timeout_ms=_OPEN_TIMEOUT_MS)
            try:
                yield backend, relay
            finally:
                await backend.close()

    proxy, line = through(near)
    return BackendProfile(
        name=name,
        open=opener_for(PostgresBackend, find),
        proxy=proxy,
        line=line,
    )


profile = _profile("postgres", any_server)
oldest = _profile(f"postgres-{_OLDEST}", _oldest_server)
pooled = _profile("postgres-pooled", _behind_pooler)
