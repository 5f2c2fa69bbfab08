"""
Keep anarchon's runs in Redis or Valkey: one server, Sentinel or Cluster.
"""

from __future__ import annotations

from anarchon_redis.backend import RedisBackend
from anarchon_redis.options import Strategy

__all__ = ["RedisBackend", "Strategy"]
