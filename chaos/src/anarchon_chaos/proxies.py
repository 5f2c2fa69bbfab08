"""
One proxy between an instance and its store, which spoils what goes through it, and a look at whether it does.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from typing import Any

import toxiproxy  # type: ignore[import-untyped]  # It ships no types.

from anarchon_chaos.evidence import now_ns
from anarchon_testbed import ServerFailedError, ToxiproxyServer
from anarchon_testbed.ports import HOST, free_port

__all__ = ["ARRIVING", "CUTS", "SWALLOWING", "Proxies", "Wire"]

_PROBE_MS_MAX = 400
_TRIES_MAX = 5
_SLOW_MS_MIN = 75
_SLICED_MS_MIN = 20

CUTS: Mapping[str, tuple[tuple[str, str, Mapping[str, int]], ...]] = {
    # Nothing passes either way, and nobody is told.
    "silent": (("timeout", "upstream", {"timeout": 0}), ("timeout", "downstream", {"timeout": 0})),
    # Requests arrive and are carried out; their answers do not come back.
    "half-open": (("timeout", "downstream", {"timeout": 0}),),
    # A connection breaks as soon as something is sent over it.
    "reset": (("reset_peer", "upstream", {"timeout": 0}),),
    # The first answer is dropped, and its connection closed.
    "lost-reply": (("limit_data", "downstream", {"bytes": 0}),),
    "latency": (("latency", "downstream", {"latency": 250, "jitter": 100}),),
    "crawl": (("latency", "downstream", {"latency": 5_000, "jitter": 500}),),
    "narrow": (("bandwidth", "upstream", {"rate": 1}), ("bandwidth", "downstream", {"rate": 1})),
    "sliced": (
        ("slicer", "upstream", {"average_size": 16, "size_variation": 8, "delay": 500}),
        ("slicer", "downstream", {"average_size": 16, "size_variation": 8, "delay": 500}),
        ("latency", "downstream", {"latency": 20}),
    ),
}
"""
What each fault of the network is to Toxiproxy. "down" is none of them: nobody listens any more.
"""

ARRIVING = frozenset({"half-open", "lost-reply", "crawl"})
"""
Those through which requests arrive and answers do not.
"""

SWALLOWING = frozenset({"silent", "half-open", "lost-reply"})
"""
Those that take bytes in and do not pass them on, which Toxiproxy counts.
"""


class Wire:
    """
    The proxy of one instance. Made by `Proxies.wire`.

    Args:
        hello: What a client sends first; the server's answer to it shows that the wire is sound.

        long_hello: The same with some hundred bytes, which take their time on a narrow wire.
    """

    def __init__(
        self,
        server: ToxiproxyServer,
        proxy: Any,
        *,
        port: int,
        hello: bytes,
        long_hello: bytes,
    ) -> None:
        self._server = server
        self._proxy = proxy
        self._hello = hello
        self._long_hello = long_hello
        self.name = str(proxy.name)
        self.port = port
        self.fault: str | None = None
        self.bites = 0
        self.swallows = False
        self._looks_swallowed = {"upstream": 0, "downstream": 0}
        self._answer_bytes = 0

    async def spoil(self, kind: str) -> None:
        """
        Put a fault on the wire, one of `CUTS` or "down", for connections that there are and those to come.
        """
        self.fault = kind
        self.swallows |= kind in SWALLOWING
        if kind == "down":
            await asyncio.to_thread(self._proxy.disable)
            return
        for toxic, stream, attributes in CUTS[kind]:
            await asyncio.to_thread(
                self._proxy.add_toxic, type=toxic, stream=stream, attributes=dict(attributes)
            )

    async def heal(self) -> None:
        """
        Take the fault off the wire. Connections that it has spoilt stay so.
        """
        kind, self.fault = self.fault, None
        if kind == "down":
            await asyncio.to_thread(self._proxy.enable)
            return
        for toxic, stream, _ in CUTS.get(kind or "", ()):
            await asyncio.to_thread(self._proxy.destroy_toxic, f"{toxic}_{stream}")

    async def bitten(self) -> bool:
        """
        Try a new connection through the proxy, and say whether the fault spoils it.
        """
        answered_ms = await asyncio.to_thread(self._probe)
        if self.fault in SWALLOWING:
            way = "upstream" if self.fault == "silent" else "downstream"
            self._looks_swallowed[way] += 1
        slow_ms = {"latency": _SLOW_MS_MIN, "narrow": _SLOW_MS_MIN, "sliced": _SLICED_MS_MIN}
        late = self.fault in slow_ms and (answered_ms or 0) >= slow_ms[self.fault]
        hit = answered_ms is None or late
        self.bites += hit
        return hit

    async def measure(self) -> None:
        """
        See how long an answer to a look is, so that those to later ones are not taken for the instance's.
        """
        await asyncio.to_thread(self._probe)

    async def swallowed(self) -> int:
        """
        Count the bytes of the instance that went in and did not come out, either way, on connections that are over.
        """
        look_bytes = {"upstream": len(self._hello), "downstream": self._answer_bytes}
        total = 0
        for way, looks in self._looks_swallowed.items():
            lost = await asyncio.to_thread(self._server.bytes_swallowed, self.name, way)
            total += max(0, lost - looks * look_bytes[way])
        return total

    async def remove(self) -> None:
        """
        Take the proxy away.
        """
        await asyncio.to_thread(self._proxy.destroy)

    def _probe(self) -> int | None:
        # How long the first answer takes, in milliseconds; None where none comes.
        begun_ns = now_ns()
        try:
            with socket.create_connection((HOST, self.port), _PROBE_MS_MAX / 1_000) as connection:
                connection.sendall(self._long_hello if self.fault == "narrow" else self._hello)
                answer = connection.recv(4_096)
                if not answer:
                    return None
                if self.fault is None:
                    self._answer_bytes = max(self._answer_bytes, len(answer))
        except OSError:
            return None
        return (now_ns() - begun_ns) // 1_000_000


class Proxies:
    """
    The one Toxiproxy of this process: its client keeps the address in a class.
    """

    def __init__(self, server: ToxiproxyServer) -> None:
        self._server = server
        self._client = toxiproxy.Toxiproxy()
        self._client.update_api_consumer(server.host, server.port)
        self._made = 0

    async def wire(
        self, label: str, upstream: tuple[str, int], *, hello: bytes, long_hello: bytes
    ) -> Wire:
        """
        Make the proxy of one instance.
        """
        self._made += 1
        proxy, port = await asyncio.to_thread(
            self._create, f"{label}-{self._made}", f"{upstream[0]}:{upstream[1]}"
        )
        wire = Wire(self._server, proxy, port=port, hello=hello, long_hello=long_hello)
        await wire.measure()
        return wire

    async def connections(self) -> Mapping[str, int]:
        """
        Count the connections that each proxy has had, by its name; nothing where the Toxiproxy does not tell us.
        """
        return await asyncio.to_thread(self._server.connections)

    def _create(self, name: str, upstream: str) -> tuple[Any, int]:
        # A server that starts at this moment may take a port that has just been seen to be free.
        refused: KeyError | None = None
        for _ in range(_TRIES_MAX):
            port = free_port()
            try:
                return self._client.create(
                    upstream=upstream, name=name, listen=f"{HOST}:{port}"
                ), port
            except KeyError as error:
                # The client takes a refusal for a proxy, which has no name then.
                refused = error
        raise ServerFailedError(f"Toxiproxy made no proxy {name!r} to {upstream}") from refused
