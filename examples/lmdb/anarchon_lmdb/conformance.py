"""
This backend as the conformance kit opens it; only its entry point imports this module.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from anarchon import Retention
from anarchon_conformance import BackendProfile
from anarchon_lmdb.backend import LmdbBackend

__all__ = ["profile"]

_FOLDER = "ANARCHON_LMDB_KIT_FOLDER"


@asynccontextmanager
async def _opened(
    namespace: str, /, *, retention: Retention | None = None
) -> AsyncIterator[LmdbBackend]:
    prefix = hashlib.sha256(namespace.encode()).hexdigest()[:32]
    backend = LmdbBackend(_folder(), prefix=prefix, retention=retention)
    await backend.open(timeout_ms=15_000)
    try:
        yield backend
    finally:
        await backend.close()


def _folder() -> str:
    """
    Make a folder for this run, which the processes that the kit starts find in their environment.
    """
    if _FOLDER not in os.environ:
        os.environ[_FOLDER] = tempfile.mkdtemp(prefix="anarchon-lmdb-")
        atexit.register(shutil.rmtree, os.environ[_FOLDER], ignore_errors=True)
    return os.environ[_FOLDER]


profile = BackendProfile(name="lmdb", open=_opened)
