"""
This backend as the conformance kit opens it; only its entry point imports this module.

The server is the one whose URL the environment gives (ANARCHON_TEST_NATS_URL), else one that
the project's testbed starts, where it is installed. A namespace is a prefix, and so a stream.
"""

from __future__ import annotations

import os
import re
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any

from anarchon.records import Retention
from anarchon_conformance.profile import BackendProfile, Opener, ProfileError
from anarchon_conformance.relay import CHUNK_BYTES, Relay, relaying, through
from anarchon_nats.address import read_addresses
from anarchon_nats.backend import NatsBackend
from anarchon_nats.options import read_url

__all__ = ["NatsRelay", "oldest", "opener_for", "profile", "server_url"]

_GIVEN = "ANARCHON_TEST_NATS_URL"
_OLDEST = "2.10"
_OPEN_TIMEOUT_MS = 15_000
_WRITE = re.compile(rb"PUB \S+\.(?:claim|end)\.")
_WRITTEN = re.compile(rb'"seq": ?\d|"error"')

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


class NatsRelay(Relay):
    """
    Loses the claim or the end of a run; reading and looking are left alone.
    """

    def __init__(self, host: str, port: int) -> None:
        super().__init__(host, port)
        self._lose_request = False
        self._lose_reply = False
        self._withheld = False

    def lose_request(self) -> None:
        """
        Let the next claim or end vanish before the store sees it.
        """
        self._lose_request = True

    def lose_reply(self) -> None:
        """
        Let the store keep the next claim or end, and let its answer vanish.
        """
        self._lose_reply = True

    async def requests(self, reader: StreamReader, writer: StreamWriter) -> None:
        """
        Carry what a client sends, up to the message that is to be lost.
        """
        while data := await reader.read(CHUNK_BYTES):
            if not self.silent and _WRITE.search(data):
                if self._lose_request:
                    self._lose_request = False
                    return
                self._withheld, self._lose_reply = self._lose_reply, False
            await self.send(writer, data)

    async def replies(self, reader: StreamReader, writer: StreamWriter) -> None:
        """
        Carry what the server sends; an answer that is to be lost ends the connection.
        """
        while data := await reader.read(CHUNK_BYTES):
            if self.silent or not self._withheld:
                await self.send(writer, data)
            elif _WRITTEN.search(data):
                self._withheld = False
                return


def _profile(name: str, find: _Find) -> BackendProfile:
    @asynccontextmanager
    async def near(namespace: str) -> AsyncIterator[tuple[NatsBackend, NatsRelay]]:
        place, given = read_url(find())
        first = read_addresses(place)[0]
        async with relaying(NatsRelay(first.host, first.port)) as relay:
            login, at, _ = place.partition("://")[2].split(",")[0].rpartition("@")
            url = f"nats://{login}{at}127.0.0.1:{relay.port}"
            backend = NatsBackend(url, **(given | {"prefix": namespace}))
            await backend.open(timeout_ms=_OPEN_TIMEOUT_MS)
            try:
                yield backend, relay
            finally:
                await backend.close()

    proxy, line = through(near)
    # The relay reads what it loses, so that it cannot be encrypted.
    secret = os.environ.get(_GIVEN, "").startswith("tls:")
    return BackendProfile(
        name=name,
        open=opener_for(NatsBackend, find),
        proxy=None if secret else proxy,
        line=None if secret else line,
    )


profile = _profile("nats", server_url)
oldest = _profile(f"nats-{_OLDEST}", lambda: server_url(_OLDEST))
