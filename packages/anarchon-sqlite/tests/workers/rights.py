"""
Open a file as somebody without rights: `rights.py PATH` prints the error and its words.

The superuser may do everything, so that it becomes another user first.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from pathlib import Path

from anarchon.errors import BackendError
from anarchon_sqlite import SqliteBackend


async def main(path: str) -> None:
    """
    Open, or say why not.
    """
    backend = SqliteBackend(path)
    try:
        await backend.open(timeout_ms=30_000)
    except BackendError as error:
        sys.stdout.write(f"{type(error).__name__}: {error}\n")
    else:
        sys.stdout.write("open\n")
        await backend.close()


async def load() -> None:
    """
    Import whatever is imported late, while the interpreter's own files may still be read.
    """
    with tempfile.TemporaryDirectory() as folder:
        backend = SqliteBackend(Path(folder) / "jobs.db")
        await backend.open(timeout_ms=30_000)
        await backend.close()


user = os.geteuid()
if user == 0:
    asyncio.run(load())
    os.seteuid(65_534)
asyncio.run(main(sys.argv[1]))
os.seteuid(user)
