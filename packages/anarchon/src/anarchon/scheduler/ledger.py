"""
Have outcomes recorded: finishes and releases in batches, asked until they are answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Generic, TypeAlias, TypeVar

from anarchon.backend import Backend, CloseAnswer, FinishRequest, LeaseBackend, ReleaseRequest
from anarchon.clock import Clock
from anarchon.errors import BackendError, RequestError, StoreUnavailableError
from anarchon.records import Reason, Status
from anarchon.scheduler.executor import Verdict
from anarchon.scheduler.pump import Pump
from anarchon.scheduler.renewals import Renewals
from anarchon.scheduler.runs import ActiveRun
from anarchon.scheduler.store_line import Backoff, StoreHealth, call_store

__all__ = ["ClaimOnlyLedger", "LeaseLedger"]

RequestT = TypeVar("RequestT", FinishRequest, ReleaseRequest)

_Work: TypeAlias = Callable[[], Coroutine[Any, Any, None]]

_RETRY_S = 1.0


@dataclass(slots=True, eq=False)
class _Entry(Generic[RequestT]):
    """
    A request that somebody waits for.
    """

    request: RequestT
    answer: asyncio.Future[CloseAnswer | BackendError | None]


class _Closings(Generic[RequestT]):
    """
    One kind of request, gathered into batches.
    """

    def __init__(
        self,
        call: Callable[[Sequence[RequestT]], Awaitable[Sequence[CloseAnswer | BackendError]]],
        *,
        batch_max: int,
        health: StoreHealth,
        random: Random,
        claims: Pump[Any, Any],
    ) -> None:
        self._call: Callable[
            [Sequence[RequestT]], Awaitable[Sequence[CloseAnswer | BackendError]]
        ] = call
        self._waiting: dict[_Entry[RequestT], None] = {}  # In order, as the executor's runs.
        self.pump: Pump[_Entry[RequestT], CloseAnswer] = Pump(
            send=self._send,
            answered=self._answered,
            wanted=lambda entry: not entry.answer.done(),
            batch_max=batch_max,
            health=health,
            backoff=Backoff(random),
            after=claims,
        )
        self._over = False

    async def work(self) -> None:
        """
        Send batches until cancelled: by stop(), or by a loop that ends without one.

        After that nobody waits here for an answer that cannot come.
        """
        try:
            await self.pump.work()
        except asyncio.CancelledError:
            self._over = True
            self.give_up()
            raise

    async def ask(self, request: RequestT) -> CloseAnswer | BackendError | None:
        """
        Send *request* until it is answered, or given up.
        """
        if self._over:
            return None
        entry = _Entry(request, asyncio.get_running_loop().create_future())
        self._waiting[entry] = None
        self.pump.put(entry)
        try:
            return await entry.answer
        finally:
            del self._waiting[entry]

    def give_up(self) -> None:
        """
        Answer None to all who wait: there is no time left.
        """
        for entry in tuple(self._waiting):
            if not entry.answer.done():
                entry.answer.set_result(None)

    async def _send(
        self, entries: Sequence[_Entry[RequestT]]
    ) -> Sequence[CloseAnswer | BackendError]:
        return await self._call([entry.request for entry in entries])

    def _answered(self, entry: _Entry[RequestT], answer: CloseAnswer | BackendError) -> None:
        if isinstance(answer, BackendError) and not isinstance(answer, RequestError):
            asyncio.get_running_loop().call_later(_RETRY_S, self.pump.put, entry)
        elif not entry.answer.done():
            entry.answer.set_result(answer)


class _Ledger:
    """
    What both kinds of ledger share: the finishes.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        clock: Clock,
        health: StoreHealth,
        random: Random,
        claims: Pump[Any, Any],
        timeout_ms: int,
    ) -> None:
        self._backend = backend
        self._clock = clock
        self._timeout_ms = timeout_ms
        self._finishes: _Closings[FinishRequest] = _Closings(
            self._finish,
            batch_max=backend.capabilities.batch_max,
            health=health,
            random=random,
            claims=claims,
        )

    @property
    def works(self) -> list[_Work]:
        """
        What has to be kept working.
        """
        return [self._finishes.work]

    def give_up(self) -> None:
        """
        Leave unanswered what the store has not answered by now.
        """
        self._finishes.give_up()

    async def _finish(
        self, requests: Sequence[FinishRequest]
    ) -> Sequence[CloseAnswer | BackendError]:
        return await call_store(
            self._backend.finish(requests, timeout_ms=self._timeout_ms), timeout_ms=self._timeout_ms
        )

    def _finish_request(self, run: ActiveRun, verdict: Verdict) -> FinishRequest:
        context = run.context
        return FinishRequest(
            job=context.job,
            slot=context.slot,
            attempt=context.attempt,
            token=context.token,
            status=verdict.status,
            reason=verdict.reason,
            error=verdict.error_text,
            started_ago_ms=self._started_ago_ms(run),
        )

    def _started_ago_ms(self, run: ActiveRun) -> int | None:
        return None if run.started_ms is None else self._clock.suspend_ms() - run.started_ms


