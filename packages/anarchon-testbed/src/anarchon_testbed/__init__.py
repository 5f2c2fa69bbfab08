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
from anarchon_testbed.having import Availability, available, obtain, served, shared_url
from anarchon_testbed.pgbouncer_server import PgBouncerServer, pgbouncer
from anarchon_testbed.postgres_server import PostgresServer, postgres
from anarchon_testbed.redis_groups import (
    RedisCluster,
    RedisSentinel,
    redis_cluster,
    redis_sentinel,
)
from anarchon_testbed.redis_server import RedisServer, ValkeyServer, redis, valkey
from anarchon_testbed.server import Server, running, used

__all__ = [
    "Availability",
    "NotOurServerError",
    "PgBouncerServer",
    "PostgresServer",
    "RedisCluster",
    "RedisSentinel",
    "RedisServer",
    "Server",
    "ServerFailedError",
    "ServerUnavailableError",
    "TestbedError",
    "ValkeyServer",
    "available",
    "obtain",
    "pgbouncer",
    "postgres",
    "redis",
    "redis_cluster",
    "redis_sentinel",
    "running",
    "served",
    "shared_url",
    "used",
    "valkey",
]
