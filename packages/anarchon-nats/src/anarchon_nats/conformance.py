"""
This backend as the conformance kit opens it; only its entry point imports this module.

The server is the one whose URL the environment gives (ANARCHON_TEST_NATS_URL), else one that
the project's testbed starts, where it is installed. A namespace is a prefix, and so a stream.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any

from anarchon.records import Retention
from anarchon_conformance.profile import BackendProfile, Line, Opener, ProfileError, Proxy
from anarchon_nats.address import read_addresses
from anarchon_nats.backend import NatsBackend
from anarchon_nats.options import read_url
from anarchon_nats.relay import Relay, relay_to

__all__ = ["oldest", "opener_for", "profile", "server_url"]

_GIVEN = "ANARCHON_TEST_NATS_URL"
_OLDEST = "2.10"
_OPEN_TIMEOUT_MS = 15_000

_Find = Callable[[], str]


def server_url(version: str | None = None) -> str:
    """
    Find the server of a run of the kit: a backend URL, whose parameters are options.

    Raises:
        ProfileError: The environment names none, and there is no testbed to start one.
    """
    variable = _GIVEN if version is None else f"ANARCHON_TEST_NATS_{version.replace('.', '_')}_URL"
    if url := os.environ.get(variable):
        return url
    try:
        testbed = import_module("anarchon_testbed")
    except ImportError as error:
        msg = f"no server to test: {variable} is not set, and anarchon-testbed is not installed"
        raise ProfileError(msg) from error
    url = testbed.shared_url("nats", version)
    assert isinstance(url, str)
    return url


def opener_for(
    backend_class: type[NatsBackend], find: _Find = server_url, **options: Any
) -> Opener:
    """
    Return what opens a backend for a namespace: a prefix on the one server of this run.
    """

    @asynccontextmanager
    async def opened(
        namespace: str, /, *, retention: Retention | None = None
    ) -> AsyncIterator[NatsBackend]:
        place, given = read_url(find())
        given |= {"prefix": namespace, "retention": retention} | options
        backend = backend_class(place, **given)
        await backend.open(timeout_ms=_OPEN_TIMEOUT_MS)
        try:
            yield backend
        finally:
            await backend.close()

    return opened


def _profile(name: str, find: _Find) -> BackendProfile:
    @asynccontextmanager
    async def near(namespace: str) -> AsyncIterator[tuple[NatsBackend, Relay]]:
        place, given = read_url(find())
        first = read_addresses(place)[0]
        async with relay_to(first.host, first.port) as relay:
            login, at, _ = place.partition("://")[2].split(",")[0].rpartition("@")
            url = f"nats://{login}{at}127.0.0.1:{relay.port}"
            backend = NatsBackend(url, **(given | {"prefix": namespace}))
            await backend.open(timeout_ms=_OPEN_TIMEOUT_MS)
            try:
                yield backend, relay
            finally:
                await backend.close()

    @asynccontextmanager
    async def through_relay(namespace: str) -> AsyncIterator[Proxy]:
        async with near(namespace) as (backend, relay):
            yield Proxy(backend=backend, loss=relay)

    @asynccontextmanager
    async def over_line(namespace: str) -> AsyncIterator[Line]:
        async with near(namespace) as (backend, relay):
            yield Line(backend=backend, fall_silent=relay.fall_silent)

    # The relay reads what it loses, so that it cannot be encrypted.
    secret = os.environ.get(_GIVEN, "").startswith("tls:")
    return BackendProfile(
        name=name,
        open=opener_for(NatsBackend, find),
        proxy=None if secret else through_relay,
        line=None if secret else over_line,
    )


profile = _profile("nats", server_url)
oldest = _profile(f"nats-{_OLDEST}", lambda: server_url(_OLDEST))
