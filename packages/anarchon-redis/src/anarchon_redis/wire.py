"""
Calls of scripts over one client: a batch in one round trip, in pieces, each within a deadline.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from redis.asyncio import RedisCluster
from redis.exceptions import NoScriptError

from anarchon.errors import BackendError, StoreRefusedError, StoreUnavailableError
from anarchon_redis.bounds import Bounds
from anarchon_redis.client import CONNECTIONS_MAX, AnyRedis, close_client
from anarchon_redis.commands import packed_command
from anarchon_redis.connections import Connections
from anarchon_redis.scripts import Script
from anarchon_redis.trouble import CLIENT_ERRORS, store_error

__all__ = ["Piece", "Wire"]

T = TypeVar("T")

_CLOSE_TIMEOUT_S = 1.0

# What json.loads does around it would cost a call as much again.
_read = json.JSONDecoder().raw_decode


@dataclass(frozen=True, slots=True)
class Piece:
    """
    One call of a script: some items of a batch, which no other client interrupts.
    """

    script: Script
    keys: Sequence[str]
    arguments: Sequence[str]

    def words(self) -> tuple[str, ...]:
        """
        Write the command.
        """
        return ("EVALSHA", self.script.digest, str(len(self.keys)), *self.keys, *self.arguments)


class Wire:
    """
    A client, and the deadlines of the calls on it.

    Args:
        client: redis-py's client, without retries of its own.

        where: The server in words.

        cluster: The client is one of a Cluster.
    """

    def __init__(self, client: AnyRedis, where: str, *, cluster: bool) -> None:
        # One stub of many serves both kinds: what is called here, both have.
        self._client: Any = client
        self._connections = None if isinstance(client, RedisCluster) else Connections(client)
        self._where = where
        self.cluster = cluster
        self._turns = asyncio.Semaphore(CONNECTIONS_MAX)
        self._bounds = Bounds()
        self._resets: set[asyncio.Task[None]] = set()

    async def bounded(self, work: Callable[[], Awaitable[T]], *, timeout_ms: int) -> T:
        """
        Do some work on the client, which has ended by *timeout_ms*.

        Raises:
            StoreUnavailableError: It was not done in time, the connection broke, or
                the backend was closed meanwhile; the outcome is unknown.

            BackendError: The server refused.
        """
        try:
            with self._bounds.within(max(0, timeout_ms) / 1_000):
                async with self._turns:
                    return await work()
        except BackendError:
            raise
        except TimeoutError as error:
            if self._bounds.closed:
                msg = "the backend was closed during the call; the outcome is unknown"
                raise StoreUnavailableError(msg) from error
            self._forget_the_map()
            msg = f"{self._where} did not answer within {timeout_ms} ms; the outcome is unknown"
            raise StoreUnavailableError(msg) from error
        except CLIENT_ERRORS as error:
            if self._bounds.closed:
                msg = "the backend was closed during the call; the outcome is unknown"
                raise StoreUnavailableError(msg) from error
            trouble = store_error(error, self._where)
            if isinstance(trouble, StoreUnavailableError):
                self._forget_the_map()
            raise trouble from error

    async def command(self, *words: str | int) -> Any:
        """
        Send one plain command.
        """
        return await self._client.execute_command(*words)

    async def set_if_absent(self, key: str, value: str) -> bytes | None:
        """
        Set a key that nobody has set; return what stood there before.
        """
        return cast("bytes | None", await self._client.set(key, value, nx=True, get=True))

    async def time_of(self, key: str) -> tuple[Any, Any]:
        """
        Ask for the clock: in a Cluster, that of the node that has the key.
        """
        if self.cluster:
            await self._client.initialize()
            node = self._client.get_node_from_key(key)
            seconds, micros = await node.execute_command("TIME")
        else:
            seconds, micros = await self.command("TIME")
        return seconds, micros

    async def hello(self) -> Any:
        """
        Ask the server who it is.
        """
        if not self.cluster:
            return await self.command("HELLO")
        await self._client.initialize()
        return await self._client.get_default_node().execute_command("HELLO")

    async def memory(self) -> dict[str, Any]:
        """
        Ask what the server does when its memory is full; empty if it will not say.
        """
        try:
            if self.cluster:
                node = self._client.get_default_node()
                return cast("dict[str, Any]", await self._client.info("memory", target_nodes=node))
            return cast("dict[str, Any]", await self._client.info("memory"))
        except CLIENT_ERRORS:
            # A user without the right to ask is no less served for that.
            return {}

    async def load(self, scripts: Sequence[Script]) -> None:
        """
        Make scripts known to the server, or to every primary of the Cluster.
        """
        if self.cluster:
            for script in scripts:
                await self._client.script_load(script.source)
            return
        line = self._client.pipeline(transaction=False)
        for script in scripts:
            line.execute_command("SCRIPT LOAD", script.source)
        await line.execute()

    async def run(
        self, pieces: Iterable[Piece], *, wait: tuple[int, int] | None = None
    ) -> list[Any]:
        """
        Call scripts in one round trip, and return what each answered.

        Args:
            pieces: The calls. One is sent before the next is asked for, so that the server
                works on it while that is being written.

            wait: How many replicas must have got the writes, and for how many
                milliseconds to wait for them.

        Raises:
            BackendError: One of the calls failed.
        """
        sent: list[Piece] = []
        told, replicas = await self._send(pieces, wait, sent)
        unknown = [place for place, answer in enumerate(told) if isinstance(answer, NoScriptError)]
        if unknown:
            # The server was restarted, or somebody has flushed its scripts.
            await self.load(list({sent[place].script for place in unknown}))
            again, replicas = await self._send([sent[place] for place in unknown], wait, [])
            for place, answer in zip(unknown, again, strict=True):
                told[place] = answer
        answers = self._checked(told)
        if wait is not None and replicas < wait[0]:
            msg = (
                f"{self._where}: {replicas} of {wait[0]} replicas had the claims after {wait[1]} ms; asked again"
                " with the same tokens they are told as won once enough have them"
            )
            raise StoreUnavailableError(msg)
        return answers

    async def _send(
        self, pieces: Iterable[Piece], wait: tuple[int, int] | None, sent: list[Piece]
    ) -> tuple[list[Any], int]:
        """
        Send pieces and note them in *sent*; return what was answered, and by how many replicas it is kept.
        """
        last = None if wait is None else ("WAIT", *map(str, wait))
        if self._connections is None:
            told = await self._through_pipeline(pieces, last, sent)
        else:
            told = await self._at_once(self._connections, pieces, last, sent)
        if last is None:
            return told, 0
        replicas = told.pop()
        if isinstance(replicas, Exception):
            raise replicas
        return told, replicas

    async def _through_pipeline(
        self, pieces: Iterable[Piece], last: Sequence[str] | None, sent: list[Piece]
    ) -> list[Any]:
        """
        Send commands to the nodes that have their keys, one round trip for each node.
        """
        line = self._client.pipeline(transaction=False)
        for piece in pieces:
            sent.append(piece)
            line.execute_command(*piece.words())
        if last is not None:
            line.execute_command(*last)
        told: list[Any] = await line.execute(raise_on_error=False)
        return told

    async def _at_once(
        self,
        connections: Connections,
        pieces: Iterable[Piece],
        last: Sequence[str] | None,
        sent: list[Piece],
    ) -> list[Any]:
        """
        Send commands over one connection, and read as many answers.

        What redis-py does around that (retries, measurements, callbacks) would cost
        more than the claim itself.
        """
        lent = await connections.take()
        try:
            for piece in pieces:
                sent.append(piece)
                await lent.send(packed_command(piece.words()))
            if last is not None:
                await lent.send(packed_command(last))
            told = await lent.answers(len(sent) + (last is not None))
        except BaseException:
            await connections.drop(lent)
            raise
        await connections.keep(lent)
        return told

    def _checked(self, told: Sequence[Any]) -> list[Any]:
        """
        Read the answers of scripts, or raise the first error among them.
        """
        failed = next((answer for answer in told if isinstance(answer, Exception)), None)
        if failed is None:
            return [_read(answer.decode())[0] for answer in told]
        trouble = store_error(failed, self._where)
        if isinstance(trouble, StoreUnavailableError):
            # A pipeline hands out the errors of its nodes without asking anew itself.
            self._forget_the_map()
        if isinstance(trouble, StoreRefusedError) and len(told) > 1:
            trouble = StoreUnavailableError(f"{trouble}; a part of the batch may have been written")
        raise trouble from failed

    def _forget_the_map(self) -> None:
        """
        Let a Cluster's client ask anew who has which keys: a node that is silent may have been replaced.

        It does so beside the calls, whose deadlines may be too short for it.
        """
        if self.cluster and not self._bounds.closed and not self._resets:
            reset = asyncio.get_running_loop().create_task(self._ask_for_the_map())
            self._resets.add(reset)
            reset.add_done_callback(self._resets.discard)

    async def _ask_for_the_map(self) -> None:
        # The next call asks again, and tells what is wrong.
        with contextlib.suppress(*CLIENT_ERRORS):
            await self._client.aclose()
            await self._client.initialize()

    async def close(self) -> None:
        """
        End the calls in flight, and the connections.
        """
        try:
            async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                await self._bounds.close()
                for reset in self._resets:
                    reset.cancel()
                await asyncio.gather(*self._resets, return_exceptions=True)
                await close_client(self._client)
        except TimeoutError:
            # The sockets are closed either way; nobody waits for a server's last word.
            return
