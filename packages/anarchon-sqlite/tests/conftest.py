"""
What the tests share: a file, open backends on it, requests, and processes of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path

import pytest
from store_fixtures import asker, opener, started

from anarchon.backend import ClaimRequest
from anarchon_sqlite import SqliteBackend

__all__ = ["started"]  # Fixtures are found by the names of this module.

TIMEOUT_MS = 10_000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """
    A place for a file that does not exist yet.
    """
    return tmp_path / "jobs.db"


@pytest.fixture
def opened(path: Path) -> Callable[..., AbstractAsyncContextManager[SqliteBackend]]:
    """
    Give open backends on the file, each with connections of its own.
    """
    return opener(partial(SqliteBackend, path), timeout_ms=TIMEOUT_MS)


@pytest.fixture
def ask() -> Callable[..., ClaimRequest]:
    """
    Write claims, each with a token of its own unless it is told one.
    """
    return asker(lease_ms=30_000)
