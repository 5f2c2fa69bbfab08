"""
What refuses, what fails, and the words that are told: the server's own, and the way out.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from asyncpg import TooManyConnectionsError  # type: ignore[import-untyped]  # asyncpg ships no type information

import anarchon_testbed as testbed
from anarchon.backend import ClaimAnswer, ClaimRequest, Verdict
from anarchon.errors import (
    BackendError,
    ServerTooOldError,
    StoreRefusedError,
    StoreUnavailableError,
)
from anarchon_postgres import PostgresBackend
from anarchon_postgres import session as sessions
from anarchon_postgres.driver import connect
from anarchon_postgres.trouble import store_error

TIMEOUT_MS = 20_000

Ask = Callable[..., ClaimRequest]
Opened = Callable[..., AbstractAsyncContextManager[PostgresBackend]]

pytestmark = pytest.mark.slow


def refusal(dsn: str, *, kind: type[BackendError], **options: Any) -> str:
    """
    Open a backend that cannot be opened, and return what is told.
    """

    async def scenario() -> str:
        backend = PostgresBackend(dsn, **options)
        with pytest.raises(kind) as caught:
            await backend.open(timeout_ms=TIMEOUT_MS)
        await backend.close()
        return str(caught.value)

    return asyncio.run(scenario())


async def executed(dsn: str, *statements: str) -> None:
    """
    Run statements as the server's owner does, from outside.
    """
    connection = await connect(dsn, statement_cache_size=0)
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close(timeout=5)


def test_a_wrong_password_is_refused() -> None:
    """
    The server's words, without the password.
    """
    with testbed.postgres(password="right") as server:
        told = refusal(
            server.url_of("postgres", user="postgres", password="wr0ng"), kind=StoreRefusedError
        )

    assert 'password authentication failed for user "postgres"' in told
    assert "look at user, password and pg_hba.conf" in told
    assert "wr0ng" not in told


def test_a_missing_database_or_user_is_refused(shared_dsn: str) -> None:
    """
    Both are told by name.
    """
    base = shared_dsn.rpartition("/")[0]
    database = refusal(f"{base}/nowhere", kind=StoreRefusedError)
    user = refusal(base.replace("postgres@", "nobody@") + "/postgres", kind=StoreRefusedError)

    assert 'database "nowhere" does not exist' in database
    assert "create it, or name another one" in database
    assert 'role "nobody" does not exist' in user


def test_a_server_that_is_not_there_is_unavailable() -> None:
    """
    Nobody listens: that may pass.
    """
    with testbed.postgres(own=True) as server:
        server.stop_now()
        told = refusal(server.url, kind=StoreUnavailableError)

    assert f"PostgreSQL at {server.host}:{server.port}/postgres" in told


def test_a_setting_that_the_server_does_not_know_is_refused(shared_dsn: str) -> None:
    """
    What a DSN says beyond the driver's own words becomes a setting of the server's.
    """
    told = refusal(f"{shared_dsn}?schema=jobs", kind=StoreRefusedError)

    assert 'unrecognized configuration parameter "schema"' in told
    assert "none of the server's" in told


def test_a_word_that_the_driver_refuses_is_refused(shared_dsn: str) -> None:
    """
    The driver's own words are passed on.
    """
    told = refusal(f"{shared_dsn}?sslmode=perhaps", kind=StoreRefusedError)

    assert "sslmode" in told


def test_an_old_server_is_refused(shared_dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    With the version that was found, and the one that is needed.
    """
    monkeypatch.setattr(sessions, "SERVER_MIN", 99)
    told = refusal(shared_dsn, kind=ServerTooOldError)

    assert "is version " in told
    assert "PostgreSQL 99 or newer is needed" in told


def test_a_database_that_cannot_hold_every_name_is_refused(
    server: testbed.PostgresServer,
) -> None:
    """
    Another encoding than UTF-8 would make names into errors later.
    """
    asyncio.run(executed(server.url, "CREATE DATABASE old ENCODING 'SQL_ASCII' TEMPLATE template0"))
    told = refusal(server.url_of("old"), kind=StoreRefusedError)

    assert "encoding is SQL_ASCII" in told
    assert "ENCODING 'UTF8'" in told


