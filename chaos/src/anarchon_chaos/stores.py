"""
The stores that faults are tried on: what each offers, how its server is had, and how a scenario gets a place in it.
"""

from __future__ import annotations

import asyncio
import secrets
import sqlite3
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import anarchon_testbed as testbed
from anarchon import RunRecord, backend_from_url

__all__ = ["STORES", "Servers", "Store", "StoreKind", "named", "opened"]

_READ_MS_MAX = 30_000
_SSL_REQUEST = b"\x00\x00\x00\x08\x04\xd2\x16\x2f"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreKind:
    """
    One backend: the server it needs, the query that makes a backend URL of the server's, and what it offers.

    ``offers`` has "leases", "network" (faults of the wire and of the server make sense), and the server's own name.
    ``durable`` are the options under which its server keeps what it has acknowledged when it is killed. A ``sibling``
    is so like another one that the bounded set has only a few scenarios on it.
    """

    name: str
    server: str | None
    query: str
    offers: frozenset[str]
    hello: bytes = b""
    long_hello: bytes = b""
    durable: Mapping[str, Any] | None = None
    sibling: bool = False

    @property
    def leases(self) -> bool:
        """
        Whether it keeps leases, so that runs are taken over.
        """
        return "leases" in self.offers


def _startup(user: str) -> bytes:
    """
    Write what a client of PostgreSQL begins with; the answer to a user who is unknown is one too.
    """
    body = b"\x00\x03\x00\x00user\x00" + user.encode() + b"\x00\x00"
    return (len(body) + 4).to_bytes(4) + body


def _redis(name: str, strategy: str, *, server: str = "redis", sibling: bool = False) -> StoreKind:
    offers = {"network", server} | ({"leases"} if strategy == "lease" else set())
    return StoreKind(
        name=name,
        server=server,
        query=f"strategy={strategy}&prefix={{namespace}}",
        offers=frozenset(offers),
        hello=b"PING\r\n",
        long_hello=b"PING\r\n" * 60,
        durable={"appendonly": True, "appendfsync": "always"},
        sibling=sibling,
    )


STORES = (
    StoreKind(name="sqlite", server=None, query="", offers=frozenset({"leases", "file"})),
    _redis("redis-lease", "lease"),
    _redis("valkey-lease", "lease", server="valkey", sibling=True),
    StoreKind(
        name="postgres",
        server="postgres",
        query="schema={namespace}",
        offers=frozenset({"leases", "network", "postgres"}),
        hello=_SSL_REQUEST,
        long_hello=_startup("chaos" * 80),
        durable={"durable": True},
    ),
    _redis("redis-script", "script"),
    _redis("redis-stream-id", "stream-id", sibling=True),
    _redis("redis-idmp", "idmp", sibling=True),
)


def named(name: str) -> StoreKind:
    """
    Find a store by its name.

    Raises:
        KeyError: There is none, and these are.
    """
    for kind in STORES:
        if kind.name == name:
            return kind
    known = ", ".join(kind.name for kind in STORES)
    raise KeyError(f"there is no store {name}; there are {known}")


class Servers:
    """
    The servers of a run of scenarios: one of each kind that scenarios share, and the Toxiproxy.
    """

    def __init__(self) -> None:
        self._stack = AsyncExitStack()
        self._shared: dict[str, testbed.Server] = {}
        self._lock = asyncio.Lock()

    async def shared(self, kind: str) -> testbed.Server:
        """
        Give the server of a kind that no scenario may harm.
        """
        async with self._lock:
            if kind not in self._shared:
                make = getattr(testbed, kind)
                self._shared[kind] = await self._stack.enter_async_context(make(own=True))
        return self._shared[kind]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()


class Store:
    """
    One scenario's place in a store. ``server`` is None where the store is a file.
    """

    def __init__(
        self, kind: StoreKind, *, server: testbed.Server | None, place: str, url: str
    ) -> None:
        self.kind = kind
        self.server = server
        self.place = place
        self._url = url

    @property
    def upstream(self) -> tuple[str, int]:
        """
        Where the server listens.
        """
        assert self.server is not None
        return self.server.host, self.server.port

    def url(self, port: int | None = None) -> str:
        """
        Give the backend URL, past a proxy that listens on *port*, or straight.
        """
        parts = urlsplit(self._url)
        if port is not None:
            login, at, _ = parts.netloc.rpartition("@")
            parts = parts._replace(netloc=f"{login}{at}127.0.0.1:{port}")
        return parts.geturl()

    def lock(self) -> sqlite3.Connection | None:
        """
        Hold the file's one write lock until what is returned is closed; None where the store is no file.

        Whoever freezes a process meanwhile knows that it is not inside of a transaction, which it would hold.
        """
        if self.server is not None:
            return None
        connection = sqlite3.connect(
            self.place, timeout=30, isolation_level=None, check_same_thread=False
        )
        connection.execute("BEGIN EXCLUSIVE")
        return connection

    async def records(self) -> Sequence[RunRecord]:
        """
        Read the whole history, straight from the store, the oldest attempt first.
        """
        backend = backend_from_url(self.url())
        await backend.open(timeout_ms=_READ_MS_MAX)
        try:
            records = await backend.history(None, limit=10_000, timeout_ms=_READ_MS_MAX)
        finally:
            await backend.close()
        return sorted(records, key=lambda record: (record.job, record.slot, record.attempt))


@asynccontextmanager
async def opened(
    kind: StoreKind, servers: Servers, folder: Path, *, own: Mapping[str, Any] | None
) -> AsyncIterator[Store]:
    """
    Give a scenario its place: on a server of its own where *own* has options for one, else on the shared one.
    """
    namespace = f"c{secrets.token_hex(6)}"
    if kind.server is None:
        place = folder / "store" / "jobs.db"
        place.parent.mkdir()
        yield Store(kind, server=None, place=str(place), url=f"sqlite:///{place}")
        return
    async with AsyncExitStack() as stack:
        if own is None:
            server = await servers.shared(kind.server)
        else:
            make = getattr(testbed, kind.server)
            server = await stack.enter_async_context(make(own=True, **own))
        query = kind.query.format(namespace=namespace)
        yield Store(kind, server=server, place=namespace, url=f"{server.url}?{query}")
