"""
Real servers for tests: found, started, frozen, killed, restarted with their data, and removed.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anarchon_testbed.errors import NotOurServerError as NotOurServerError
    from anarchon_testbed.errors import ServerFailedError as ServerFailedError
    from anarchon_testbed.errors import ServerUnavailableError as ServerUnavailableError
    from anarchon_testbed.errors import TestbedError as TestbedError
    from anarchon_testbed.having import Availability as Availability
    from anarchon_testbed.having import available as available
    from anarchon_testbed.having import obtain as obtain
    from anarchon_testbed.having import served as served
    from anarchon_testbed.having import shared_url as shared_url
    from anarchon_testbed.nats_server import NatsCluster as NatsCluster
    from anarchon_testbed.nats_server import NatsServer as NatsServer
    from anarchon_testbed.nats_server import nats as nats
    from anarchon_testbed.nats_server import nats_cluster as nats_cluster
    from anarchon_testbed.pgbouncer_server import PgBouncerServer as PgBouncerServer
    from anarchon_testbed.pgbouncer_server import pgbouncer as pgbouncer
    from anarchon_testbed.postgres_groups import PostgresPair as PostgresPair
    from anarchon_testbed.postgres_groups import postgres_pair as postgres_pair
    from anarchon_testbed.postgres_server import PostgresServer as PostgresServer
    from anarchon_testbed.postgres_server import postgres as postgres
    from anarchon_testbed.rabbitmq_groups import RabbitMQCluster as RabbitMQCluster
    from anarchon_testbed.rabbitmq_groups import rabbitmq_cluster as rabbitmq_cluster
    from anarchon_testbed.rabbitmq_server import RabbitMQServer as RabbitMQServer
    from anarchon_testbed.rabbitmq_server import rabbitmq as rabbitmq
    from anarchon_testbed.redis_groups import RedisCluster as RedisCluster
    from anarchon_testbed.redis_groups import RedisSentinel as RedisSentinel
    from anarchon_testbed.redis_groups import redis_cluster as redis_cluster
    from anarchon_testbed.redis_groups import redis_sentinel as redis_sentinel
    from anarchon_testbed.redis_server import RedisServer as RedisServer
    from anarchon_testbed.redis_server import ValkeyServer as ValkeyServer
    from anarchon_testbed.redis_server import redis as redis
    from anarchon_testbed.redis_server import valkey as valkey
    from anarchon_testbed.server import Server as Server
    from anarchon_testbed.server import running as running
    from anarchon_testbed.server import used as used
    from anarchon_testbed.toxiproxy_server import ToxiproxyServer as ToxiproxyServer
    from anarchon_testbed.toxiproxy_server import toxiproxy as toxiproxy

__all__ = [
    "Availability",
    "NatsCluster",
    "NatsServer",
    "NotOurServerError",
    "PgBouncerServer",
    "PostgresPair",
    "PostgresServer",
    "RabbitMQCluster",
    "RabbitMQServer",
    "RedisCluster",
    "RedisSentinel",
    "RedisServer",
    "Server",
    "ServerFailedError",
    "ServerUnavailableError",
    "TestbedError",
    "ToxiproxyServer",
    "ValkeyServer",
    "available",
    "nats",
    "nats_cluster",
    "obtain",
    "pgbouncer",
    "postgres",
    "postgres_pair",
    "rabbitmq",
    "rabbitmq_cluster",
    "redis",
    "redis_cluster",
    "redis_sentinel",
    "running",
    "served",
    "shared_url",
    "toxiproxy",
    "used",
    "valkey",
]

_HOMES = {
    "Availability": "having",
    "NatsCluster": "nats_server",
    "NatsServer": "nats_server",
    "NotOurServerError": "errors",
    "PgBouncerServer": "pgbouncer_server",
    "PostgresPair": "postgres_groups",
    "PostgresServer": "postgres_server",
    "RabbitMQCluster": "rabbitmq_groups",
    "RabbitMQServer": "rabbitmq_server",
    "RedisCluster": "redis_groups",
    "RedisSentinel": "redis_groups",
    "RedisServer": "redis_server",
    "Server": "server",
    "ServerFailedError": "errors",
    "ServerUnavailableError": "errors",
    "TestbedError": "errors",
    "ToxiproxyServer": "toxiproxy_server",
    "ValkeyServer": "redis_server",
    "available": "having",
    "nats": "nats_server",
    "nats_cluster": "nats_server",
    "obtain": "having",
    "pgbouncer": "pgbouncer_server",
    "postgres": "postgres_server",
    "postgres_pair": "postgres_groups",
    "rabbitmq": "rabbitmq_server",
    "rabbitmq_cluster": "rabbitmq_groups",
    "redis": "redis_server",
    "redis_cluster": "redis_groups",
    "redis_sentinel": "redis_groups",
    "running": "server",
    "served": "having",
    "shared_url": "having",
    "toxiproxy": "toxiproxy_server",
    "used": "server",
    "valkey": "redis_server",
}


def __getattr__(name: str) -> object:
    """
    Load a public name when it is asked for: every run of pytest imports this package, for its plug-in.
    """
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)
