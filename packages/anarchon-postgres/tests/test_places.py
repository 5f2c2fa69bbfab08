"""
Where a server may be: behind TLS, and at a socket in the file system.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

import anarchon_testbed as testbed
from anarchon.backend import ClaimAnswer, ClaimRequest, Verdict
from anarchon.errors import StoreRefusedError
from anarchon_postgres import PostgresBackend
from anarchon_testbed.kept import ordinary_user
from anarchon_testbed.tls import Certificates, make_certificates

TIMEOUT_MS = 20_000

Opened = Callable[..., AbstractAsyncContextManager[PostgresBackend]]
Ask = Callable[..., ClaimRequest]

pytestmark = pytest.mark.slow


@pytest.fixture
def place() -> Iterator[Path]:
    """
    A folder that the server may read and write, which does not run as root; its path is short, as sockets need it.
    """
    folder = Path(tempfile.mkdtemp(prefix="anarchon-"))
    give(folder)
    yield folder
    shutil.rmtree(folder)


def give(path: Path) -> None:
    """
    Make the server's user the owner.
    """
    if (user := ordinary_user()) is not None:
        os.chown(path, user, -1)


def certified(folder: Path) -> Certificates:
    """
    Make certificates that the server may read.
    """
    folder.mkdir(exist_ok=True)
    files = make_certificates(folder)
    files.key.chmod(0o600)
    for path in (folder, files.ca, files.certificate, files.key):
        give(path)
    return files


async def wins(backend: PostgresBackend, ask: Ask) -> bool:
    """
    Claim a run; whether it was won.
    """
    now_ms = await backend.time(timeout_ms=TIMEOUT_MS)
    assert now_ms is not None
    (answer,) = await backend.claim([ask("job", now_ms)], timeout_ms=TIMEOUT_MS)
    assert isinstance(answer, ClaimAnswer)
    return answer.verdict is Verdict.WON


def test_tls(place: Path, opened: Opened, ask: Ask) -> None:
    """
    A server whose certificate is trusted is used, encrypted; one whose is not is refused, not retried for ever.
    """
    files, strangers = certified(place / "ours"), certified(place / "theirs")
    config = {
        "ssl": "on",
        "ssl_cert_file": str(files.certificate),
        "ssl_key_file": str(files.key),
    }

    async def scenario(url: str) -> tuple[bool, list[bool]]:
        trusting = f"{url}?sslmode=verify-full&sslrootcert={files.ca}"
        async with opened(trusting) as backend, opened(f"{url}?sslmode=disable") as plain:
            won = await wins(backend, ask)
            encrypted = [await is_encrypted(backend), await is_encrypted(plain)]
        distrusting = f"{url}?sslmode=verify-full&sslrootcert={strangers.ca}"
        with pytest.raises(StoreRefusedError, match="certificate was refused"):
            await PostgresBackend(distrusting).open(timeout_ms=TIMEOUT_MS)
        return won, encrypted

    # The build of 18 that the testbed finds first may have been made without TLS.
    with testbed.postgres("15", own=True, config=config) as server:
        won, encrypted = asyncio.run(scenario(server.url))

    assert won
    assert [True, False] == encrypted


async def is_encrypted(backend: PostgresBackend) -> bool:
    """
    Ask the server whether this connection is.
    """
    rows = await backend._opened().run(
        lambda session: session.fetch("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"),
        timeout_ms=TIMEOUT_MS,
    )
    return bool(rows[0]["ssl"])


def test_unix_socket(place: Path, opened: Opened, ask: Ask) -> None:
    """
    A socket in the file system serves like a port, also one that the server makes anew when it restarts.
    """

    async def scenario(server: testbed.PostgresServer) -> list[bool]:
        dsn = f"postgresql://postgres@/postgres?host={place}&port={server.port}"
        async with opened(dsn) as backend:
            before = await wins(backend, ask)
            await server.restart()
            async with opened(dsn) as again:
                return [before, await again.time(timeout_ms=TIMEOUT_MS) is not None]

    with testbed.postgres(own=True, config={"unix_socket_directories": str(place)}) as server:
        assert [True, True] == asyncio.run(scenario(server))