def test_a_standby_is_refused(server: testbed.PostgresServer) -> None:
    """
    A server that only follows another one cannot grant anything.
    """
    server.stop_now()
    signal = server.folder / "db" / "standby.signal"
    signal.touch()
    signal.chmod(0o644)
    server.start_now()
    told = refusal(server.url, kind=StoreRefusedError)

    assert "is a standby; name the primary" in told


def test_a_server_that_becomes_read_only_is_reported_and_goes_on(
    server: testbed.PostgresServer, opened: Opened, ask: Ask
) -> None:
    """
    No claim is granted meanwhile, the server's words are told, and once it is lifted the same backend goes on.
    """

    async def scenario() -> tuple[str, str, Verdict]:
        async with opened(server.url) as backend:
            now_ms = await backend.time(timeout_ms=TIMEOUT_MS)
            assert now_ms is not None
            line = backend._opened()
            await line.run(
                lambda session: session.connection.execute(
                    "SET default_transaction_read_only = on"
                ),
                timeout_ms=TIMEOUT_MS,
            )
            await executed(
                server.url, "ALTER DATABASE postgres SET default_transaction_read_only = on"
            )
            request = ask("job", now_ms)
            told = []
            for _ in range(2):
                with pytest.raises(StoreRefusedError) as caught:
                    await backend.claim([request], timeout_ms=TIMEOUT_MS)
                told.append(str(caught.value))
            await executed(
                f"{server.url}?default_transaction_read_only=off",
                "ALTER DATABASE postgres RESET default_transaction_read_only",
            )
            (answer,) = await backend.claim([request], timeout_ms=TIMEOUT_MS)
            assert isinstance(answer, ClaimAnswer)
            return told[0], told[1], answer.verdict

    first, second, verdict = asyncio.run(scenario())

    assert "in a read-only transaction" in first
    assert "target_session_attrs=read-write" in first
    assert "takes no writes (default_transaction_read_only)" in second
    assert Verdict.WON == verdict


def test_too_many_connections_may_pass() -> None:
    """
    A server that is full is an outage, with a word on how many connections a scheduler holds.
    """
    with testbed.postgres(
        config={
            "max_connections": "4",
            "superuser_reserved_connections": "0",
            "reserved_connections": "0",
        }
        | {"max_wal_senders": "0"}
    ) as server:

        async def scenario() -> str:
            held: list[Any] = []
            try:
                while len(held) < 4:
                    # Whoever asked whether the server is ready may not have left it yet.
                    with contextlib.suppress(TooManyConnectionsError):
                        held.append(await connect(server.url))
                backend = PostgresBackend(server.url)
                with pytest.raises(StoreUnavailableError) as caught:
                    await backend.open(timeout_ms=TIMEOUT_MS)
                while held:
                    await held.pop().close(timeout=5)
                # Asking again is allowed, and helps.
                while True:
                    try:
                        await backend.open(timeout_ms=TIMEOUT_MS)
                        break
                    except StoreUnavailableError:
                        continue
                await backend.close()
                return str(caught.value)
            finally:
                for connection in held:
                    await connection.close(timeout=5)

        told = asyncio.run(scenario())

    assert "too many clients already" in told
    assert "a scheduler holds three connections" in told


def test_an_item_that_the_server_refuses_fails_alone(
    opened: Opened, ask: Ask, shared_dsn: str, schema: str
) -> None:
    """
    A constraint of somebody's own makes one claim an error; its neighbours in the batch are served.
    """

    async def scenario() -> list[str]:
        async with opened() as backend:
            now_ms = await backend.time(timeout_ms=TIMEOUT_MS)
            assert now_ms is not None
            await executed(
                shared_dsn, f"ALTER TABLE {schema}.runs ADD CONSTRAINT own CHECK (job <> 'bad')"
            )
            answers = await backend.claim(
                [ask(job, now_ms) for job in ("a", "bad", "c")], timeout_ms=TIMEOUT_MS
            )
            history = await backend.history(None, limit=9, timeout_ms=TIMEOUT_MS)
            kinds = [
                answer.verdict.value if isinstance(answer, ClaimAnswer) else str(answer)
                for answer in answers
            ]
            return [*kinds, *sorted(record.job for record in history)]

    first, second, third, *kept = asyncio.run(scenario())

    assert ("won", "won", ["a", "c"]) == (first, third, kept)
    assert 'violates check constraint "own"' in second


