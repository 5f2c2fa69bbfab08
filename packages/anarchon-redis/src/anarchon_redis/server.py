"""
What a server says of itself, and whether it can serve a strategy.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from anarchon.errors import ServerTooOldError, StoreRefusedError, StoreUnavailableError
from anarchon_redis.options import Options, Strategy

__all__ = ["Server", "check_server", "eviction_warning", "server_of"]

_NEEDED: Final[Mapping[str, Mapping[Strategy, tuple[int, int]]]] = {
    "redis": {"lease": (7, 0), "stream-id": (7, 0), "script": (7, 0), "idmp": (8, 6)},
    "valkey": {"lease": (7, 2), "stream-id": (7, 2), "script": (7, 2)},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """
    Who answered: its kind ("redis" or "valkey"), version, mode and role.
    """

    kind: str
    version: str
    mode: str
    role: str

    @property
    def shown(self) -> str:
        """
        Kind and version in words.
        """
        return f"{self.kind.capitalize()} {self.version}"

    @property
    def numbers(self) -> tuple[int, int]:
        """
        The version's first two numbers.
        """
        found = [int(number) for number in re.findall(r"\d+", self.version)[:2]]
        return (found[0], found[1]) if len(found) == 2 else (0, 0)


def server_of(hello: Mapping[Any, Any]) -> Server:
    """
    Read the answer to HELLO.
    """

    def told(name: str) -> str:
        value = hello.get(name.encode(), hello.get(name, b""))
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)

    return Server(
        kind=told("server"), version=told("version"), mode=told("mode"), role=told("role")
    )


def check_server(server: Server, options: Options, where: str) -> None:
    """
    Refuse a server that cannot do what was asked for.

    Raises:
        ServerTooOldError: The version is too old, or the kind has no such command.

        StoreRefusedError: It is part of a cluster, no part of one, or a replica.

        StoreUnavailableError: Sentinel named a server that is no primary any more.
    """
    # Whatever else speaks this protocol is held to what Redis has.
    needed = _NEEDED.get(server.kind, _NEEDED["redis"]).get(options.strategy)
    if needed is None or server.numbers < needed:
        least = _NEEDED["redis"][options.strategy]
        wanted = f"Redis {least[0]}.{least[1]}"
        if (valkey := _NEEDED["valkey"].get(options.strategy)) is not None:
            wanted += f" or Valkey {valkey[0]}.{valkey[1]}"
        msg = (
            f"{where}: strategy {options.strategy!r} needs {wanted} or newer; found {server.shown}"
        )
        raise ServerTooOldError(msg)
    if (server.mode == "cluster") is not options.cluster:
        found, way = (
            ("is a node of a Redis Cluster", "cluster=True (in a URL: ?cluster=true)")
            if server.mode == "cluster"
            else ("is no node of a Redis Cluster", "cluster=False")
        )
        msg = f"{where}: this {server.shown} {found}; say {way}"
        raise StoreRefusedError(msg)
    if server.role in ("replica", "slave") and not options.cluster:
        msg = f"{where}: this {server.shown} is a replica, which takes no claims"
        if options.sentinel is not None:
            raise StoreUnavailableError(msg)
        msg += "; name the primary, or let Sentinel find it (sentinel='NAME')"
        raise StoreRefusedError(msg)


def eviction_warning(memory: Mapping[str, Any], strategy: Strategy) -> str | None:
    """
    Say in a sentence that the server may forget claims for want of memory; None if not.

    Args:
        memory: What INFO says of memory.

        strategy: Only "script" keeps claims in keys that expire, which the policies
            named volatile-… may take.
    """
    policy = str(memory.get("maxmemory_policy", "noeviction"))
    if not int(memory.get("maxmemory", 0)) or policy == "noeviction":
        return None
    if policy.startswith("volatile-") and strategy != "script":
        return None
    return (
        f"this server evicts keys when its memory is full (maxmemory-policy {policy}), and a slot whose claim"
        " was evicted may run again; use a server with maxmemory-policy noeviction"
    )
