"""
Opening a store to look at it: nothing is made, and nothing is changed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

from anarchon.backend import Backend
from anarchon.operating import Inspectable

__all__ = ["opened_to_read"]


@asynccontextmanager
async def opened_to_read(backend: Backend, *, timeout_ms: int) -> AsyncIterator[Backend]:
    """
    Open a backend's reader, or the backend itself where it has none.

    Raises:
        BackendError: There is nothing to open, or the store does not answer.
    """
    reader = cast("Backend", backend.reader()) if isinstance(backend, Inspectable) else backend
    try:
        await reader.open(timeout_ms=timeout_ms)
        yield reader
    finally:
        await reader.close()