class ClaimOnlyLedger(_Ledger):
    """
    Records on a store without leases: a run in progress at stop is recorded as interrupted.
    """

    async def record(self, run: ActiveRun, verdict: Verdict) -> CloseAnswer | BackendError | None:
        """
        Record how *run* ended.
        """
        request = self._finish_request(run, verdict)
        if verdict.status is Status.INTERRUPTED:
            request = FinishRequest(
                job=request.job,
                slot=request.slot,
                attempt=request.attempt,
                token=request.token,
                status=Status.INTERRUPTED,
                reason=Reason.STOPPED,
                started_ago_ms=request.started_ago_ms,
            )
        return await self._finishes.ask(request)


class LeaseLedger(_Ledger):
    """
    Records on a store with leases: finishes, and releases of what was not completed.

    When the handlers' connection fails, the calls go over the renewals'.
    """

    def __init__(
        self,
        backend: LeaseBackend,
        renewals: Renewals,
        *,
        clock: Clock,
        health: StoreHealth,
        random: Random,
        claims: Pump[Any, Any],
        timeout_ms: int,
    ) -> None:
        super().__init__(
            backend, clock=clock, health=health, random=random, claims=claims, timeout_ms=timeout_ms
        )
        self._lease_backend = backend
        self._renewals = renewals
        self._detached = False
        self._releases: _Closings[ReleaseRequest] = _Closings(
            self._release,
            batch_max=backend.capabilities.batch_max,
            health=health,
            random=random,
            claims=claims,
        )

    @property
    def works(self) -> list[_Work]:
        """
        What has to be kept working.
        """
        return [self._finishes.work, self._releases.work]

    async def record(self, run: ActiveRun, verdict: Verdict) -> CloseAnswer | BackendError | None:
        """
        Record how *run* ended; its lease is renewed until the store has answered.
        """
        lease = run.lease
        assert lease is not None
        lease.closing = True
        try:
            if lease.lost:
                return CloseAnswer(accepted=False)
            if self._detached:
                return await self._record_alone(run, verdict)
            if verdict.status is Status.INTERRUPTED:
                return await self._releases.ask(self._release_request(run))
            return await self._finishes.ask(self._finish_request(run, verdict))
        finally:
            self._renewals.drop(lease)

    def give_up(self) -> None:
        """
        Leave unanswered what the store has not answered by now.
        """
        super().give_up()
        self._releases.give_up()

    def detach(self) -> None:
        """
        stop() has ended: whatever still runs is recorded over the renewals' connection.
        """
        self._detached = True

    def adopt(self, run: ActiveRun, verdict: Verdict) -> None:
        """
        Record from a handler's thread how a run ended that outlasted stop().
        """
        lease = run.lease
        assert lease is not None

        async def record() -> None:
            lease.closing = True
            try:
                if not lease.lost:
                    await self._ask_there(run, verdict)
            finally:
                self._renewals.drop(lease)

        self._renewals.over_soon(record)

    async def _ask_there(self, run: ActiveRun, verdict: Verdict) -> None:
        """
        On the renewals' loop: ask until the store answers.
        """
        while True:
            try:
                await self._renewals.direct(lambda backend: self._single(backend, run, verdict))
            except BackendError:
                await asyncio.sleep(_RETRY_S)
            else:
                return

    async def _record_alone(
        self, run: ActiveRun, verdict: Verdict
    ) -> CloseAnswer | BackendError | None:
        while True:
            try:
                answers = await self._renewals.over(
                    lambda backend: self._single(backend, run, verdict)
                )
            except BackendError:
                await asyncio.sleep(_RETRY_S)
            else:
                return answers[0]

    async def _single(
        self, backend: LeaseBackend, run: ActiveRun, verdict: Verdict
    ) -> Sequence[CloseAnswer | BackendError]:
        if verdict.status is Status.INTERRUPTED:
            return await backend.release([self._release_request(run)], timeout_ms=self._timeout_ms)
        return await backend.finish(
            [self._finish_request(run, verdict)], timeout_ms=self._timeout_ms
        )

    def _release_request(self, run: ActiveRun) -> ReleaseRequest:
        context = run.context
        return ReleaseRequest(
            job=context.job,
            slot=context.slot,
            attempt=context.attempt,
            token=context.token,
            takeover=run.job.takeover,
            started_ago_ms=self._started_ago_ms(run),
        )

    async def _finish(
        self, requests: Sequence[FinishRequest]
    ) -> Sequence[CloseAnswer | BackendError]:
        try:
            return await super()._finish(requests)
        except StoreUnavailableError:
            return await self._renewals.over(
                lambda backend: backend.finish(requests, timeout_ms=self._timeout_ms)
            )

    async def _release(
        self, requests: Sequence[ReleaseRequest]
    ) -> Sequence[CloseAnswer | BackendError]:
        try:
            return await call_store(
                self._lease_backend.release(requests, timeout_ms=self._timeout_ms),
                timeout_ms=self._timeout_ms,
            )
        except StoreUnavailableError:
            return await self._renewals.over(
                lambda backend: backend.release(requests, timeout_ms=self._timeout_ms)
            )
