"""
This backend as the conformance kit opens it; only its entry points import this module.

The server is the one whose URL the environment gives (ANARCHON_TEST_REDIS_URL,
ANARCHON_TEST_VALKEY_URL; a backend URL, so that `?cluster=true` names a Cluster), else one
that the project's testbed starts, where it is installed.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

from anarchon.records import Retention
from anarchon_conformance.profile import BackendProfile, Opener, ProfileError
from anarchon_conformance.relay import CuttingRelay, relaying, through
from anarchon_redis.backend import RedisBackend
from anarchon_redis.options import Strategy, read_url

__all__ = [
    "idmp",
    "lease",
    "opener_for",
    "script",
    "server_url",
    "stream_id",
    "valkey_lease",
    "valkey_script",
    "valkey_stream_id",
]

_OPEN_TIMEOUT_MS = 15_000

# The kit's slots lie in the last hours, and a claim-only strategy refuses what is older than its memory.
_MEMORY_MS = 86_000_000


def server_url(kind: str) -> str:
    """
    Find the server of a run of the kit: "redis" or "valkey".

    Raises:
        ProfileError: The environment names none, and there is no testbed to start one.
    """
    variable = _variable(kind)
    if url := os.environ.get(variable):
        return url
    try:
        testbed = import_module("anarchon_testbed")
    except ImportError as error:
        msg = f"no server to test: {variable} is not set, and anarchon-testbed is not installed"
        raise ProfileError(msg) from error
    url = testbed.shared_url(kind)
    assert isinstance(url, str)
    return url


def _variable(kind: str) -> str:
    return f"ANARCHON_TEST_{kind.upper()}_URL"


def opener_for(
    backend_class: type[RedisBackend], kind: str, strategy: Strategy, **options: Any
) -> Opener:
    """
    Return what opens a backend for a namespace: a prefix on the one server of this run.
    """

    @asynccontextmanager
    async def opened(
        namespace: str, /, *, retention: Retention | None = None
    ) -> AsyncIterator[RedisBackend]:
        place, given = read_url(server_url(kind))
        backend = backend_class(
            place,
            strategy=strategy,
            prefix=_prefix(strategy, namespace),
            retention=retention,
            **given,
            **options,
        )
        await backend.open(timeout_ms=_OPEN_TIMEOUT_MS)
        try:
            yield backend
        finally:
            await backend.close()

    return opened


def _prefix(strategy: Strategy, namespace: str) -> str:
    """
    Keep strategies apart: the kit looks at each under one and the same namespace.
    """
    return f"{strategy}/{namespace}"


def _profile(kind: str, strategy: Strategy, **options: Any) -> BackendProfile:
    @asynccontextmanager
    async def near(namespace: str) -> AsyncIterator[tuple[RedisBackend, CuttingRelay]]:
        url = urlsplit(server_url(kind))
        async with relaying(CuttingRelay(url.hostname or "localhost", url.port or 6379)) as relay:
            login = url.netloc.rpartition("@")
            place = url._replace(netloc=f"{login[0]}{login[1]}127.0.0.1:{relay.port}").geturl()
            backend = RedisBackend(
                place, strategy=strategy, prefix=_prefix(strategy, namespace), **options
            )
            await backend.open(timeout_ms=_OPEN_TIMEOUT_MS)
            try:
                yield backend, relay
            finally:
                await backend.close()

    proxy, line = through(near)
    # The nodes of a Cluster tell clients their own addresses, past every proxy.
    cluster = "cluster=true" in os.environ.get(_variable(kind), "")
    return BackendProfile(
        name=f"{kind}-{strategy}",
        open=opener_for(RedisBackend, kind, strategy, **options),
        proxy=None if cluster else proxy,
        line=None if cluster else line,
    )


lease = _profile("redis", "lease")
stream_id = _profile("redis", "stream-id", claim_memory_ms=_MEMORY_MS)
idmp = _profile("redis", "idmp", claim_memory_ms=_MEMORY_MS)
script = _profile("redis", "script", claim_memory_ms=_MEMORY_MS)
valkey_lease = _profile("valkey", "lease")
valkey_stream_id = _profile("valkey", "stream-id", claim_memory_ms=_MEMORY_MS)
valkey_script = _profile("valkey", "script", claim_memory_ms=_MEMORY_MS)
