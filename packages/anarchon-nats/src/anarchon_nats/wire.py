"""
The connection of a backend: made when it is needed, made again when it has ended, each call within a deadline.
"""

from __future__ import annotations

import asyncio
import random
import ssl
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, TypeVar

from anarchon.errors import BackendError, StoreUnavailableError
from anarchon_nats.address import Address
from anarchon_nats.connecting import tls_context
from anarchon_nats.line import Letter, Line, connected_line
from anarchon_nats.options import Options
from anarchon_nats.trouble import CLIENT_ERRORS, client_error

__all__ = ["Wire"]

T = TypeVar("T")

_CONNECT_S: Final = 5.0
_CONNECT_ONE_OF_S: Final = 2.0
_PAYLOAD_BYTES: Final = 1_048_576
_CLOSED: Final = "the backend was closed during the call; the outcome is unknown"


class Wire:
    """
    The servers of one cluster, one of which is spoken to at a time.

    Args:
        addresses: The servers that the user names. Each client begins with another one.

        options: How to log in.

        where: The servers in words.
    """

    def __init__(self, addresses: Sequence[Address], options: Options, where: str) -> None:
        self._addresses = addresses
        self._options = options
        self._where = where
        self._context: ssl.SSLContext | None = None
        self._files_read = False
        self._line: Line | None = None
        self._connecting: asyncio.Task[Line] | None = None
        self._waiting = 0
        self._closing: set[asyncio.Task[None]] = set()
        self._closed = False
        self.connections = 0
        self.payload_bytes_max = _PAYLOAD_BYTES

    async def bounded(self, work: Callable[[], Awaitable[T]], *, timeout_ms: int) -> T:
        """
        Do some work, which has ended by *timeout_ms*.

        Raises:
            StoreUnavailableError: It was not done in time, the connection ended, or the
                backend was closed meanwhile; the outcome is unknown.

            BackendError: The server refused.
        """
        line = self._line
        heard = 0 if line is None else line.heard
        try:
            async with asyncio.timeout(max(0, timeout_ms) / 1_000):
                return await work()
        except TimeoutError as error:
            if line is not None and line is self._line and line.heard == heard:
                # Not a word in all that time: the next call finds another way.
                self._drop(line)
            msg = f"{self._where} did not answer within {timeout_ms} ms; the outcome is unknown"
            raise StoreUnavailableError(msg) from error
        except CLIENT_ERRORS as error:
            raise client_error(error, self._where) from error

    async def exchange(self, letters: Sequence[Letter]) -> list[dict[str, Any]]:
        """
        Send messages in one go, and return their answers.
        """
        line = self._line
        if line is None or line.ended is not None:
            line = await self._connect()
        return await line.exchange(letters)

    async def ask(self, letter: Letter) -> dict[str, Any]:
        """
        Send one message, and return its answer.
        """
        return (await self.exchange([letter]))[0]

    async def hello(self) -> dict[str, Any]:
        """
        Connect, if that is still to be done, and return what the server says of itself.
        """
        line = self._line
        if line is None or line.ended is not None:
            line = await self._connect()
        return line.info

    async def close(self) -> None:
        """
        End the calls in flight, and the connection.
        """
        self._closed = True
        line = self._line
        if self._connecting is not None:
            self._connecting.cancel()
            (made,) = await asyncio.gather(self._connecting, return_exceptions=True)
            # Where it had ended already gather() comes back at once, before _made() was called.
            line = made if isinstance(made, Line) else line
        if line is not None:
            await line.close(StoreUnavailableError(_CLOSED))
        await asyncio.gather(*self._closing, return_exceptions=True)

    async def _connect(self) -> Line:
        """
        Wait for a connection that all calls share: who gives up leaves the others theirs.

        One that nobody waits for any more is given up: a try that met silence says nothing when
        that is over.
        """
        self._check_open()
        if self._line is not None:
            self._drop(self._line)  # It has ended; what nats-py has left of it goes, too.
        if self._connecting is None or self._connecting.cancelling():
            self._connecting = asyncio.get_running_loop().create_task(self._make())
            self._connecting.add_done_callback(self._made)
        connecting = self._connecting
        self._waiting += 1
        try:
            return await asyncio.shield(connecting)
        except asyncio.CancelledError:
            # Either the connection was given up, or whoever waits for it here has.
            self._check_open()
            raise
        finally:
            self._waiting -= 1
            if not self._waiting:
                connecting.cancel()

    def _check_open(self) -> None:
        if self._closed:
            raise StoreUnavailableError(_CLOSED)

    def _made(self, task: asyncio.Task[Line]) -> None:
        if task is self._connecting:
            self._connecting = None
        if not task.cancelled() and task.exception() is None:
            self._line = task.result()
            self.connections += 1
            self.payload_bytes_max = self._line.info.get("max_payload", _PAYLOAD_BYTES)

    async def _make(self) -> Line:
        if not self._files_read:
            asked = any(address.tls for address in self._addresses)
            self._context = await asyncio.to_thread(tls_context, self._options, asked=asked)
            self._files_read = True
        most_s = _CONNECT_S if len(self._addresses) == 1 else _CONNECT_ONE_OF_S
        order = random.sample(self._addresses, len(self._addresses))
        troubles: list[BackendError] = []
        for address in order:
            try:
                return await connected_line(
                    address, self._options, context=self._context, timeout_s=most_s
                )
            except BackendError as error:
                troubles.append(error)
            except TimeoutError:
                msg = f"{address.shown} did not let us in within {most_s:.0f} s"
                troubles.append(StoreUnavailableError(msg))
            except CLIENT_ERRORS as error:
                troubles.append(client_error(error, address.shown))
        # A node that is down may come back; a refusal counts when all refuse.
        passing = [each for each in troubles if isinstance(each, StoreUnavailableError)]
        raise (passing or troubles)[0]

    def _drop(self, line: Line) -> None:
        self._line = None
        reason = StoreUnavailableError(
            f"{line.address.shown} fell silent, and the connection was given up; the outcome is unknown"
        )
        task = asyncio.get_running_loop().create_task(line.close(reason))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
