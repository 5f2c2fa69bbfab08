"""
Each server starts, answers by its own protocol, and can be broken and mended in every way that faults ask for.
"""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys

import pytest

import anarchon_testbed as testbed
from anarchon_testbed.pgwire import ask_ready
from anarchon_testbed.resp import Address, RespError, ask

pytestmark = pytest.mark.slow

SERVERS = [
    ("redis", "7.0"),
    ("redis", "8.6"),
    ("valkey", "9"),
    ("postgres", "15"),
    ("postgres", "18"),
]


def answers(server: testbed.Server, *, timeout_ms: int = 20_000) -> bool:
    """
    Ask a server over a new connection, by its protocol.
    """
    try:
        if isinstance(server, testbed.RedisServer):
            return ask(server.address, ("PING",), timeout_ms=timeout_ms) == [b"PONG"]
        ask_ready(
            server.host, server.port, user="postgres", database="postgres", timeout_ms=timeout_ms
        )
    except OSError:
        return False
    return True


@pytest.mark.parametrize(("kind", "version"), SERVERS)
def test_a_server_is_started_broken_and_mended(kind: str, version: str) -> None:
    """
    Frozen it is silent, thawed it answers; killed it refuses, and restarted it is another process on the same port.
    """
    with getattr(testbed, kind)(version, own=True) as server:
        first, port = server.pid, server.port
        seen = [answers(server)]
        server.freeze()
        seen.append(answers(server, timeout_ms=100))
        server.thaw()
        seen.append(answers(server))
        server.kill_now()
        seen += [answers(server), server.pid is None]
        server.restart_now()
        seen += [answers(server), server.pid not in {None, first}]
        server.stop_now()
        seen += [answers(server)]
        server.start_now()
        seen += [answers(server)]
        folder = server.folder

    expected = [True, False, True, False, True, True, True, False, True]
    assert expected == seen
    assert port == server.port
    assert server.version.startswith(f"{version}.")
    assert not folder.exists()
    assert not answers(server)


def test_the_same_in_an_event_loop() -> None:
    """
    `async with` and the awaited calls do what the blocking ones do, and the loop goes on meanwhile.
    """

    async def main() -> tuple[bool, bool, int]:
        turns = 0

        async def turn() -> None:
            nonlocal turns
            while True:
                await asyncio.sleep(0)
                turns += 1

        async with testbed.redis(own=True) as server:
            turning = asyncio.create_task(turn())
            before = turns
            await server.kill()
            down = not answers(server)
            await server.restart()
            turning.cancel()
            return down, answers(server), turns - before

    down, up, turns = asyncio.run(main())

    assert (True, True) == (down, up)
    assert turns > 0


@pytest.mark.parametrize("appendonly", [True, False])
def test_only_an_append_only_file_outlives_a_kill(*, appendonly: bool) -> None:
    """
    A killed Redis has its data again exactly if it was told to write it.
    """
    with testbed.redis(own=True, appendonly=appendonly, appendfsync="always") as server:
        server.command("SET", "key", "value")
        server.restart_now()
        kept = server.command("GET", "key")

    assert (b"value" if appendonly else None) == kept


def test_passwords_users_and_sockets() -> None:
    """
    A password is needed and is in the URL, a user may do what its rules say, and the Unix socket answers.
    """
    with testbed.redis(
        password="a b:c", users={"reader": "on >secret ~* +get"}, unix_socket=True
    ) as server:
        plain = Address(host=server.host, port=server.port)
        reader = Address(host=server.host, port=server.port, user="reader", password="secret")
        inside = Address(host="", port=0, unix=server.unix_path, password="a b:c")

        assert f"redis://:a%20b%3Ac@127.0.0.1:{server.port}/0" == server.url
        assert server.unix_url.startswith("unix://:a%20b%3Ac@/")
        assert [b"PONG"] == ask(inside, ("PING",))
        assert [None] == ask(reader, ("GET", "key"))
        with pytest.raises(RespError, match="NOAUTH"):
            ask(plain, ("PING",))
        with pytest.raises(RespError, match="NOPERM"):
            ask(reader, ("SET", "key", "value"))


