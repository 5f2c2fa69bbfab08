"""
Hints: where notifications arrive, where they do not, and what happens when the listening connection breaks.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

import anarchon_testbed as testbed
from anarchon.backend import ClaimRequest, ReleaseRequest
from anarchon_postgres import PostgresBackend
from anarchon_postgres.driver import connect
from anarchon_postgres.hints import Hints
from anarchon_postgres.session import Session

TIMEOUT_MS = 20_000
SLOW_S = 1.5

Ask = Callable[..., ClaimRequest]
Opened = Callable[..., AbstractAsyncContextManager[PostgresBackend]]

pytestmark = pytest.mark.slow


async def listener_pid(backend: PostgresBackend, ended: asyncio.Event | None = None) -> int:
    """
    Tell the server process that serves the listening connection; *ended* is set when it ends.
    """
    hints = backend._hints
    assert isinstance(hints, Hints)

    async def look(session: Session) -> int:
        if ended is not None:
            session.connection.add_termination_listener(lambda _connection: ended.set())
        return session.connection.get_server_pid()

    return await hints._line.run(look, timeout_ms=TIMEOUT_MS)


async def woken(
    runner: PostgresBackend,
    backup: PostgresBackend,
    ask: Ask,
    between: Callable[[], Awaitable[None]] | None = None,
) -> frozenset[str]:
    """
    Watch a run from one backend, release it from the other, and return what was heard.
    """
    now_ms = await runner.time(timeout_ms=TIMEOUT_MS)
    assert now_ms is not None
    request = ask("job", now_ms)
    await runner.claim([request], timeout_ms=TIMEOUT_MS)
    watch = asyncio.ensure_future(
        backup.next_hint([("job", request.slot, 1)], timeout_ms=TIMEOUT_MS)
    )
    await asyncio.sleep(0)
    # Calls on the listening connection come one at a time: when this one is answered, the watch has looked and idles.
    await listener_pid(backup)
    if between is not None:
        await between()

    assert not watch.done()

    release = ReleaseRequest(job="job", slot=request.slot, attempt=1, token=request.token)
    await runner.release([release], timeout_ms=TIMEOUT_MS)
    return await watch


def test_hints_are_off_behind_a_pooler(
    server: testbed.PostgresServer, opened: Opened, caplog: pytest.LogCaptureFixture
) -> None:
    """
    Where LISTEN would be left on a connection of others, hints are not offered, the log says so once, and a watch ends.
    """

    async def scenario() -> tuple[bool, bool, frozenset[str]]:
        with testbed.pgbouncer(server) as bouncer:
            async with opened(bouncer.url) as backend:
                copy = backend.clone()
                await copy.open(timeout_ms=TIMEOUT_MS)
                heard = await copy.next_hint([("job", 1, 1)], timeout_ms=50)
                await copy.close()
                return backend.capabilities.hints, copy.capabilities.hints, heard

    with caplog.at_level(logging.WARNING, logger="anarchon"):
        offered = asyncio.run(scenario())

    assert (False, False, frozenset()) == offered
    assert 1 == len(caplog.records)
    assert "hints_dsn names the server's own address" in caplog.text


def test_hints_take_a_direct_address(
    server: testbed.PostgresServer, opened: Opened, ask: Ask
) -> None:
    """
    With hints_dsn a release that goes through the pooler wakes a watcher.
    """

    async def scenario() -> tuple[bool, frozenset[str]]:
        with testbed.pgbouncer(server) as bouncer:
            async with (
                opened(bouncer.url, hints_dsn=server.url) as runner,
                opened(bouncer.url, hints_dsn=server.url) as backup,
            ):
                return backup.capabilities.hints, await woken(runner, backup, ask)

    assert (True, frozenset({"job"})) == asyncio.run(scenario())


def test_hints_through_a_pooler_are_tried_where_they_are_named(
    server: testbed.PostgresServer, opened: Opened, caplog: pytest.LogCaptureFixture
) -> None:
    """
    A hints_dsn that itself leads through a pooler in transaction mode is found out: no notification arrives.
    """

    async def scenario() -> bool:
        with testbed.pgbouncer(server) as bouncer:
            async with opened(server.url, hints_dsn=bouncer.url) as backend:
                return backend.capabilities.hints

    assert not asyncio.run(scenario())
    assert "no notification of another connection arrived (LISTEN was accepted)" in caplog.text


def test_a_slow_connection_switches_no_hints_off(opened: Opened) -> None:
    """
    What connecting takes says nothing of what arrives over the connection afterwards.
    """

    async def slowly(dsn: str, **options: Any) -> Any:
        await asyncio.sleep(SLOW_S)  # A connection that takes its time is what is tried.
        return await connect(dsn, **options)

    async def scenario() -> bool:
        async with opened(connect=slowly) as backend:
            return backend.capabilities.hints

    assert asyncio.run(scenario())


def test_a_watch_survives_its_connection(opened: Opened, ask: Ask) -> None:
    """
    The listening connection is ended while it is watched on; the watch goes on over a new one.
    """

    async def scenario() -> tuple[frozenset[str], bool]:
        async with opened() as runner, opened() as backup:
            pids = []

            async def cut() -> None:
                ended = asyncio.Event()
                pids.append(await listener_pid(backup, ended))

                async def end(session: Session) -> None:
                    await session.connection.fetch("SELECT pg_terminate_backend($1)", pids[0])

                await runner._opened().run(end, timeout_ms=TIMEOUT_MS)
                await ended.wait()
                pids.append(await listener_pid(backup))

            heard = await woken(runner, backup, ask, cut)
            return heard, pids[0] != pids[1]

    assert (frozenset({"job"}), True) == asyncio.run(scenario())
