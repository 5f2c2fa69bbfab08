"""
The connections of a client that stay at hand between calls.
"""

from __future__ import annotations

from typing import Any

from redis.asyncio import ConnectionPool, Redis
from redis.exceptions import ResponseError

from anarchon_redis.shortcut import Shortcut
from anarchon_redis.trouble import CLIENT_ERRORS

__all__ = ["Connections", "Lent"]


class Lent:
    """
    A connection that is one call's own.

    Args:
        connection: One of redis-py, connected.
    """

    __slots__ = ("_shortcut", "connection")

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self._shortcut = Shortcut.of(connection)

    async def send(self, command: bytes) -> None:
        """
        Send a command.
        """
        if self._shortcut is not None:
            self._shortcut.send(command)
        else:
            await self.connection.send_packed_command(command)

    async def answers(self, number: int) -> list[Any]:
        """
        Wait for the answers to so many commands; an error that the server told stands in its place.

        Raises:
            redis.RedisError: The connection broke.
        """
        told = [] if self._shortcut is None else await self._shortcut.answers(number)
        while len(told) < number:
            try:
                told.append(await self.connection.read_response())
            except ResponseError as error:
                told.append(error)
        return told

    async def is_clean(self) -> bool:
        """
        Tell whether the connection stands, and the server has said nothing that nobody has read.
        """
        if not self.connection.is_connected:
            return False
        if self._shortcut is None or self._shortcut.heard:
            try:
                if await self.connection.can_read():
                    return False
            except CLIENT_ERRORS:
                return False
        if self._shortcut is not None:
            self._shortcut.heard = False
        return True


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
        self._idle: list[Lent] = []

    async def take(self) -> Lent:
        """
        Give a connection that is ready, for one call.

        Raises:
            redis.RedisError: There is none to be had.
        """
        while self._idle:
            lent = self._idle.pop()
            if await lent.is_clean():
                return lent
            # The server has hung up, or has said something that nobody asked for.
            await self.drop(lent)
        return Lent(await self._pool.get_connection())

    async def keep(self, lent: Lent) -> None:
        """
        Take back a connection whose call was answered.
        """
        if self._keeps:
            self._idle.append(lent)
        else:
            await self._pool.release(lent.connection)

    async def drop(self, lent: Lent) -> None:
        """
        Close a connection whose call was not: an answer that comes later would be taken for the next call's.
        """
        await lent.connection.disconnect(nowait=True)
        await self._pool.release(lent.connection)
