"""
What the kit's tests are written with: instances on a fresh namespace, and patience.

Nothing here sleeps for a fixed time: `until` asks the store again and again, and gives
up after a bound that only a broken backend reaches.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from anarchon.backend import (
    ClaimAnswer,
    ClaimRequest,
    CloseAnswer,
    FinishRequest,
    LeaseBackend,
    RegisterAnswer,
    RegisterRequest,
    ReleaseRequest,
    RenewAnswer,
    RenewRequest,
    Verdict,
)
from anarchon.capabilities import Capabilities, Reach
from anarchon.clock import SystemClock
from anarchon.errors import BackendError
from anarchon.records import Retention, RunRecord, Status
from anarchon_conformance.clauses import CLAUSES, NEEDS
from anarchon_conformance.profile import BackendProfile

__all__ = ["JOB", "Bench", "Instance", "World", "in_pieces", "new_token", "only", "pause", "until"]

T = TypeVar("T")
Q = TypeVar("Q")

JOB = "job"
"""
The job of a test that needs but one.
"""

_LONG_MS = 3_600_000
_TIMEOUT_MS = 15_000
_PATIENCE_MS = 30_000


def new_token() -> str:
    """
    Draw the token of an attempt.
    """
    return secrets.token_hex(16)


def only(answers: Sequence[T | BackendError]) -> T:
    """
    Take the one answer of a batch of one; raise it if it is an error.
    """
    assert 1 == len(answers), f"one request, but {len(answers)} answers"
    answer = answers[0]
    if isinstance(answer, BackendError):
        raise answer
    return answer


async def in_pieces(
    call: Callable[[Sequence[Q]], Awaitable[Sequence[T | BackendError]]],
    requests: Sequence[Q],
    *,
    size: int,
) -> list[T | BackendError]:
    """
    Send any number of requests, cut into batches of a size that the backend takes.
    """
    answers: list[T | BackendError] = []
    for start in range(0, len(requests), size):
        answers += await call(requests[start : start + size])
    return answers


async def pause(duration_ms: float) -> None:
    """
    Let other tasks run between two looks at the store.
    """
    await asyncio.sleep(duration_ms / 1_000)


async def until(
    ask: Callable[[], Awaitable[T]],
    accept: Callable[[T], bool],
    *,
    within_ms: float,
    every_ms: float = 5,
) -> T:
    """
    Ask until an answer is acceptable, and return it.

    Raises:
        AssertionError: None was, within the bound; it shows the last answer.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + within_ms / 1_000
    while True:
        answer = await ask()
        if accept(answer):
            return answer
        assert loop.time() < end, f"still {answer!r} after {within_ms:.0f} ms"
        await pause(every_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """
    One backend under test, and the durations that fit it.
    """

    profile: BackendProfile
    capabilities: Capabilities
    service: str
    distribution: str

    @property
    def short_ms(self) -> int:
        """
        A lease that may run out within a test, in milliseconds.
        """
        capabilities = self.capabilities
        least_ms = max(capabilities.lease_ms_min, 4 * capabilities.time_resolution_ms)
        return max(least_ms, int(least_ms * self.profile.time_scale))

    @property
    def long_ms(self) -> int:
        """
        A lease that outlives every test, in milliseconds; 0 where there are no leases.
        """
        return _LONG_MS if self.capabilities.leases else 0

    @property
    def timeout_ms(self) -> int:
        """
        The deadline of a call that is expected to be answered.
        """
        return max(1, int(_TIMEOUT_MS * self.profile.time_scale))

    @property
    def patience_ms(self) -> int:
        """
        How long a test waits for what has to happen.
        """
        return max(2, int(_PATIENCE_MS * self.profile.time_scale))

    def missing(self, clause_id: str) -> str | None:
        """
        Say why a clause does not apply to this backend; None if it does.
        """
        capabilities = self.capabilities
        met = {
            "leases": capabilities.leases,
            "claim-only": not capabilities.leases,
            "memory": capabilities.claim_memory_ms is not None,
            "clock": capabilities.store_clock,
            "hints": capabilities.hints,
            "processes": capabilities.reach is not Reach.PROCESS and bool(self.profile.origin),
            "proxy": self.profile.proxy is not None,
            "line": self.profile.line is not None,
        }
        lacking = [NEEDS[need] for need in CLAUSES[clause_id].needs if not met[need]]
        return "; ".join(lacking) or None

    def namespace(self) -> str:
        """
        Name a namespace that nobody has used.
        """
        return f"kit-{secrets.token_hex(8)}"

    @asynccontextmanager
    async def world(
        self, *, namespace: str | None = None, retention: Retention | None = None
    ) -> AsyncIterator[World]:
        """
        Give a namespace of one's own, and close its clients in the end.
        """
        async with AsyncExitStack() as stack:
            yield World(
                bench=self,
                namespace=namespace or self.namespace(),
                retention=retention,
                stack=stack,
            )


@dataclass(slots=True, kw_only=True)
class World:
    """
    One namespace, the instances that share it, and slots in its recent past.
    """

    bench: Bench
    namespace: str
    retention: Retention | None
    stack: AsyncExitStack
    base_ms: int = 0
    labels: Any = field(default_factory=itertools.count)

    async def join(self, label: str | None = None) -> Instance:
        """
        Start another instance: a client with a connection of its own.
        """
        opened = self.bench.profile.open(self.namespace, retention=self.retention)
        backend = await self.stack.enter_async_context(opened)
        instance = Instance(
            backend=cast("LeaseBackend", backend),
            label=label or f"host:{next(self.labels)}",
            bench=self.bench,
        )
        if not self.base_ms:
            self.base_ms = await instance.now_ms() - _LONG_MS
        return instance

    async def two(self) -> tuple[Instance, Instance]:
        """
        Start two instances.
        """
        return await self.join(), await self.join()

    def slot(self, index: int) -> int:
        """
        Return a slot of the last hour; a greater index is a later slot.
        """
        return self.base_ms + index * 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """
    One instance of the service, which asks for one thing at a time.

    Every method raises the error that the backend put in the place of its answer.
    """

    backend: LeaseBackend
    label: str
    bench: Bench

    async def now_ms(self) -> int:
        """
        Read the store's clock, or this machine's where the store has none.
        """
        told = await self.backend.time(timeout_ms=self.bench.timeout_ms)
        return SystemClock().wall_ms() if told is None else told

    def claim_request(
        self, slot: int, *, token: str | None = None, job: str = JOB, **options: Any
    ) -> ClaimRequest:
        """
        Write a claim; its lease outlives the test unless it says otherwise.
        """
        options.setdefault("lease_ms", self.bench.long_ms)
        options.setdefault("instance_id", self.label)
        return ClaimRequest(job=job, slot=slot, token=token or new_token(), **options)

    async def claim(
        self, slot: int, *, token: str | None = None, job: str = JOB, **options: Any
    ) -> ClaimAnswer:
        """
        Claim a run.
        """
        request = self.claim_request(slot, token=token, job=job, **options)
        return only(await self.claims([request]))

    async def claims(
        self, requests: Sequence[ClaimRequest]
    ) -> Sequence[ClaimAnswer | BackendError]:
        """
        Send a batch of claims as it is.
        """
        return await self.backend.claim(requests, timeout_ms=self.bench.timeout_ms)

    async def win(
        self, slot: int, *, token: str | None = None, job: str = JOB, **options: Any
    ) -> str:
        """
        Claim a run that nobody else wants, and return its token.
        """
        token = token or new_token()
        answer = await self.claim(slot, token=token, job=job, **options)
        assert Verdict.WON == answer.verdict, f"the first claim of a new slot: {answer!r}"
        return token

    async def take_over(
        self, slot: int, attempt: int, *, token: str | None = None, job: str = JOB, **options: Any
    ) -> ClaimAnswer:
        """
        Ask for an attempt, as a backup does, until the run goes on no longer.
        """
        token = token or new_token()
        return await until(
            lambda: self.claim(slot, attempt=attempt, token=token, job=job, **options),
            lambda answer: answer.verdict is not Verdict.RUNNING,
            within_ms=self.bench.patience_ms,
        )

    async def run_out(self, slot: int, *, job: str = JOB) -> None:
        """
        Wait until the lease of a run has run out, without touching it.

        A claim of attempt 1 by a stranger is answered `running` either way, with
        what remains of the lease.
        """
        await until(
            lambda: self.claim(slot, job=job),
            lambda answer: answer.run is not None and answer.run.remaining_ms == 0,
            within_ms=self.bench.patience_ms,
        )

    async def goes_on(self, slot: int, *, for_ms: float, attempt: int = 1, job: str = JOB) -> None:
        """
        Watch a run that must not be taken over, for a while, by trying to take it over.

        Raises:
            AssertionError: It could be.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + for_ms / 1_000
        over = False
        while not over:
            over = loop.time() >= end  # The last look is after the end, however busy the machine.
            answer = await self.claim(slot, attempt=attempt + 1, job=job)
            assert Verdict.RUNNING == answer.verdict, f"a run that goes on: {answer!r}"
            await pause(5)

    async def batch(self, requests: Sequence[ClaimRequest]) -> list[ClaimAnswer]:
        """
        Send any number of claims in batches, and raise the first error.
        """
        size = self.bench.capabilities.batch_max
        answers = await in_pieces(self.claims, requests, size=size)
        return [only([answer]) for answer in answers]

    async def renew(
        self, slot: int, token: str, *, attempt: int = 1, job: str = JOB, **options: Any
    ) -> RenewAnswer:
        """
        Renew a lease.
        """
        options.setdefault("lease_ms", self.bench.long_ms)
        request = RenewRequest(job=job, slot=slot, attempt=attempt, token=token, **options)
        return only(await self.backend.renew([request], timeout_ms=self.bench.timeout_ms))

    async def finish(
        self, slot: int, token: str, *, attempt: int = 1, job: str = JOB, **options: Any
    ) -> CloseAnswer:
        """
        Finish an attempt; successfully unless it says otherwise.
        """
        options.setdefault("status", Status.SUCCESS)
        request = FinishRequest(job=job, slot=slot, attempt=attempt, token=token, **options)
        return only(await self.backend.finish([request], timeout_ms=self.bench.timeout_ms))

    async def let_pass(self, slots: Sequence[int], *, job: str = JOB) -> None:
        """
        Let many slots pass, each of which leaves a record that has ended.

        Beside a run that goes on every later slot is skipped, which is the cheapest
        way; a claim-only store finishes them.
        """
        size = self.bench.capabilities.batch_max
        for start in range(0, len(slots), size):
            requests = [self.claim_request(slot, job=job) for slot in slots[start : start + size]]
            await self.batch(requests)
            if not self.bench.capabilities.leases:
                await self.finish_all(requests)

    async def finish_all(self, claims: Sequence[ClaimRequest]) -> None:
        """
        Finish, in one batch, the runs that a batch of claims has won.
        """
        requests = [
            FinishRequest(
                job=claim.job,
                slot=claim.slot,
                attempt=claim.attempt,
                token=claim.token,
                status=Status.SUCCESS,
            )
            for claim in claims
        ]
        answers = await self.backend.finish(requests, timeout_ms=self.bench.timeout_ms)
        assert [True] * len(claims) == [only([answer]).accepted for answer in answers]

    async def release(
        self, slot: int, token: str, *, attempt: int = 1, job: str = JOB, **options: Any
    ) -> CloseAnswer:
        """
        Release an attempt.
        """
        request = ReleaseRequest(job=job, slot=slot, attempt=attempt, token=token, **options)
        return only(await self.backend.release([request], timeout_ms=self.bench.timeout_ms))

    async def register(self, slot: int | None, *, job: str = JOB, **options: Any) -> RegisterAnswer:
        """
        Register a job.
        """
        request = RegisterRequest(job=job, slot=slot, **options)
        return only(await self.backend.register([request], timeout_ms=self.bench.timeout_ms))

    async def history(self, job: str | None = JOB, *, limit: int = 1_000) -> Sequence[RunRecord]:
        """
        Read the history.
        """
        return await self.backend.history(job, limit=limit, timeout_ms=self.bench.timeout_ms)

    async def record(self, slot: int, *, attempt: int = 1, job: str = JOB) -> RunRecord:
        """
        Read the record of one attempt.
        """
        found = [
            record
            for record in await self.history(job)
            if (record.slot, record.attempt) == (slot, attempt)
        ]
        assert 1 == len(found), f"records of slot {slot}, attempt {attempt}: {found!r}"
        return found[0]
