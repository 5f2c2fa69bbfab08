"""
The stores that faults are tried on, and what each offers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["STORES", "StoreKind", "named"]

_KEPT = "retention_records_per_job=100000"  # Every record of a long run is judged.
_SSL_REQUEST = b"\x00\x00\x00\x08\x04\xd2\x16\x2f"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreKind:
    """
    One backend: the server it needs, the query that makes a backend URL of the server's, and what it offers.

    ``offers`` has "leases", "network" (faults of the wire and of the server make sense), "clock" (its server's can be
    put wrong), "group" (servers that take each other's place), "standby" (one of two takes the other's place when it is
    told to), and "refuse:HOW" for each way in which it can be made to refuse.
    ``durable`` are the options under which its server keeps what it has acknowledged when it is killed, and
    ``counting`` those under which it tells how many calls reach it; None where it does not. A ``sibling`` is so like
    another one that the bounded set has only a few scenarios on it.
    """

    name: str
    server: str | None
    query: str
    offers: frozenset[str]
    hello: bytes = b""
    long_hello: bytes = b""
    durable: Mapping[str, Any] | None = None
    counting: Mapping[str, Any] | None = None
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
    offers = {
        "network",
        *(f"refuse:{how}" for how in ("full", "read-only", "no-rights", "password")),
    }
    if strategy == "lease":
        offers |= {"leases", "clock" if server == "valkey" else "group"}
    return StoreKind(
        name=name,
        server=server,
        query=f"strategy={strategy}&prefix={{namespace}}&{_KEPT}",
        offers=frozenset(offers),
        hello=b"PING\r\n",
        long_hello=b"PING\r\n" * 60,
        durable={"appendonly": True, "appendfsync": "always"},
        counting={} if strategy == "lease" else None,
        sibling=sibling,
    )


STORES = (
    StoreKind(
        name="sqlite", server=None, query=_KEPT, offers=frozenset({"leases", "file", "refuse:full"})
    ),
    _redis("redis-lease", "lease"),
    _redis("valkey-lease", "lease", server="valkey", sibling=True),
    StoreKind(
        name="postgres",
        server="postgres",
        query=f"schema={{namespace}}&{_KEPT}",
        offers=frozenset(
            {
                "leases",
                "network",
                "clock",
                "standby",
                "refuse:read-only",
                "refuse:no-rights",
                "refuse:password",
            }
        ),
        hello=_SSL_REQUEST,
        long_hello=_startup("chaos" * 80),
        durable={"durable": True},
        counting={"config": {"log_statement": "all"}},
    ),
    _redis("redis-script", "script"),
    _redis("redis-stream-id", "stream-id", sibling=True),
    _redis("redis-idmp", "idmp", sibling=True),
    StoreKind(
        name="nats",
        server="nats",
        query="prefix={namespace}",
        offers=frozenset({"network", "group"}),
        hello=b"PING\r\n",
        long_hello=b"PING\r\n" * 60,
        durable={},
    ),
    StoreKind(
        name="rabbitmq",
        server="rabbitmq",
        query="prefix={namespace}",
        offers=frozenset({"network", "group"}),
        hello=b"AMQP\x00\x00\x09\x01",
        long_hello=b"AMQP\x00\x00\x09\x01",
        durable={},
    ),
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
