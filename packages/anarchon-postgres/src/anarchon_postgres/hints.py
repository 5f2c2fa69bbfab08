"""
Hints: a connection that listens, and tells who watches a job that something about it changed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from anarchon.errors import BackendError, BackendStateError
from anarchon_postgres.driver import Connect
from anarchon_postgres.line import Line
from anarchon_postgres.schema import channel_of, quoted
from anarchon_postgres.session import Session

__all__ = ["Hints", "Offer"]

logger = logging.getLogger("anarchon")

_PROBE_PART = 0.75
_ARRIVE_TIMEOUT_S = 2.0
_LOOK_TIMEOUT_MS = 5_000
_PAUSE_S = 1.0
# Jobs that end in the same instant are told together.
_GATHER_S = 0.005


@dataclass(slots=True)
class Offer:
    """
    Whether hints arrive here; None until it was tried. A backend shares it with its copies.
    """

    hints: bool | None = None


@dataclass(slots=True, eq=False)
class _Watcher:
    """
    Somebody who waits, the jobs that it waits for, and those that it has heard of.
    """

    jobs: frozenset[str]
    heard: set[str] = field(default_factory=set)
    stirred: asyncio.Event = field(default_factory=asyncio.Event)


class Hints:
    """
    The listening connection of one backend; it is opened when it is needed first.

    Args:
        connect: See `driver.Connect`.

        dsn: Where to listen: directly, also where everything else goes through a pooler.

        place: The server in words.

        schema: Whose runs are watched.
    """

    def __init__(self, *, connect: Connect, dsn: str | None, place: str, schema: str) -> None:
        self._place = place
        self._channel = channel_of(schema)
        self._look = (
            f"SELECT job, live_slot, live_attempt FROM {quoted(schema)}.jobs"
            " WHERE job = ANY ($1::text[]) AND live_token IS NOT NULL"
        )
        self._line = Line(connect=connect, dsn=dsn, place=place, ready=self._listen)
        self._watchers: set[_Watcher] = set()
        self._probe = ""
        self._proven = asyncio.Event()
        self._closed = False

    async def prove(
        self, notify: Callable[[str, str], Awaitable[None]], *, timeout_ms: int
    ) -> bool:
        """
        Find out whether a notification that another connection sends is heard here.

        Behind a pooler that hands each transaction to any server connection LISTEN
        is accepted, and nothing ever arrives.

        Args:
            notify: Sends a payload on a channel, from another connection.

            timeout_ms: How long whoever opens the backend still has; a part of it is left for that.
        """

        async def pid(session: Session) -> str:
            return f"probe {session.connection.get_server_pid()}"

        try:
            # To connect may take its time on a busy machine, and says nothing of what arrives afterwards.
            async with asyncio.timeout(_PROBE_PART * timeout_ms / 1_000):
                self._probe = await self._line.run(pid, timeout_ms=timeout_ms)
                await notify(self._probe_channel, self._probe)
                async with asyncio.timeout(_ARRIVE_TIMEOUT_S):
                    await self._proven.wait()
        except (TimeoutError, BackendError) as error:
            await self._line.close()
            logger.warning(
                "%s: hints are off: no notification of another connection arrived (%s). A released run starts elsewhere"
                " at the next heartbeat; hints_dsn names the server's own address",
                self._place,
                str(error) or "LISTEN was accepted",
            )
            return False
        return True

    async def next(
        self, runs: Sequence[tuple[str, int, int]], *, timeout_ms: int
    ) -> frozenset[str]:
        """
        Wait until one of the watched runs is over, released or taken over.
        """
        loop = asyncio.get_running_loop()
        end_s = loop.time() + timeout_ms / 1_000
        watcher = _Watcher(frozenset(job for job, _, _ in runs))
        self._watchers.add(watcher)
        try:
            while not self._closed:
                left_s = end_s - loop.time()
                if left_s <= 0:
                    return frozenset()
                watcher.stirred.clear()
                try:
                    changed = await self._changed(runs, int(left_s * 1_000))
                except BackendStateError:
                    break
                except BackendError:
                    # A hint may be lost. Trouble that lasts shows in the calls that matter.
                    await asyncio.sleep(min(_PAUSE_S, left_s))
                    continue
                if changed:
                    return changed
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout_at(end_s):
                        await watcher.stirred.wait()
                        if watcher.heard:
                            await asyncio.sleep(_GATHER_S)
                if watcher.heard:
                    return frozenset(watcher.heard)
        finally:
            self._watchers.discard(watcher)
        msg = "this backend was closed while a hint was awaited"
        raise BackendStateError(msg)

    async def close(self) -> None:
        """
        End the watches and the connection.
        """
        self._closed = True
        self._stir()
        await self._line.close()

    @property
    def _probe_channel(self) -> str:
        return f"{self._channel}?"

    async def _listen(self, session: Session) -> None:
        """
        Make a new connection listen.
        """
        await session.connection.add_listener(self._channel, self._heard)
        await session.connection.add_listener(self._probe_channel, self._heard_probe)
        session.connection.add_termination_listener(self._stir)

    async def _changed(self, runs: Sequence[tuple[str, int, int]], left_ms: int) -> frozenset[str]:
        """
        Look which runs are no longer what somebody executes.
        """

        async def look(session: Session) -> frozenset[str]:
            jobs = sorted({job for job, _, _ in runs})
            rows = await session.connection.fetch(self._look, jobs)
            live = {row["job"]: (row["live_slot"], row["live_attempt"]) for row in rows}
            return frozenset(job for job, slot, attempt in runs if live.get(job) != (slot, attempt))

        return await self._line.run(look, timeout_ms=max(1, min(_LOOK_TIMEOUT_MS, left_ms)))

    def _heard(self, _connection: object, _pid: int, _channel: str, job: str) -> None:
        for watcher in self._watchers:
            if job in watcher.jobs:
                watcher.heard.add(job)
                watcher.stirred.set()

    def _heard_probe(self, _connection: object, _pid: int, _channel: str, payload: str) -> None:
        if payload == self._probe:
            self._proven.set()

    def _stir(self, _connection: object = None) -> None:
        """
        Make every watcher look again: the connection that would have told it has ended.
        """
        for watcher in self._watchers:
            watcher.stirred.set()
