"""
A backend whose every call travels through a port.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from anarchon.backend import (
    PROTOCOL_VERSION,
    ClaimAnswer,
    ClaimRequest,
    CloseAnswer,
    FinishRequest,
    RegisterAnswer,
    RegisterRequest,
    ReleaseRequest,
    RenewAnswer,
    RenewRequest,
)
from anarchon.capabilities import Capabilities, Reach
from anarchon.errors import BackendError, StoreUnavailableError
from anarchon.life import Life
from anarchon.records import RunRecord
from anarchon_simulation.kernel import Kernel
from anarchon_simulation.network import Line, Port
from anarchon_simulation.store import SimulatedStore

__all__ = ["SimulatedBackend"]


class SimulatedBackend:
    """
    One instance's connection to the simulated store. It is a `LeaseBackend`.

    Args:
        kernel: The world's.

        store: The store.

        port: The way there.

        instance: Whose connection it is.

        capabilities: What it declares.
    """

    protocol_version: ClassVar[int] = PROTOCOL_VERSION

    def __init__(
        self,
        kernel: Kernel,
        store: SimulatedStore,
        port: Port,
        instance: str,
        *,
        hints: bool = False,
        batch_max: int = 256,
        connection: int = 0,
    ) -> None:
        self._kernel = kernel
        self._store = store
        self._port = port
        self._line = Line(instance, connection)
        self._capabilities = Capabilities(
            leases=store.leases,
            hints=hints and store.leases,
            store_clock=True,
            reach=Reach.NETWORK,
            batch_max=batch_max,
        )
        self._life = Life()

    @property
    def capabilities(self) -> Capabilities:
        """
        What it promises.
        """
        return self._capabilities

    @property
    def service(self) -> str:
        """
        The store in words.
        """
        return "a simulated store"

    def clone(self) -> SimulatedBackend:
        """
        Return another connection of the same instance.
        """
        return SimulatedBackend(
            self._kernel,
            self._store,
            self._port,
            self._line.instance,
            hints=self._capabilities.hints,
            batch_max=self._capabilities.batch_max,
            connection=self._line.connection + 1,
        )

    async def open(self, *, timeout_ms: int) -> None:
        """
        Connect.
        """
        async with self._life.opening():
            await self._ask(lambda: None, timeout_ms)

    async def close(self) -> None:
        """
        Disconnect.
        """
        self._life.close()

    async def time(self, *, timeout_ms: int) -> int | None:
        """
        Ask the store's wall clock.
        """
        self._life.check_open()
        told: int | None = await self._ask(self._store.time, timeout_ms)
        return told

    async def claim(
        self, requests: Sequence[ClaimRequest], *, timeout_ms: int
    ) -> Sequence[ClaimAnswer | BackendError]:
        """
        Claim runs.
        """
        return await self._batch("claim", requests, timeout_ms)

    async def register(
        self, requests: Sequence[RegisterRequest], *, timeout_ms: int
    ) -> Sequence[RegisterAnswer | BackendError]:
        """
        Make jobs known.
        """
        return await self._batch("register", requests, timeout_ms)

    async def renew(
        self, requests: Sequence[RenewRequest], *, timeout_ms: int
    ) -> Sequence[RenewAnswer | BackendError]:
        """
        Push leases forward.
        """
        return await self._batch("renew", requests, timeout_ms)

    async def finish(
        self, requests: Sequence[FinishRequest], *, timeout_ms: int
    ) -> Sequence[CloseAnswer | BackendError]:
        """
        Close runs.
        """
        return await self._batch("finish", requests, timeout_ms)

    async def release(
        self, requests: Sequence[ReleaseRequest], *, timeout_ms: int
    ) -> Sequence[CloseAnswer | BackendError]:
        """
        Hand runs over.
        """
        return await self._batch("release", requests, timeout_ms)

    async def history(self, job: str | None, *, limit: int, timeout_ms: int) -> Sequence[RunRecord]:
        """
        Read the records.
        """
        self._life.check_open()
        records: Sequence[RunRecord] = await self._ask(
            lambda: self._store.history(job, limit), timeout_ms
        )
        return records

    async def next_hint(
        self, runs: Sequence[tuple[str, int, int]], *, timeout_ms: int
    ) -> frozenset[str]:
        """
        Wait for a hint. It may be lost, as a message may.
        """
        self._life.check_open()
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[str] = loop.create_future()
        jobs = {job for job, _, _ in runs}

        def deliver(job: str) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(_settle, waiter, job)

        def told(job: str) -> None:
            if job in jobs:
                self._port.push(self._line, lambda: deliver(job))

        for job in sorted(self._store.over(runs)):
            told(job)
        end = self._store.watch(told)
        # The store forgets the watch by itself: a crashed instance never takes it back.
        self._kernel.after(timeout_ms * 1_000, end)
        try:
            async with asyncio.timeout(timeout_ms / 1_000):
                return frozenset([await waiter])
        except TimeoutError:
            return frozenset()
        finally:
            end()

    async def _batch(self, method: str, requests: Sequence[Any], timeout_ms: int) -> list[Any]:
        self._life.check_open()
        if not requests:
            return []
        batch = tuple(requests)
        answers: list[Any] = await self._ask(
            lambda: self._store.serve(method, batch, self._line.instance), timeout_ms
        )
        return answers

    async def _ask(self, serve: Callable[[], Any], timeout_ms: int) -> Any:
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[Any] = loop.create_future()

        def reply(answer: Any) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(_settle, waiter, answer)

        self._port.send(self._line, serve, reply)
        try:
            async with asyncio.timeout(timeout_ms / 1_000):
                return await waiter
        except TimeoutError:
            msg = f"the store did not answer within {timeout_ms} ms"
            raise StoreUnavailableError(msg) from None


def _settle(waiter: asyncio.Future[Any], answer: Any) -> None:
    if waiter.done():
        return
    if isinstance(answer, BackendError):
        waiter.set_exception(answer)
    else:
        waiter.set_result(answer)
