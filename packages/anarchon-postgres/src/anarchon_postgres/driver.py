"""
The driver as this package uses it, with types: asyncpg carries none.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, cast

import asyncpg  # type: ignore[import-untyped]  # asyncpg ships no type information

__all__ = ["Connect", "Connection", "Prepared", "Row", "connect", "is_misconfiguration"]

Row = Mapping[str, Any]


class Prepared(Protocol):
    """
    A statement that the server keeps parsed.
    """

    async def fetch(self, *args: object) -> Sequence[Row]:
        """
        Run it in one round trip.
        """


class Connection(Protocol):
    """
    One connection of asyncpg, as far as it is used here.
    """

    async def fetch(self, query: str, /, *args: object) -> Sequence[Row]:
        """
        Run a statement and return its rows.
        """

    async def execute(self, query: str, /) -> str:
        """
        Run a script.
        """

    async def prepare(self, query: str, /, *, name: str) -> Prepared:
        """
        Have the server keep a statement under a name; one without a name is parsed anew at each use.
        """

    def transaction(self, *, isolation: str) -> AbstractAsyncContextManager[None]:
        """
        Begin and end a transaction by statements of its own.
        """

    async def add_listener(self, channel: str, callback: Callable[..., None], /) -> None:
        """
        LISTEN, and call back for each notification.
        """

    def add_termination_listener(self, callback: Callable[..., None], /) -> None:
        """
        Call back when the connection ends, however it does.
        """

    def get_server_pid(self) -> int:
        """
        Tell the process that greeted us.
        """

    def is_closed(self) -> bool:
        """
        Say whether the connection has ended.
        """

    def terminate(self) -> None:
        """
        End the connection now.
        """

    async def close(self, *, timeout: float) -> None:
        """
        End the connection in good order.
        """


Connect = Callable[..., Awaitable[Any]]
"""
What opens a connection: called as asyncpg.connect is, and returns what it returns.
"""

connect = cast("Connect", asyncpg.connect)


def is_misconfiguration(error: BaseException) -> bool:
    """
    Say whether the driver itself refused what the DSN says.
    """
    return isinstance(error, asyncpg.exceptions.ClientConfigurationError)
