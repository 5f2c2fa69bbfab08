"""
Preparing a store: the tables that a backend needs, made here or by somebody who may.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Final

from anarchon.backend import Backend
from anarchon.operating import Migratable
from anarchon.registry import backend_from_url
from anarchon_cli.failing import CommandError, UsageError

__all__ = ["migrate_store"]

_TIMEOUT_MS: Final = 60_000


def migrate_store(url: str, *, sql: bool, grant_to: str | None) -> None:
    """
    Make or upgrade what the backend keeps in its store, or print the SQL that does.

    Args:
        url: The store. For the SQL it is not asked.

        sql: Print the SQL instead of running it.

        grant_to: A role that gets the rights which a backend needs.

    Raises:
        UsageError: grant_to is given without sql.

        CommandError: This backend prepares its store by no SQL.

        AnarchonError: The URL names no store, or the store refused.
    """
    if grant_to is not None and not sql:
        msg = "--grant-to goes together with --sql: the role gets its rights from whoever runs the SQL."
        raise UsageError(msg)
    backend = backend_from_url(url)
    if not sql:
        asyncio.run(_open_once(backend))
        print(f"{backend.service}: prepared.", file=sys.stderr)  # noqa: T201 - a word to a person, not output
        return
    if not isinstance(backend, Migratable):
        msg = (
            f"{type(backend).__name__} prepares its store by no SQL: a scheduler does when it starts, and so does"
            " `anarchon migrate` without --sql."
        )
        raise CommandError(msg)
    print(backend.migration_sql(grant_to=grant_to), end="")  # noqa: T201 - this is the program's output


async def _open_once(backend: Backend) -> None:
    """
    Open the store as a scheduler does, which makes what is missing.
    """
    try:
        await backend.open(timeout_ms=_TIMEOUT_MS)
    finally:
        await backend.close()
