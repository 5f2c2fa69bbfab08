"""
Heartbeats, on a loop and a connection of their own, so that a busy handler keeps its lease.

Between this loop and the handlers' only `call_soon_threadsafe` passes, and the
table of held leases, whose entries are plain attributes (see `leases`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Generic, TypeVar

from anarchon.backend import LeaseBackend, RenewAnswer, RenewRequest
from anarchon.clock import Clock
from anarchon.errors import BackendError, StoreUnavailableError
from anarchon.runtime import LoopStarter
from anarchon.scheduler.leases import HeldLease
from anarchon.scheduler.store_line import call_store

__all__ = ["Renewals", "run_on"]

T = TypeVar("T")

logger = logging.getLogger("anarchon")

_CLOSE_TIMEOUT_S = 1.0


class _Crossing(Generic[T]):
    """
    A coroutine that runs on another loop while this one waits for its result.
    """

    def __init__(self, here: asyncio.AbstractEventLoop, there: asyncio.AbstractEventLoop) -> None:
        self._here, self._there = here, there
        self._task: asyncio.Task[T] | None = None
        self.result: asyncio.Future[T] = here.create_future()

    def start(self, factory: Callable[[], Coroutine[Any, Any, T]]) -> None:
        """
        Start it over there.
        """
        self._there.call_soon_threadsafe(self._run, factory)

    def cancel(self) -> None:
        """
        Cancel it over there; nobody waits for it here any more.
        """

        def cancel_there() -> None:
            assert self._task is not None  # Its start came to the other loop before this did.
            self._task.cancel()

        with contextlib.suppress(RuntimeError):
            self._there.call_soon_threadsafe(cancel_there)

    def _run(self, factory: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self._task = self._there.create_task(factory())
        self._task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[T]) -> None:
        # The loop over here may have been closed meanwhile: then nobody is left to tell.
        with contextlib.suppress(RuntimeError):
            self._here.call_soon_threadsafe(self._settle, task)

    def _settle(self, task: asyncio.Task[T]) -> None:
        if self.result.done():
            return
        if task.cancelled():
            self.result.cancel()
        elif (error := task.exception()) is not None:
            self.result.set_exception(error)
        else:
            self.result.set_result(task.result())


async def run_on(
    loop: asyncio.AbstractEventLoop, factory: Callable[[], Coroutine[Any, Any, T]]
) -> T:
    """
    Run a coroutine on another loop, and wait for its result on this one.

    Raises:
        StoreUnavailableError: The other loop has ended.
    """
    crossing: _Crossing[T] = _Crossing(asyncio.get_running_loop(), loop)
    try:
        crossing.start(factory)
    except RuntimeError as error:
        msg = "the loop of the other connection has ended"
        raise StoreUnavailableError(msg) from error
    try:
        return await crossing.result
    except asyncio.CancelledError:
        crossing.cancel()
        raise


class Renewals:
    """
    Push the leases of this instance's runs forward, all with one call a heartbeat.

    Args:
        backend: The handlers' backend; its clone() serves here, and it is the
            second line when the clone's connection fails.

        clock: The instance's clocks.

        heartbeat_ms: How often leases are renewed.

        start_loop: Starts the loop of the renewals.

        heard: Told, on the handlers' loop, of the store's clock in an answer.

        beside: Runs beside the renewals, on their loop: what watches the handlers' loop.
    """

    def __init__(
        self,
        backend: LeaseBackend,
        *,
        clock: Clock,
        heartbeat_ms: int,
        start_loop: LoopStarter,
        heard: Callable[[int, int, int], None],
        beside: Callable[[], Coroutine[Any, Any, None]],
    ) -> None:
        self._main_backend = backend
        self._clock = clock
        self._heartbeat_ms = heartbeat_ms
        self._deadline_ms = max(50, heartbeat_ms // 2)
        self._start_loop = start_loop
        self._heard = heard
        self._beside = beside
        self._tasks: set[asyncio.Task[None]] = set()
        self._table: dict[str, HeldLease] = {}
        self._main_loop: asyncio.AbstractEventLoop | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._backend: LeaseBackend | None = None
        self._wake: asyncio.Event | None = None
        self._ending = False
        self._ended: asyncio.Event | None = None

    # On the handlers' loop.

    @property
    def table(self) -> dict[str, HeldLease]:
        """
        The leases that are renewed, by token.
        """
        return self._table

    async def start(self) -> None:
        """
        Start the loop of the renewals, and wait until it runs.
        """
        self._main_loop = asyncio.get_running_loop()
        ready, self._ended = asyncio.Event(), asyncio.Event()
        ended = self._ended

        async def main() -> None:
            await self._main(ready, ended)

        self._start_loop(main, name="anarchon-renewals")
        await ready.wait()

    def hold(self, lease: HeldLease) -> None:
        """
        Renew *lease* from the next heartbeat on. It comes within one heartbeat.
        """
        self._table[lease.token] = lease

    def drop(self, lease: HeldLease) -> None:
        """
        Renew *lease* no more. Safe from any thread.
        """
        self._table.pop(lease.token, None)
        if self._ending:
            self.poke()

    def poke(self) -> None:
        """
        Renew now: somebody waits to know. Safe from any thread.
        """
        loop, wake = self._loop, self._wake
        if loop is not None and wake is not None:
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(wake.set)

    async def over(self, call: Callable[[LeaseBackend], Coroutine[Any, Any, T]]) -> T:
        """
        Make a call over the renewals' connection, from another loop.

        Raises:
            StoreUnavailableError: There is no such connection, or it fails too.
        """
        assert self._loop is not None
        return await run_on(self._loop, lambda: self.direct(call))

    def over_soon(self, call: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """
        Run *call* on the renewals' loop; nobody waits for it. Safe from any thread.
        """
        loop = self._loop
        assert loop is not None

        def begin() -> None:
            task = loop.create_task(call())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(begin)

    async def stop(self) -> None:
        """
        End the renewals as soon as no lease is left to renew; wait for it briefly if none is.
        """
        self._ending = True
        self.poke()
        if not self._table and self._ended is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                    await self._ended.wait()

    # On the renewals' loop.

    async def _main(self, ready: asyncio.Event, ended: asyncio.Event) -> None:
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        self._tell(ready.set)
        beside = self._loop.create_task(self._beside(), name="anarchon-loop-watch")
        try:
            await self._reopen()
            await self._beat(self._wake)
        finally:
            beside.cancel()
            await asyncio.gather(beside, *self._tasks, return_exceptions=True)
            await self._close_quietly(self._backend)
            self._tell(ended.set)

    async def _beat(self, wake: asyncio.Event) -> None:
        """
        Renew once a heartbeat, sooner when poked or after a failure, while there is a lease.
        """
        pause_s = self._heartbeat_ms / 1_000
        while not self._ending or self._table:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await wake.wait()
            wake.clear()
            try:
                answered = await self._renew_all()
            except Exception:
                # The renewals outlive any bug: without them every run here is lost.
                logger.exception("renewing leases failed in an unforeseen way; it is tried again")
                answered = False
            pause_s = (self._heartbeat_ms if answered else self._heartbeat_ms // 10) / 1_000

    async def direct(self, call: Callable[[LeaseBackend], Coroutine[Any, Any, T]]) -> T:
        """
        Make a call over the renewals' connection, from its own loop.

        Raises:
            StoreUnavailableError: There is no connection right now, or it fails.
        """
        if self._backend is None:
            msg = "the renewals have no connection"
            raise StoreUnavailableError(msg)
        return await call_store(call(self._backend), timeout_ms=self._deadline_ms)

    async def _renew_all(self) -> bool:
        """
        Renew every lease, in pieces; says whether every piece was answered.
        """
        now_ms = self._clock.suspend_ms()
        leases = [
            lease
            for lease in list(self._table.values())
            if not lease.lost and (lease.renew_until_ms is None or now_ms < lease.renew_until_ms)
        ]
        # Every statement that touches several jobs locks them in this order.
        leases.sort(key=lambda lease: (lease.job, lease.slot))
        piece = self._main_backend.capabilities.batch_max
        answered = True
        for start in range(0, len(leases), piece):
            answered &= await self._renew(leases[start : start + piece])
        return answered

    async def _renew(self, leases: Sequence[HeldLease]) -> bool:
        sent_ms = self._clock.suspend_ms()
        requests = [self._request(lease, sent_ms) for lease in leases]
        try:
            answers = await self._ask(requests)
        except BackendError as error:
            logger.debug("a renewal was not answered: %s", error)
            return False
        received_ms = self._clock.suspend_ms()
        for lease, answer in zip(leases, answers, strict=True):
            if isinstance(answer, RenewAnswer):
                self._settle(lease, answer, sent_ms)
        first = next((answer for answer in answers if isinstance(answer, RenewAnswer)), None)
        if first is not None:
            self._tell(self._heard, first.store_now_ms, sent_ms, received_ms)
        return all(isinstance(answer, RenewAnswer) for answer in answers)

    @staticmethod
    def _request(lease: HeldLease, now_ms: int) -> RenewRequest:
        return RenewRequest(
            job=lease.job,
            slot=lease.slot,
            attempt=lease.attempt,
            token=lease.token,
            lease_ms=lease.lease_ms,
            started_ago_ms=None if lease.started_ms is None else now_ms - lease.started_ms,
        )

    @staticmethod
    def _settle(lease: HeldLease, answer: RenewAnswer, sent_ms: int) -> None:
        if answer.held:
            lease.sent_ms = max(lease.sent_ms, sent_ms)
        elif lease.closing:
            return  # The finish was there first; what it is answered decides.
        else:
            lease.lost = True
        if lease.changed is not None and (lease.lost or lease.awaited):
            lease.changed()

    async def _ask(self, requests: Sequence[RenewRequest]) -> Sequence[RenewAnswer | BackendError]:
        """
        Ask over the own connection; when it fails, over the handlers', while a new one is made.
        """
        if self._backend is not None:
            try:
                return await call_store(
                    self._backend.renew(requests, timeout_ms=self._deadline_ms),
                    timeout_ms=self._deadline_ms,
                )
            except BackendError:
                self._discard(self._backend)
        loop = self._main_loop
        assert loop is not None

        async def over_there() -> Sequence[RenewAnswer | BackendError]:
            return await self._main_backend.renew(requests, timeout_ms=self._deadline_ms)

        _, answers = await asyncio.gather(
            self._reopen(),
            call_store(run_on(loop, over_there), timeout_ms=self._deadline_ms),
            return_exceptions=True,
        )
        if not isinstance(answers, BaseException):
            return answers
        if self._backend is None:
            raise (
                answers
                if isinstance(answers, BackendError)
                else StoreUnavailableError(str(answers))
            )
        return await call_store(
            self._backend.renew(requests, timeout_ms=self._deadline_ms),
            timeout_ms=self._deadline_ms,
        )

    async def _reopen(self) -> None:
        """
        Make a fresh connection; a failure shows at the next renewal.
        """
        backend = self._main_backend.clone()
        try:
            await call_store(
                backend.open(timeout_ms=self._deadline_ms), timeout_ms=self._deadline_ms
            )
        except BackendError as error:
            logger.debug("the renewals' connection could not be opened: %s", error)
            return
        self._backend = backend

    def _discard(self, backend: LeaseBackend) -> None:
        """
        Drop a connection that failed; closing it must not hold up the renewals.
        """
        self._backend = None
        task = asyncio.get_running_loop().create_task(self._close_quietly(backend))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    @staticmethod
    async def _close_quietly(backend: LeaseBackend | None) -> None:
        """
        Close a connection that nobody needs; it may well be broken.
        """
        if backend is not None:
            with contextlib.suppress(Exception):
                async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                    await backend.close()

    def _tell(self, callback: Callable[..., None], *args: Any) -> None:
        """
        Call back on the handlers' loop, if it still runs.
        """
        assert self._main_loop is not None
        with contextlib.suppress(RuntimeError):
            self._main_loop.call_soon_threadsafe(callback, *args)
