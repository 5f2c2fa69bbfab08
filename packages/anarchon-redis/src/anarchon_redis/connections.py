"""
The connections of a client that stay at hand between calls.
"""

from __future__ import annotations

from typing import Any

from redis.asyncio import ConnectionPool, Redis

from anarchon_redis.trouble import CLIENT_ERRORS

__all__ = ["Connections"]


class Connections:
    """
    Lends the connections of a client's pool, one to a call.

    The pool's own lending counts and times each turn, which costs a call a sixth of
    its round trip; so a connection that served well is not given back at once.
    Those that Sentinel leads to are: their pool drops them when it hears of another
    primary.

    Args:
        client: The client of one server.
    """

    __slots__ = ("_idle", "_keeps", "_pool")

    def __init__(self, client: Redis) -> None:
        self._pool: Any = client.connection_pool  # redis-py has no annotations there
        self._keeps = type(self._pool) is ConnectionPool
        self._idle: list[Any] = []

    async def take(self) -> Any:
        """
        Give a connection that is ready, for one call.

        Raises:
            redis.RedisError: There is none to be had.
        """
        while self._idle:
            connection = self._idle.pop()
            if connection.is_connected and not await _spoilt(connection):
                return connection
            # The server has hung up, or has said something that nobody asked for.
            await self.drop(connection)
        return await self._pool.get_connection()

    async def keep(self, connection: Any) -> None:
        """
        Take back a connection whose call was answered.
        """
        if self._keeps:
            self._idle.append(connection)
        else:
            await self._pool.release(connection)

    async def drop(self, connection: Any) -> None:
        """
        Close a connection whose call was not: an answer that comes later would be taken for the next call's.
        """
        await connection.disconnect(nowait=True)
        await self._pool.release(connection)


async def _spoilt(connection: Any) -> bool:
    try:
        return bool(await connection.can_read())
    except CLIENT_ERRORS:
        return True
