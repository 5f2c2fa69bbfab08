"""
The memory backend with leases, on the table of answers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import ClassVar, TypeVar

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
from anarchon.errors import BackendError
from anarchon.memory.opened import OpenedMemory
from anarchon.protocol import (
    Change,
    Now,
    decide_claim,
    decide_finish,
    decide_register,
    decide_release,
    decide_renewal,
)
from anarchon.protocol.closing import started_ms_of

__all__ = ["MemoryBackend"]

Answer = TypeVar("Answer")

_BATCH_MAX = 256


class MemoryBackend(OpenedMemory):
    """
    Keep leases in the memory of this process.

    Several schedulers of one process share a store by ``MemoryBackend(store)``
    or clone(). Nothing survives the process.
    """

    protocol_version: ClassVar[int] = PROTOCOL_VERSION
    keeps_leases: ClassVar[bool] = True

    @property
    def capabilities(self) -> Capabilities:
        """
        Leases and hints, within one process.
        """
        return Capabilities(
            leases=True, hints=True, store_clock=True, reach=Reach.PROCESS, batch_max=_BATCH_MAX
        )

    async def claim(
        self,
        requests: Sequence[ClaimRequest],
        *,
        timeout_ms: int,  # noqa: ARG002 - memory answers at once
    ) -> Sequence[ClaimAnswer | BackendError]:
        """
        Answer claims by the table.
        """

        def serve(request: ClaimRequest, now: Now) -> ClaimAnswer:
            return self._apply(
                request.job, decide_claim(self._store.states.get(request.job), request, now)
            )

        return self._each(requests, serve)

    async def register(
        self,
        requests: Sequence[RegisterRequest],
        *,
        timeout_ms: int,  # noqa: ARG002 - memory answers at once
    ) -> Sequence[RegisterAnswer | BackendError]:
        """
        Make jobs known.
        """

        def serve(request: RegisterRequest, now: Now) -> RegisterAnswer:
            return self._apply(
                request.job, decide_register(self._store.states.get(request.job), request, now)
            )

        return self._each(requests, serve)

    async def renew(
        self,
        requests: Sequence[RenewRequest],
        *,
        timeout_ms: int,  # noqa: ARG002 - memory answers at once
    ) -> Sequence[RenewAnswer | BackendError]:
        """
        Push leases forward.
        """

        def serve(request: RenewRequest, now: Now) -> RenewAnswer:
            change = decide_renewal(self._store.states.get(request.job), request, now)
            if change.answer.held:
                started_ms = started_ms_of(request.started_ago_ms, now)
                self._store.started(request.job, request.slot, request.attempt, started_ms)
            return self._apply(request.job, change)

        return self._each(requests, serve)

    async def finish(
        self,
        requests: Sequence[FinishRequest],
        *,
        timeout_ms: int,  # noqa: ARG002 - memory answers at once
    ) -> Sequence[CloseAnswer | BackendError]:
        """
        Close runs whose handlers have ended.
        """

        def serve(request: FinishRequest, now: Now) -> CloseAnswer:
            store = self._store
            record = store.view(request.job, request.slot, request.attempt)
            change = decide_finish(store.states.get(request.job), record, request, now)
            return self._apply(request.job, change)

        return self._telling(requests, self._each(requests, serve))

    async def release(
        self,
        requests: Sequence[ReleaseRequest],
        *,
        timeout_ms: int,  # noqa: ARG002 - memory answers at once
    ) -> Sequence[CloseAnswer | BackendError]:
        """
        Hand runs over.
        """

        def serve(request: ReleaseRequest, now: Now) -> CloseAnswer:
            store = self._store
            record = store.view(request.job, request.slot, request.attempt)
            change = decide_release(store.states.get(request.job), record, request, now)
            return self._apply(request.job, change)

        return self._telling(requests, self._each(requests, serve))

    async def next_hint(
        self, runs: Sequence[tuple[str, int, int]], *, timeout_ms: int
    ) -> frozenset[str]:
        """
        Wait until one of the watched runs is finished or released, or the backend is closed.
        """
        self._check()
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        jobs = {job for job, _, _ in runs}
        heard: set[str] = set()

        def wake() -> None:
            if not waiter.done():
                waiter.set_result(None)

        def listen(job: str) -> None:
            if job in jobs:
                heard.add(job)
                loop.call_soon_threadsafe(wake)

        self._store.listeners[listen] = None
        self._watches[wake] = None
        try:
            heard.update(self._already_over(runs))
            if not heard:
                async with asyncio.timeout(timeout_ms / 1_000):
                    await waiter
        except TimeoutError:
            pass
        finally:
            self._store.listeners.pop(listen, None)
            self._watches.pop(wake, None)
        return frozenset(heard)

    def _already_over(self, runs: Sequence[tuple[str, int, int]]) -> set[str]:
        """
        Find the runs that changed before anybody listened.
        """
        over = set()
        with self._store.lock:
            for job, slot, attempt in runs:
                state = self._store.states.get(job)
                live = None if state is None else state.live
                if (
                    live is None
                    or live.token is None
                    or (live.slot, live.attempt) != (slot, attempt)
                ):
                    over.add(job)
        return over

    def _apply(self, job: str, change: Change[Answer]) -> Answer:
        if change.state is not None:
            self._store.states[job] = change.state
        if change.records:
            self._store.write(job, change.records)
        return change.answer

    def _telling(
        self,
        requests: Sequence[FinishRequest | ReleaseRequest],
        answers: list[CloseAnswer | BackendError],
    ) -> list[CloseAnswer | BackendError]:
        """
        Hint outside of the lock that runs have ended.
        """
        for request, answer in zip(requests, answers, strict=True):
            if isinstance(answer, CloseAnswer) and answer.accepted:
                self._store.tell(request.job)
        return answers
