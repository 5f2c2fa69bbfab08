"""
Keep anarchon's runs in PostgreSQL, for instances anywhere.
"""

from __future__ import annotations

from anarchon_postgres.backend import PostgresBackend
from anarchon_postgres.schema import migration_sql

__all__ = ["PostgresBackend", "migration_sql"]
