"""
A scenario's place in a store: on a server that scenarios share, or on one of its own that it may harm.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import sqlite3
import subprocess
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import asyncpg  # type: ignore[import-untyped]  # It ships no types.

import anarchon_testbed as testbed
from anarchon import Backend, RunRecord, StoreUnavailableError, backend_from_url
from anarchon_chaos.counting import Calls, calls_of
from anarchon_chaos.groups import Group, group_of
from anarchon_chaos.stores import StoreKind
from anarchon_testbed.faketime import FakeClock

__all__ = ["PLACES", "Servers", "Store", "opened"]

PLACES = ("shared", "own", "durable", "refusing", "clock", "group", "behind")
"""
What a scenario can ask for: a part of a shared server; a server of its own; one that keeps what it has acknowledged
when it is killed; one that can be made to refuse; one whose clock can be put wrong; a group of servers of which one
takes another's place; such a group that answers before the next to lead has what is answered.
"""

_READ_MS_MAX = 30_000
_OPEN_MS_MAX = 60_000
_PAUSE_S = 0.1
_DISK = "size=2m"


class Servers:
    """
    The servers of a run of scenarios: one of each kind that scenarios share.
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
    One scenario's place.

    Attributes:
        server: Whom the instances reach; None where that is a file, or a group of servers.

        place: The path of the file, or the name that keeps scenarios apart on a server.

        clock: The server's own, where it can be put wrong.

        group: The servers of which one takes another's place, where there are some.

        calls: How many reach the server, where that is counted.
    """

    def __init__(self, kind: StoreKind, *, place: str, url: str) -> None:
        self.kind = kind
        self.place = place
        self.server: testbed.Server | None = None
        self.clock: FakeClock | None = None
        self.group: Group | None = None
        self.calls: Calls | None = None
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
        if port is None:
            return (
                self._url
            )  # Untouched: Python 3.11 would write a URL without a host with fewer slashes.
        parts = urlsplit(self._url)
        login, at, _ = parts.netloc.rpartition("@")
        return parts._replace(netloc=f"{login}{at}127.0.0.1:{port}").geturl()

    def lock(self) -> sqlite3.Connection | None:
        """
        Hold the file's one write lock until what is returned is closed; None where the store is no file.

        Whoever freezes a process meanwhile knows that it is not inside of a transaction, which it would hold.
        """
        if "file" not in self.kind.offers:
            return None
        connection = sqlite3.connect(
            self.place, timeout=30, isolation_level=None, check_same_thread=False
        )
        connection.execute("BEGIN EXCLUSIVE")
        return connection

    async def records(self, jobs: Sequence[str]) -> Sequence[RunRecord]:
        """
        Read the whole history of some jobs, straight from the store, the oldest attempt first.
        """
        async with self._backend() as backend:
            records = [
                record
                for job in jobs
                for record in await backend.history(job, limit=100_000, timeout_ms=_READ_MS_MAX)
            ]
        return sorted(records, key=lambda record: (record.job, record.slot, record.attempt))

    async def time_ms(self) -> int:
        """
        Ask the store for its time.
        """
        async with self._backend() as backend:
            return await backend.time(timeout_ms=_READ_MS_MAX) or 0

    @asynccontextmanager
    async def _backend(self) -> AsyncIterator[Backend]:
        """
        Open a backend of the stage's own. On a busy machine one may give up before its time is over: another begins.
        """
        end_s = time.monotonic() + _OPEN_MS_MAX / 1_000
        while True:
            backend = backend_from_url(self.url())
            try:
                await backend.open(timeout_ms=_READ_MS_MAX)
            except StoreUnavailableError:
                await backend.close()
                if time.monotonic() > end_s:
                    raise
                await asyncio.sleep(_PAUSE_S)  # It may have been refused at once.
                continue
            try:
                yield backend
            finally:
                await backend.close()
            return


@asynccontextmanager
async def opened(
    kind: StoreKind, servers: Servers, folder: Path, *, place: str, counts: bool = False
) -> AsyncIterator[Store]:
    """
    Give a scenario its place, one of `PLACES`.

    Args:
        counts: Have the server count the calls that reach it, where it can; it is one of the scenario's own then.
    """
    async with AsyncExitStack() as stack:
        if kind.server is None:
            yield await _file(kind, folder, stack, small=place == "refusing")
            return
        name = f"c{secrets.token_hex(6)}"
        query = kind.query.format(namespace=name)
        if place in ("group", "behind"):
            group = await stack.enter_async_context(
                group_of(kind.server, name, waits=place == "group")
            )
            store = Store(kind, place=name, url=f"{group.url}&{query}")
            store.group = group
            yield store
            return
        options: dict[str, Any] = {}
        clock = None
        if place == "clock":
            clock = await stack.enter_async_context(FakeClock())
            options["environment"] = clock.environment
        if place == "durable":
            options |= kind.durable or {}
        counted = counts and kind.counting is not None
        options |= (kind.counting or {}) if counted else {}
        if place == "shared" and not counted:
            server = await servers.shared(kind.server)
        else:
            make = getattr(testbed, kind.server)
            server = await stack.enter_async_context(make(own=True, **options))
        url = server.url
        if place == "refusing" and isinstance(server, testbed.PostgresServer):
            url = await _ordinary_user(server)
        store = Store(kind, place=name, url=f"{url}?{query}")
        store.server, store.clock = server, clock
        store.calls = calls_of(server) if counted else None
        yield store


async def _file(kind: StoreKind, folder: Path, stack: AsyncExitStack, *, small: bool) -> Store:
    path = folder / "store" / "jobs.db"
    path.parent.mkdir()
    if small:
        # Only root may mount, so that another user needs a sudo that does not ask.
        rights = [] if os.geteuid() == 0 else ["sudo", "-n"]
        options = f"{_DISK},uid={os.geteuid()},mode=700"
        command = [*rights, "mount", "-t", "tmpfs", "-o", options, "tmpfs", str(path.parent)]
        result = await asyncio.to_thread(
            subprocess.run, command, capture_output=True, text=True, check=False
        )
        if result.returncode:
            raise testbed.ServerUnavailableError(
                f"a small file system cannot be mounted here: {result.stderr.strip()}"
            )
        stack.callback(subprocess.run, [*rights, "umount", str(path.parent)], check=False)
    return Store(kind, place=str(path), url=f"sqlite:///{path}?{kind.query}")


async def _ordinary_user(server: testbed.PostgresServer) -> str:
    """
    Make a user whose rights can be taken away, which a superuser's cannot, and give the URL for it.
    """
    connection = await asyncpg.connect(server.url)
    try:
        await connection.execute("CREATE ROLE chaos LOGIN")
        await connection.execute("GRANT CREATE ON DATABASE postgres TO chaos")
    finally:
        await connection.close()
    return server.url_of("postgres", user="chaos")
