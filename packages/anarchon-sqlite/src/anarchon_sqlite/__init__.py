"""
Keep anarchon's runs in one SQLite file, for many processes of one host.
"""

from __future__ import annotations

from anarchon_sqlite.backend import SqliteBackend

__all__ = ["SqliteBackend"]