@pytest.mark.parametrize(
    "options",
    [
        {"token": "a\x00b"},
        {"token": "\ud800"},
        {"instance_id": "a\x00b"},
        {"fingerprint": "\ud800"},
        {"zone_digests": "a\x00b", "fingerprint": "f"},
        {"slot": 2**63},
        {"slot": "soon"},
        {"attempt": 0},
        {"lease_ms": -1},
        {"not_after_ms": 2**63},
        {"max_lateness_ms": -1},
        {"max_crashes": 2**64},
        {"job": ""},
        {"job": "x" * 256},
        {"job": 5},
    ],
)
def test_what_cannot_be_held_is_an_error_in_its_place(
    opened: Opened, ask: Ask, options: dict[str, Any]
) -> None:
    """
    A value that the server or the driver would refuse never reaches them, and neighbours are served.
    """

    async def scenario() -> list[str]:
        async with opened() as backend:
            now_ms = await backend.time(timeout_ms=TIMEOUT_MS)
            assert now_ms is not None
            bad = ask(**{"job": "bad", "slot": now_ms, **options})
            answers = await backend.claim([bad, ask("good", now_ms)], timeout_ms=TIMEOUT_MS)
            return [type(answer).__name__ for answer in answers]

    assert ["RequestError", "ClaimAnswer"] == asyncio.run(scenario())


def test_a_history_of_a_name_that_cannot_be_is_empty(opened: Opened) -> None:
    """
    Nobody has heard of a job whose name the server cannot hold.
    """

    async def scenario() -> list[int]:
        async with opened() as backend:
            return [
                len(await backend.history(job, limit=limit, timeout_ms=TIMEOUT_MS))
                for job, limit in (("a\x00b", 5), ("\ud800", 5), ("job", 0), (None, -1))
            ]

    assert [0, 0, 0, 0] == asyncio.run(scenario())


def test_a_connect_function_is_called_as_the_drivers_is(
    shared_dsn: str, ask: Ask, schema: str
) -> None:
    """
    It gets the options that a pooler needs, opens every connection, and its own failure is told in its words.
    """
    calls: list[dict[str, Any]] = []
    broken = False

    async def opener(**options: Any) -> Any:
        calls.append(options)
        if broken:
            msg = "the vault is sealed"
            raise RuntimeError(msg)
        return await connect(shared_dsn, **options)

    async def scenario() -> str:
        nonlocal broken
        backend = PostgresBackend(connect=opener, schema=schema)
        await backend.open(timeout_ms=TIMEOUT_MS)
        await backend.close()
        broken = True
        copy = backend.clone()
        with pytest.raises(StoreUnavailableError) as caught:
            await copy.open(timeout_ms=TIMEOUT_MS)
        return str(caught.value)

    told = asyncio.run(scenario())

    assert "PostgreSQL: the vault is sealed" == told
    assert {0} == {call["statement_cache_size"] for call in calls}
    assert 3 == len(calls)


class ServerError(Exception):
    """
    An error with a code, as the driver raises it.
    """

    def __init__(self, sqlstate: str) -> None:
        super().__init__("its words")
        self.sqlstate = sqlstate


@pytest.mark.parametrize(
    ("error", "kind", "told"),
    [
        (ServerError("53100"), StoreRefusedError, "free space lifts it"),
        (ServerError("57P01"), StoreUnavailableError, "its words"),
        (ServerError("57P03"), StoreUnavailableError, "its words"),
        (ServerError("40P01"), StoreUnavailableError, "its words"),
        (ServerError("57014"), StoreUnavailableError, "statement_timeout"),
        (ServerError("AN002"), StoreUnavailableError, "its words"),
        (ServerError("42501"), StoreRefusedError, "migration_sql()"),
        (OSError("no route"), StoreUnavailableError, "no route"),
        (ssl.SSLCertVerificationError("self-signed"), StoreRefusedError, "certificate was refused"),
        (EOFError(), StoreUnavailableError, "EOFError"),
    ],
)
def test_errors_are_told_apart(error: Exception, kind: type[BackendError], told: str) -> None:
    """
    What may pass is unavailable, what will not is refused, each with its own words.
    """
    turned = store_error(error, "PostgreSQL at db/app")

    assert kind is type(turned)
    assert str(turned).startswith("PostgreSQL at db/app: ")
    assert told in str(turned)
