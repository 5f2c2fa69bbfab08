"""
Keep anarchon's claims and history in NATS JetStream: one server or a cluster.
"""

from __future__ import annotations

from anarchon_nats.backend import NatsBackend

__all__ = ["NatsBackend"]
