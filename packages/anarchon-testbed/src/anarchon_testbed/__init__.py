"""
Real servers for tests: found, started, frozen, killed, restarted with their data, and removed.
"""

from __future__ import annotations

from anarchon_testbed.errors import (
    NotOurServerError,
    ServerFailedError,
    ServerUnavailableError,
    TestbedError,
)
from anarchon_testbed.postgres_server import PostgresServer, postgres
from anarchon_testbed.redis_server import RedisServer, ValkeyServer, redis, valkey
from anarchon_testbed.server import Server, running, used

__all__ = [
    "NotOurServerError",
    "PostgresServer",
    "RedisServer",
    "Server",
    "ServerFailedError",
    "ServerUnavailableError",
    "TestbedError",
    "ValkeyServer",
    "postgres",
    "redis",
    "running",
    "used",
    "valkey",
]
