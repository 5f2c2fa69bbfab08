"""
The shorter way of an answer: from the socket to the call that waits for it, past the client's stream.
"""

from __future__ import annotations

import asyncio
from typing import Any, Self

__all__ = ["Shortcut"]

_BULK = ord("$")
_INTEGER = ord(":")
_END = b"\r\n"


class Shortcut(asyncio.Protocol):
    """
    Stands between a connection's transport and redis-py, and reads plain answers itself.

    redis-py's stream and parser take longer for a claim's answer than the server for the
    claim. So while a call waits, texts and integers go straight to it. All else that may
    come (an error, a push, the connection's end) goes on to redis-py, which reads it as
    it always does; and so does everything that comes while no call waits.

    Args:
        transport: That of the connection, which has logged in.

        behind: What redis-py reads from.
    """

    __slots__ = ("_behind", "_missing", "_rest", "_told", "_transport", "_waiter", "heard")

    def __init__(self, transport: asyncio.Transport, behind: asyncio.Protocol) -> None:
        self._transport = transport
        self._behind = behind
        self._waiter: asyncio.Future[None] | None = None
        self._missing = 0
        self._told: list[Any] = []
        self._rest = b""
        self.heard = False
        """
        Whether anything went to redis-py: there may be something to read, or nothing any more.
        """

    @classmethod
    def of(cls, connection: Any) -> Self | None:
        """
        Return the shortcut of a connection of redis-py, made at its first use.

        Args:
            connection: One that is connected, with nothing left to read.

        Returns:
            None where the client does not keep its stream where we look for it.
        """
        # redis-py has no public way to its transport.
        transport: Any = getattr(getattr(connection, "_writer", None), "transport", None)
        if transport is None:
            return None
        behind = transport.get_protocol()
        if isinstance(behind, cls):
            # What the client has asked itself in between was answered, or it would not lend the connection.
            behind.heard = False
            return behind
        shortcut = cls(transport, behind)
        transport.set_protocol(shortcut)
        return shortcut

    def send(self, command: bytes) -> None:
        """
        Write a command. What the socket does not take at once is sent while the answers are awaited.
        """
        self._transport.write(command)

    async def answers(self, number: int) -> list[Any]:
        """
        Wait for plain answers.

        Returns:
            As many as came before all were there or something else came; what came then is for redis-py to read.
        """
        told: list[Any] = []
        self._told = told
        if self.heard:
            # The connection has ended, and nothing more will come.
            return told
        self._missing = number
        self._waiter = waiter = asyncio.get_running_loop().create_future()
        try:
            await waiter
        finally:
            self._waiter = None
        return told

    def data_received(self, data: bytes) -> None:
        """
        Take the answers that are whole, and keep what has begun.
        """
        waiter = self._waiter
        if waiter is None or waiter.done():
            self._pass_on(data)
            return
        if self._rest:
            data = self._rest + data
        place, size = 0, len(data)
        while self._missing and (end := data.find(_END, place)) >= 0:
            kind = data[place]
            if kind == _BULK:
                begin, place_after = end + 2, end + 2 + int(data[place + 1 : end])
                if place_after + 2 > size:
                    break
                self._told.append(data[begin:place_after])
                place = place_after + 2
            elif kind == _INTEGER:
                self._told.append(int(data[place + 1 : end]))
                place = end + 2
            else:
                self._rest = data[place:]
                self._leave()
                return
            self._missing -= 1
        self._rest = data[place:]
        if not self._missing:
            self._leave()

    def eof_received(self) -> bool | None:
        """
        Tell redis-py that the server has hung up.
        """
        self._leave()
        self.heard = True
        return self._behind.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        """
        Tell redis-py that the connection has ended.
        """
        self._leave()
        self.heard = True
        self._behind.connection_lost(exc)

    def pause_writing(self) -> None:
        """
        Let redis-py's own commands wait.
        """
        self._behind.pause_writing()

    def resume_writing(self) -> None:
        """
        Let them go on.
        """
        self._behind.resume_writing()

    def _leave(self) -> None:
        """
        Let the call go on with what it has; what else has come is for redis-py.
        """
        rest, self._rest = self._rest, b""
        if rest:
            self._pass_on(rest)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _pass_on(self, data: bytes) -> None:
        self.heard = True
        self._behind.data_received(data)
