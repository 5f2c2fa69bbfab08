"""
The client of redis-py for an address: one server, Sentinel or Cluster, without retries of its own.
"""

from __future__ import annotations

import contextlib
from typing import Any, Final, cast

from redis.asyncio import Redis, RedisCluster, Sentinel
from redis.asyncio.cluster import ClusterNode
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.maint_notifications import MaintNotificationsConfig

from anarchon_redis.address import Address
from anarchon_redis.options import Options
from anarchon_redis.trouble import CLIENT_ERRORS

__all__ = ["CONNECTIONS_MAX", "AnyRedis", "close_client", "make_client", "make_listener"]

CONNECTIONS_MAX: Final = 8
"""
How many calls one backend has under way at most, each on a connection of its own.
"""

# A Sentinel that is silent must leave time to ask the next one within a call's deadline.
_SENTINEL_TIMEOUT_S = 0.5

# The same for a node that is asked who has which keys; any other node knows it too.
_NODE_TIMEOUTS: Final = {"socket_timeout": 0.5, "socket_connect_timeout": 0.5}

AnyRedis = Redis | RedisCluster


def make_client(address: Address, options: Options) -> AnyRedis:
    """
    Make a client; nothing is connected yet.

    Its own deadlines and retries are off: ours stands around every call, and the core
    asks again with the same token where the time that is left is known.
    """
    if options.cluster:
        return RedisCluster(
            startup_nodes=[ClusterNode(host, port) for host, port in address.hosts],
            retry=Retry(NoBackoff(), 0),
            max_connections=4 * CONNECTIONS_MAX,
            ssl=address.tls,
            **_login(address),
            **{**_common(), **_NODE_TIMEOUTS},
            **_tls(options, tls=address.tls),
        )
    return make_listener(address, options)


def make_listener(address: Address, options: Options) -> Redis:
    """
    Make a client of one server, which may be any node of a Cluster: hints reach all of them.
    """
    kwargs: dict[str, Any] = {
        **_common(),
        **_login(address),
        "db": address.db,
        "retry": None,
        # Those that are at hand between calls count as in use.
        "max_connections": 2 * CONNECTIONS_MAX + 1,
    }
    if address.path is not None:
        return Redis(unix_socket_path=address.path, **kwargs)
    if address.tls:
        kwargs.update(ssl=True, **_tls(options, tls=True))
    if options.sentinel is None:
        host, port = address.hosts[0]
        return Redis(host=host, port=port, **kwargs)
    watcher: dict[str, Any] = {
        **_common(),
        "retry": None,
        "socket_timeout": _SENTINEL_TIMEOUT_S,
        "username": options.sentinel_username,
        "password": options.sentinel_password,
    }
    if address.tls:
        watcher.update(ssl=True, **_tls(options, tls=True))
    watchers: Any = Sentinel  # redis-py has no annotations there
    sentinels = watchers(list(address.hosts), sentinel_kwargs=watcher)
    return cast("Redis", sentinels.master_for(options.sentinel, **kwargs))


async def close_client(client: AnyRedis) -> None:
    """
    Close all connections, those to Sentinels too, which redis-py leaves open.
    """
    with contextlib.suppress(*CLIENT_ERRORS):
        await client.aclose()
    manager = getattr(getattr(client, "connection_pool", None), "sentinel_manager", None)
    for sentinel in () if manager is None else manager.sentinels:
        with contextlib.suppress(*CLIENT_ERRORS):
            await sentinel.aclose()


def _common() -> dict[str, Any]:
    return {
        "protocol": 3,
        "socket_timeout": None,
        "socket_connect_timeout": None,
        "driver_info": None,
        "maint_notifications_config": MaintNotificationsConfig(enabled=False),
    }


def _login(address: Address) -> dict[str, Any]:
    return {"username": address.username, "password": address.password}


def _tls(options: Options, *, tls: bool) -> dict[str, Any]:
    if not tls:
        return {}
    return {
        "ssl_ca_certs": options.ca_file,
        "ssl_certfile": options.certificate_file,
        "ssl_keyfile": options.key_file,
        "ssl_cert_reqs": "required" if options.verify else "none",
        "ssl_check_hostname": options.verify,
    }
