"""
The backends that live in one process: for tests, development, and as verified fakes.

Both pass the conformance kit, so a test that uses one tests the real protocol.
"""

from __future__ import annotations

from anarchon.memory.claim import MemoryClaimBackend
from anarchon.memory.lease import MemoryBackend
from anarchon.memory.store import MemoryStore

__all__ = ["MemoryBackend", "MemoryClaimBackend", "MemoryStore"]
