"""
How many calls reach a store, counted by its server and not by whoever sends them.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Mapping
from typing import Protocol

import anarchon_testbed as testbed

__all__ = ["Calls", "calls_of"]

_STATEMENT = re.compile(r' FROM "?\w+"?\.(\w+?)_v\d+\(')
_SCRIPT = re.compile(r"cmdstat_evalsha:calls=(\d+)")


class Calls(Protocol):
    """
    The calls that a server has had since it was last asked to begin anew.
    """

    async def begin(self) -> None:
        """
        Count from now on.
        """

    async def read(self) -> Mapping[str, int]:
        """
        Give how many there were, by what was called.
        """


class _RedisCalls:
    """
    Redis counts what it is sent. A batch is one call of a script, or a few, in one round trip.
    """

    def __init__(self, server: testbed.RedisServer) -> None:
        self._server = server

    async def begin(self) -> None:
        """
        Set its counters to zero, as its own restart does.
        """
        await asyncio.to_thread(self._server.command, "CONFIG", "RESETSTAT")

    async def read(self) -> Mapping[str, int]:
        """
        Read the counter of scripts.
        """
        told = await asyncio.to_thread(self._server.command, "INFO", "commandstats")
        found = _SCRIPT.search(told.decode())
        return {"script": int(found[1])} if found else {}


class _PostgresCalls:
    """
    PostgreSQL writes each statement into its log before it is carried out. A batch is one statement.

    Its statistics would not do: a session tells them up to ten seconds late.
    """

    def __init__(self, server: testbed.PostgresServer) -> None:
        self._server = server
        self._seen = 0

    async def begin(self) -> None:
        """
        Leave out what the log has.
        """
        self._seen = len(self._server.log)

    async def read(self) -> Mapping[str, int]:
        """
        Count the statements that call a function of the store's.
        """
        log = await asyncio.to_thread(lambda: self._server.log)
        return Counter(_STATEMENT.findall(log[self._seen :]))


def calls_of(server: testbed.Server) -> Calls:
    """
    Give the counter of a server.

    Raises:
        TypeError: Such a server is not counted.
    """
    if isinstance(server, testbed.RedisServer):
        return _RedisCalls(server)
    if isinstance(server, testbed.PostgresServer):
        return _PostgresCalls(server)
    raise TypeError(f"the calls of {server.name} are not counted")
