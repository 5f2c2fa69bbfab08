"""
One connection: many messages in flight at once, each with an answer, or all of them with an error.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from nats.aio.client import Client
from nats.aio.msg import Msg

from anarchon.errors import BackendError, StoreUnavailableError
from anarchon_nats.address import Address
from anarchon_nats.connecting import close_client, connect
from anarchon_nats.options import Options
from anarchon_nats.trouble import no_listener, server_error

__all__ = ["Letter", "Line", "connected_line"]

_STATUS: Final = "Status"
_NOBODY: Final = "503"
_END_TIMEOUT_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Letter:
    """
    A message that wants an answer.
    """

    subject: str
    payload: bytes = b""


class Line:
    """
    A connection to one server.

    nats-py gives each request a task and a timer; a batch of them goes out at once here, and
    what ends the connection ends all that wait on it.

    Args:
        address: The server.
    """

    def __init__(self, address: Address) -> None:
        self.address = address
        self.heard = 0
        self.ended: BackendError | None = None
        self._client: Client | None = None
        self._inbox = ""
        self._sent = 0
        self._said: str | None = None
        self._waiting: dict[str, asyncio.Future[dict[str, Any]]] = {}
        self._subjects: dict[str, str] = {}
        self._tasks: list[asyncio.Task[Any]] = []

    async def open(
        self, options: Options, *, context: ssl.SSLContext | None, timeout_s: float
    ) -> None:
        """
        Connect, and listen for answers.
        """
        self._client = client = await connect(
            self.address,
            options,
            context=context,
            timeout_s=timeout_s,
            told=self._told,
            ended=self._over,
        )
        self._inbox = client.new_inbox()
        heard = await client.subscribe(f"{self._inbox}.*", cb=self._answered)
        # nats-py forgets its tasks when it closes: they are held here until they have ended.
        kept = (
            client._reading_task,  # noqa: SLF001 - nats-py has no public name for any of them
            client._ping_interval_task,  # noqa: SLF001 - as above
            client._flusher_task,  # noqa: SLF001 - as above
            heard._wait_for_msgs_task,  # noqa: SLF001 - as above
        )
        self._tasks = [task for task in kept if task is not None]

    @property
    def info(self) -> dict[str, Any]:
        """
        What the server said of itself when the connection was made.
        """
        assert self._client is not None
        return self._client._server_info  # noqa: SLF001 - nats-py has no public name for it

    async def exchange(self, letters: Sequence[Letter]) -> list[dict[str, Any]]:
        """
        Send messages in one go, and return their answers, which are JSON objects.

        Raises:
            BackendError: The connection ended, or nobody listens to one of the subjects.
        """
        loop = asyncio.get_running_loop()
        names: list[str] = []
        futures: list[asyncio.Future[dict[str, Any]]] = []
        try:
            for letter in letters:
                self._check()
                self._sent += 1
                name = str(self._sent)
                names.append(name)
                futures.append(loop.create_future())
                self._waiting[name], self._subjects[name] = futures[-1], letter.subject
                assert self._client is not None
                await self._client.publish(
                    letter.subject, letter.payload, reply=f"{self._inbox}.{name}"
                )
            return [await future for future in futures]
        finally:
            for name, future in zip(names, futures, strict=False):
                self._waiting.pop(name, None)
                self._subjects.pop(name, None)
                if future.done() and not future.cancelled():
                    future.exception()  # One that nobody came to await is no news.

    async def close(self, reason: BackendError) -> None:
        """
        End the connection, and all that wait on it.
        """
        self._end(reason)
        if self._client is not None:
            await close_client(self._client)
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            ended, _ = await asyncio.wait(self._tasks, timeout=_END_TIMEOUT_S)
            for task in ended:
                if not task.cancelled():
                    task.exception()  # The connection is over; what it stumbled over is no news.

    def _check(self) -> None:
        if self.ended is not None:
            raise self.ended

    async def _answered(self, message: Msg) -> None:
        self.heard += 1
        name = message.subject.rpartition(".")[2]
        future = self._waiting.get(name)
        if future is None or future.done():
            return  # Whoever asked has given up.
        headers = message.headers or {}
        if headers.get(_STATUS) == _NOBODY:
            future.set_exception(no_listener(self._subjects[name], self.address.shown))
            return
        try:
            future.set_result(json.loads(message.data))
        except ValueError as error:
            trouble = StoreUnavailableError(f"{self.address.shown}: no JSON was answered: {error}")
            future.set_exception(trouble)

    def _told(self, words: str) -> None:
        """
        Hear what the server says outside of answers: a message that may not be sent is never answered.
        """
        words = words.removeprefix("nats: ")
        self._said = words
        if "permissions violation" in words.lower():
            self._fail(server_error(words, self.address.shown))

    def _over(self) -> None:
        words = "the connection ended" + (f": {self._said}" if self._said else "")
        last = None if self._client is None else self._client.last_error
        if last is not None:
            words = f"{words}: {str(last).removeprefix('nats: ')}"
        self._end(server_error(words, self.address.shown))

    def _end(self, reason: BackendError) -> None:
        if self.ended is None:
            self.ended = reason
        self._fail(self.ended)

    def _fail(self, reason: BackendError) -> None:
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(reason)


async def connected_line(
    address: Address, options: Options, *, context: ssl.SSLContext | None, timeout_s: float
) -> Line:
    """
    Open a line to one server.
    """
    line = Line(address)
    await line.open(options, context=context, timeout_s=timeout_s)
    return line
