"""
Backends that are wrong about batches, and about callers who go away.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from anarchon.backend import (
    ClaimAnswer,
    ClaimRequest,
    CloseAnswer,
    FinishRequest,
    ReleaseRequest,
    RenewAnswer,
    RenewRequest,
)
from anarchon.errors import BackendError, StoreUnavailableError
from anarchon.memory import MemoryStore
from anarchon.protocol import decide_claim, decide_finish, decide_release
from kit_mutants.base import Sound, trips

Claims = Sequence[ClaimRequest]
ClaimAnswers = Sequence[ClaimAnswer | BackendError]


@trips("BAT-1")
class AnswersInJobOrder(Sound):
    """
    The answers come in the order in which the jobs were locked.
    """

    async def claim(self, requests: Claims, *, timeout_ms: int) -> ClaimAnswers:
        ordered = sorted(requests, key=lambda request: (request.job, request.slot))
        return await super().claim(ordered, timeout_ms=timeout_ms)

    async def finish(
        self, requests: Sequence[FinishRequest], *, timeout_ms: int
    ) -> Sequence[CloseAnswer | BackendError]:
        ordered = sorted(requests, key=lambda request: (request.job, request.slot))
        return await super().finish(ordered, timeout_ms=timeout_ms)


@trips("BAT-2")
class OneErrorFailsAll(Sound):
    """
    A batch with one impossible item is refused as a whole.
    """

    async def finish(
        self, requests: Sequence[FinishRequest], *, timeout_ms: int
    ) -> Sequence[CloseAnswer | BackendError]:
        answers = await super().finish(requests, timeout_ms=timeout_ms)
        for answer in answers:
            if isinstance(answer, BackendError):
                raise answer
        return answers


@trips("BAT-3")
class AsksForNothing(Sound):
    """
    An empty batch makes its round trip too.
    """

    async def claim(self, requests: Claims, *, timeout_ms: int) -> ClaimAnswers:
        await asyncio.sleep(0)
        return await super().claim(requests, timeout_ms=timeout_ms)


@trips("BAT-4")
class LooksOncePerBatch(Sound):
    """
    All claims of a batch are judged by what was there before the batch.
    """

    async def claim(self, requests: Claims, *, timeout_ms: int) -> ClaimAnswers:
        self._check()
        before = dict(self._store.states)
        now = self._store.now()
        decided = [decide_claim(before.get(each.job), each, now) for each in requests]
        return [
            self._apply(request.job, change)
            for request, change in zip(requests, decided, strict=True)
        ]


@dataclass(slots=True)
class LockedStore(MemoryStore):
    """
    A store with a lock for each job.
    """

    job_locks: dict[str, asyncio.Lock] = field(default_factory=lambda: defaultdict(asyncio.Lock))


@trips("BAT-5", time_scale=0.02)
class LocksInRequestOrder(Sound):
    """
    Jobs are locked one after the other as they stand in the request.
    """

    store_type: ClassVar[type[MemoryStore]] = LockedStore

    async def _locked(self, requests: Sequence[Any], serve: Any, timeout_ms: int) -> Any:
        store: Any = self._store
        held: list[asyncio.Lock] = []
        try:
            async with asyncio.timeout(timeout_ms / 1_000):
                for request in requests:
                    await store.job_locks[request.job].acquire()
                    held.append(store.job_locks[request.job])
                    await asyncio.sleep(0)
            return await serve(requests, timeout_ms=timeout_ms)
        except TimeoutError as error:
            raise StoreUnavailableError("waited too long for a job's lock") from error
        finally:
            for lock in held:
                lock.release()

    async def claim(self, requests: Claims, *, timeout_ms: int) -> ClaimAnswers:
        answers: ClaimAnswers = await self._locked(requests, super().claim, timeout_ms)
        return answers

    async def renew(
        self, requests: Sequence[RenewRequest], *, timeout_ms: int
    ) -> Sequence[RenewAnswer | BackendError]:
        answers: Sequence[RenewAnswer | BackendError]
        answers = await self._locked(requests, super().renew, timeout_ms)
        return answers


@trips("BAT-6")
class AsksOneByOne(Sound):
    """
    A batch is a loop, and pays for each item twice.
    """

    async def claim(self, requests: Claims, *, timeout_ms: int) -> ClaimAnswers:
        if len(requests) > 1:
            await asyncio.sleep(0.005 * len(requests))
        return await super().claim(requests, timeout_ms=timeout_ms)


@trips("CAN-1")
class MakesHalfClaims(Sound):
    """
    Between the grant and its record a cancellation finds its way.
    """

    async def claim(self, requests: Claims, *, timeout_ms: int) -> ClaimAnswers:
        self._check()
        answers: list[ClaimAnswer | BackendError] = []
        for request in requests:
            change = decide_claim(self._store.states.get(request.job), request, self._store.now())
            if change.state is not None:
                self._store.states[request.job] = change.state
            await asyncio.sleep(0)
            self._store.write(request.job, change.records)
            answers.append(change.answer)
        return answers


@trips("CAN-2")
class MakesHalfFinishes(Sound):
    """
    Between the end of the lease and the record of the result a cancellation finds its way.
    """

    async def finish(
        self, requests: Sequence[FinishRequest], *, timeout_ms: int
    ) -> Sequence[CloseAnswer | BackendError]:
        self._check()
        answers: list[CloseAnswer | BackendError] = []
        for request in requests:
            record = self._store.view(request.job, request.slot, request.attempt)
            state = self._store.states.get(request.job)
            change = decide_finish(state, record, request, self._store.now())
            if change.state is not None:
                self._store.states[request.job] = change.state
            await asyncio.sleep(0)
            self._store.write(request.job, change.records)
            answers.append(change.answer)
        return answers


@trips("CAN-3")
class MakesHalfReleases(Sound):
    """
    Between taking the token away and recording it a cancellation finds its way.
    """

    async def release(
        self, requests: Sequence[ReleaseRequest], *, timeout_ms: int
    ) -> Sequence[CloseAnswer | BackendError]:
        self._check()
        answers: list[CloseAnswer | BackendError] = []
        for request in requests:
            record = self._store.view(request.job, request.slot, request.attempt)
            state = self._store.states.get(request.job)
            change = decide_release(state, record, request, self._store.now())
            if change.state is not None:
                self._store.states[request.job] = change.state
            await asyncio.sleep(0)
            self._store.write(request.job, change.records)
            answers.append(change.answer)
        return answers


@trips("CAN-1", "CAN-4")
class CancelledCallsPoison(Sound):
    """
    A cancelled call takes the connection with it.
    """

    async def claim(self, requests: Claims, *, timeout_ms: int) -> ClaimAnswers:
        try:
            await asyncio.sleep(0)
        except asyncio.CancelledError:
            self._life.close()
            raise
        return await super().claim(requests, timeout_ms=timeout_ms)