def test_tls_is_checked_against_its_own_authority() -> None:
    """
    With TLS the port speaks nothing else, and only who trusts the authority gets through.
    """
    with testbed.redis(tls=True) as server:
        assert server.url.startswith("rediss://")
        assert b"PONG" == server.command("PING")
        with pytest.raises(OSError, match=r"reset|closed|timed out"):
            ask(Address(host=server.host, port=server.port), ("PING",))


def test_postgres_asks_for_the_password() -> None:
    """
    A password is in the URL, escaped, and a session without it is asked for one.
    """
    with testbed.postgres("18", password="p@ss/w'ord", config={"max_connections": "17"}) as server:
        told = ask_ready(server.host, server.port, user="postgres", database="postgres")

    assert "p%40ss%2Fw%27ord" in server.url
    assert "" == told, "Who is let in is told the version."


def test_pgbouncer_passes_sessions_on() -> None:
    """
    A session through the bouncer is the target's, and there is none while the target is down.
    """
    with testbed.postgres(own=True) as server, testbed.pgbouncer(server) as bouncer:
        through = ask_ready(bouncer.host, bouncer.port, user="postgres", database="postgres")

        assert server.version == through
        assert bouncer.version.startswith("1.")
        assert server.port != bouncer.port


@pytest.mark.parametrize("name", ["redis-7.0", "pgbouncer-1"])
def test_a_command_gets_a_server_for_its_length(name: str) -> None:
    """
    `run` gives the URL in the variable that tests read, ends with the command's own status, and removes the server.
    """
    kind = name.partition("-")[0]
    program = (
        "import os, sys, anarchon_testbed as t; from urllib.parse import urlsplit as s;"
        f"u = s(os.environ['ANARCHON_TEST_{kind.upper()}_URL']); print(u.port, len(t.running())); sys.exit(7)"
    )
    command = [sys.executable, "-m", "anarchon_testbed", "run", name, "--"]

    result = subprocess.run(
        [*command, sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    port, started = result.stdout.split()

    assert (7, "0") == (result.returncode, started)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int(port)), 5)


def test_a_cluster_of_three_shares_all_slots() -> None:
    """
    Each node knows where every key lies: one of the three takes it, the others name the one that does.
    """
    with testbed.redis_cluster() as cluster:
        told: list[str] = []
        for node in cluster.nodes:
            try:
                told.append(node.command("SET", "key", "value").decode())
            except RespError as error:
                told.append(str(error).split()[0])
        slots = sum(
            int(last) - int(first) + 1
            for first, last, *_ in cluster.nodes[0].command("CLUSTER", "SLOTS")
        )

    assert ["MOVED", "MOVED", "OK"] == sorted(told)
    assert 16384 == slots


def test_sentinels_promote_a_replica() -> None:
    """
    The killed primary's replica takes over with the data it had, and the old one starts on its port again.
    """
    with testbed.redis_sentinel() as group:
        old = group.primary
        old.command("SET", "key", "value")
        arrived = old.command("WAIT", "1", "5000")
        new = group.fail_over_now()
        value = new.command("GET", "key")
        old.start_now()

        assert (1, b"value") == (arrived, value)
        assert new is not old
        assert b"PONG" == old.command("PING")
        assert 3 == len(group.addresses)


def test_a_url_of_the_environment_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    The server given is taken as it is and cannot be broken; `own=True` and every option ask for one of our own.
    """
    with testbed.redis("7.0", own=True) as given:
        monkeypatch.setenv("ANARCHON_TEST_REDIS_URL", given.url)
        with (
            testbed.redis() as taken,
            testbed.redis(own=True) as own,
            testbed.redis("8.6") as other,
        ):
            assert other.managed, "The server given is of another version than was asked for."
            assert (False, given.url, given.version) == (taken.managed, taken.url, taken.version)
            assert own.managed
            assert own.port != given.port
            with pytest.raises(testbed.NotOurServerError, match="ANARCHON_TEST_REDIS_URL"):
                taken.kill_now()
            with pytest.raises(testbed.NotOurServerError, match="own=True"):
                taken.freeze()
        assert answers(given), "Leaving does not touch a server that was given."

    with pytest.raises(testbed.ServerFailedError, match="ANARCHON_TEST_REDIS_URL"):
        testbed.redis().__enter__()
