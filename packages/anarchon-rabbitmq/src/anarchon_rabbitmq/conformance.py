"""
This backend as the conformance kit opens it; only its entry points import this module.

The broker is the one whose URL the environment gives (ANARCHON_TEST_RABBITMQ_3_10_URL,
ANARCHON_TEST_RABBITMQ_4_URL), else one that the project's testbed starts, where it is installed.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import import_module
from urllib.parse import urlsplit

from anarchon.records import Retention
from anarchon_conformance.profile import BackendProfile, Opener, ProfileError
from anarchon_conformance.relay import CuttingRelay, relaying, through
from anarchon_rabbitmq.backend import RabbitMQBackend
from anarchon_rabbitmq.options import read_url

__all__ = ["opener_for", "rabbitmq_3_10", "rabbitmq_4", "server_url"]

_OPEN_TIMEOUT_MS = 30_000

# The kit's slots lie in the last hours, and what is older than the memory is refused.
_MEMORY_MS = 86_400_000


def server_url(version: str) -> str:
    """
    Find the broker of a run of the kit: "3.10" or "4".

    Raises:
        ProfileError: The environment names none, and there is no testbed to start one.
    """
    variable = f"ANARCHON_TEST_RABBITMQ_{version.replace('.', '_')}_URL"
    if url := os.environ.get(variable):
        return url
    try:
        testbed = import_module("anarchon_testbed")
    except ImportError as error:
        msg = f"no broker to test: {variable} is not set, and anarchon-testbed is not installed"
        raise ProfileError(msg) from error
    url = testbed.shared_url("rabbitmq", version)
    assert isinstance(url, str)
    return url


def opener_for(backend_class: type[RabbitMQBackend], version: str) -> Opener:
    """
    Return what opens a backend for a namespace: a stream on the one broker of this run.
    """

    @asynccontextmanager
    async def opened(
        namespace: str, /, *, retention: Retention | None = None
    ) -> AsyncIterator[RabbitMQBackend]:
        place, options = read_url(server_url(version))
        backend = backend_class(
            place,
            prefix=namespace,
            retention=retention,
            claim_memory_ms=_MEMORY_MS,
            **options,
        )
        await backend.open(timeout_ms=_OPEN_TIMEOUT_MS)
        try:
            yield backend
        finally:
            await backend.close()

    return opened


def _profile(version: str) -> BackendProfile:
    @asynccontextmanager
    async def near(namespace: str) -> AsyncIterator[tuple[RabbitMQBackend, CuttingRelay]]:
        url = urlsplit(server_url(version))
        async with relaying(CuttingRelay(url.hostname or "localhost", url.port or 5672)) as relay:
            login = url.netloc.rpartition("@")
            place = url._replace(netloc=f"{login[0]}{login[1]}127.0.0.1:{relay.port}").geturl()
            backend = RabbitMQBackend(place, prefix=namespace, claim_memory_ms=_MEMORY_MS)
            await backend.open(timeout_ms=_OPEN_TIMEOUT_MS)
            try:
                yield backend, relay
            finally:
                await backend.close()

    proxy, line = through(near)
    return BackendProfile(
        name=f"rabbitmq-{version}",
        open=opener_for(RabbitMQBackend, version),
        proxy=proxy,
        line=line,
    )


rabbitmq_3_10 = _profile("3.10")
rabbitmq_4 = _profile("4")
