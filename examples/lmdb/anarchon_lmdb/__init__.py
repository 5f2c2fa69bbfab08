"""
A backend for LMDB, a transactional key-value store in one file: an example of a third party's backend.
"""

from __future__ import annotations

from anarchon_lmdb.backend import LmdbBackend

__all__ = ["LmdbBackend"]
