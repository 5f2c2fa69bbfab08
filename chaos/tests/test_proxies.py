"""
The proxies that scenarios make, on the real Toxiproxy.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import anarchon_testbed as testbed
from anarchon_chaos import proxies
from anarchon_chaos.places import Store
from anarchon_chaos.proxies import Proxies
from anarchon_chaos.stage import Stage
from anarchon_chaos.stores import named
from anarchon_testbed import ServerFailedError
from anarchon_testbed.ports import HOST, free_port

pytestmark = pytest.mark.slow


@pytest.fixture
def taken() -> Iterator[int]:
    """
    A port at which somebody listens.
    """
    with socket.create_server((HOST, 0)) as server:
        yield int(server.getsockname()[1])


def port_of_a_proxy(upstream_port: int) -> int:
    """
    Make one proxy, and take it away.
    """

    async def made() -> int:
        async with testbed.toxiproxy() as server:
            wire = await Proxies(server).wire(
                "a", (HOST, upstream_port), hello=b"PING", long_hello=b"PING"
            )
            await wire.remove()
            return wire.port

    return asyncio.run(made())


def test_a_proxy_finds_another_port(taken: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A server that starts at the same moment may have taken the one that was free.
    """
    given: list[int] = []

    def draw() -> int:
        given.append(taken if len(given) < 2 else free_port())
        return given[-1]

    monkeypatch.setattr(proxies, "free_port", draw)
    made = port_of_a_proxy(taken)

    assert [taken, taken] == given[:2]
    assert given[-1] == made != taken


def test_a_proxy_that_cannot_be_made(taken: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Where no port can be had, it says of whom and to where.
    """
    monkeypatch.setattr(proxies, "free_port", lambda: taken)
    with pytest.raises(ServerFailedError, match=f"no proxy 'a-1' to {HOST}:{taken}"):
        port_of_a_proxy(taken)


def test_connections_are_those_of_instances_that_are_there(taken: int, tmp_path: Path) -> None:
    """
    A look at a wire counts as one; a wire whose process has not been started yet is nobody's.
    """

    async def counted() -> tuple[Mapping[str, int], Mapping[str, int]]:
        async with testbed.toxiproxy(own=True) as server:
            store = Store(named("redis-lease"), place="nowhere", url="redis://")
            stage = Stage(folder=tmp_path, store=store, proxies=Proxies(server), options={})
            store.server = server  # Who listens there is of no concern.
            await stage.add("there")
            await stage.wires["there"].bitten()
            stage.wires["coming"] = stage.wires["there"]
            before = await stage.connections()
            await stage.workers["there"].kill()
            after = await stage.connections()
            await stage.close()
            return before, after

    assert ({"there": 2}, {}) == asyncio.run(counted())
