"""
Hints by pub/sub: one channel a job, subscribed while somebody watches a run of it.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Collection, Sequence

from redis.asyncio import Redis
from redis.asyncio.client import PubSub

from anarchon.errors import StoreRefusedError, StoreUnavailableError
from anarchon_redis.bounds import Bounds
from anarchon_redis.client import close_client
from anarchon_redis.keys import Keys
from anarchon_redis.trouble import CLIENT_ERRORS

__all__ = ["Hints", "Run"]

_RETRY_S = 1.0

# Most runs end within a moment. To listen for those, a thousand in one instant, costs more than
# the runs themselves; a hand-over that comes so soon is heard of so much later.
_SETTLE_S = 0.1

Run = tuple[str, int, int]


class Hints:
    """
    A connection that listens, made when it is needed first.

    Args:
        client: A client of any one server; a Cluster passes messages on to all nodes.

        keys: Names the channels.

        look: Tells which of some runs have changed already.
    """

    def __init__(
        self,
        client: Redis,
        keys: Keys,
        look: Callable[[Sequence[Run], int], Awaitable[frozenset[str]]],
    ) -> None:
        self._client = client
        self._keys = keys
        self._look = look
        self._listener: PubSub | None = None
        self._channels: set[str] = set()
        self._turn = asyncio.Lock()
        self._bounds = Bounds()

    async def wait(self, runs: Sequence[Run], *, timeout_ms: int) -> frozenset[str]:
        """
        Wait until one of the runs may have changed; empty at the timeout.

        Trouble only makes the wait longer: what lasts shows in the calls that matter.
        """
        loop = asyncio.get_running_loop()
        end_s = loop.time() + max(0, timeout_ms) / 1_000
        found: frozenset[str] = frozenset()
        while not found and not self._bounds.closed and loop.time() < end_s:
            try:
                with self._bounds.within(end_s - loop.time()):
                    async with self._turn:
                        found = await self._listen(runs, end_s)
            except TimeoutError:
                break
            except (*CLIENT_ERRORS, StoreUnavailableError, StoreRefusedError):
                await self._hang_up()
                await asyncio.sleep(max(0.0, min(_RETRY_S, end_s - loop.time())))
        return found

    async def _listen(self, runs: Sequence[Run], end_s: float) -> frozenset[str]:
        """
        Subscribe, look once (a change before that has no message any more), and listen.
        """
        watched = {self._channel(job): job for job, _, _ in runs}
        wanted = set(runs)
        loop = asyncio.get_running_loop()
        if not self._channels.issuperset(watched):
            await asyncio.sleep(max(0.0, min(_SETTLE_S, end_s - loop.time())))
            found = await self._look(runs, max(1, int((end_s - loop.time()) * 1_000)))
            if found:
                return found
        listener = await self._subscribed(watched.keys())
        found = await self._look(runs, max(1, int((end_s - loop.time()) * 1_000)))
        while not found:
            if self._bounds.closed:
                break
            if not watched:
                await asyncio.sleep(max(0.0, end_s - loop.time()))
                break
            message = await listener.get_message(ignore_subscribe_messages=True, timeout=None)
            if message is None or message["type"] != "message":
                continue
            job = watched.get(_decoded(message["channel"]))
            slot, _, attempt = _decoded(message["data"]).partition(":")
            if job is not None and (job, int(slot), int(attempt)) in wanted:
                found = frozenset({job})
        return found

    async def _subscribed(self, channels: Collection[str]) -> PubSub:
        """
        Return a connection that listens to these channels, and soon to no other.
        """
        if self._listener is None:
            self._listener = self._client.pubsub()
            self._channels = set()
        listener = self._listener
        new = set(channels) - self._channels
        old = self._channels - set(channels)
        if old:
            await listener.unsubscribe(*old)
            self._channels -= old
        if new:
            waiting = set(new)
            await listener.subscribe(*new)
            self._channels |= new
            while waiting:
                message = await listener.get_message(timeout=None)
                if message is not None and message["type"] == "subscribe":
                    waiting.discard(_decoded(message["channel"]))
        return listener

    def _channel(self, job: str) -> str:
        return self._keys.of(job, "hints")[0]

    async def _hang_up(self) -> None:
        listener, self._listener = self._listener, None
        self._channels = set()
        if listener is not None:
            with contextlib.suppress(*CLIENT_ERRORS):
                await listener.aclose()  # type: ignore[no-untyped-call] # redis-py has no annotation there

    async def close(self) -> None:
        """
        End the watch that is under way, and the connection.
        """
        await self._bounds.close()
        await self._hang_up()
        await close_client(self._client)


def _decoded(text: bytes | str) -> str:
    return text.decode() if isinstance(text, bytes) else text
