"""
What broken backends are made of: the sound ones, with a seam at every decision.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeVar

from anarchon.backend import (
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
from anarchon.capabilities import Capabilities
from anarchon.errors import BackendError, StoreUnavailableError
from anarchon.memory import MemoryBackend, MemoryClaimBackend, MemoryStore
from anarchon.memory.opened import OpenedMemory
from anarchon.protocol import (
    Change,
    JobState,
    Now,
    RecordView,
    decide_claim,
    decide_finish,
    decide_register,
    decide_release,
    decide_renewal,
)
from anarchon.protocol.closing import started_ms_of
from anarchon.records import Retention
from anarchon_conformance import BackendProfile
from anarchon_conformance.profile import Line, Proxy

__all__ = [
    "MUTANTS",
    "Mutant",
    "Sound",
    "SoundClaimOnly",
    "SoundForgetful",
    "State",
    "profile_of",
    "trips",
]

State = JobState | None
Made = TypeVar("Made", bound=type[Any])

# The shortest lease that is not lost to a busy machine's scheduler between two calls.
_LEASE_MS_MIN = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """
    One broken backend, and the clauses that have to find it out.
    """

    backend: type[Any]
    clauses: tuple[str, ...]
    time_scale: float

    @property
    def name(self) -> str:
        """
        The name of its one fault.
        """
        return self.backend.__name__


MUTANTS: list[Mutant] = []
"""
Every mutant, in the order in which they were defined.
"""


def trips(*clauses: str, time_scale: float = 0.05) -> Callable[[Made], Made]:
    """
    Say which clauses a mutant has to fail. One that hangs takes a small time scale.
    """

    def register(backend: Made) -> Made:
        MUTANTS.append(Mutant(backend=backend, clauses=clauses, time_scale=time_scale))
        return backend

    return register


async def unanswered(timeout_ms: int) -> None:
    """
    Wait for a store that says nothing, until the call's time is over.

    Raises:
        StoreUnavailableError: Always.
    """
    await asyncio.sleep(
        timeout_ms / 1_000
    )  # The store says nothing, so that there is nothing to await.
    raise StoreUnavailableError("the store did not answer")


class _Unreachable(OpenedMemory):
    """
    What a call does whose store says nothing.
    """

    unanswered: ClassVar[Callable[[int], Awaitable[None]]] = staticmethod(unanswered)

    async def open_in_vain(self, *, timeout_ms: int) -> None:
        """
        Open the backend, of which nothing comes.
        """
        async with self._life.opening():
            await type(self).unanswered(timeout_ms)


class Sound(_Unreachable, MemoryBackend):
    """
    The memory backend, with each decision in a method of its own, and with short leases.
    """

    lease_ms_min: ClassVar[int] = _LEASE_MS_MIN

    @property
    def capabilities(self) -> Capabilities:
        """
        What memory can do, with leases that run out quickly.
        """
        return replace(super().capabilities, lease_ms_min=self.lease_ms_min)

    def key(self, job: str) -> str:
        """
        Say under which name a job is kept.
        """
        return job

    def on_claim(self, state: State, request: ClaimRequest, now: Now) -> Change[ClaimAnswer]:
        """
        Decide a claim.
        """
        return decide_claim(state, request, now)

    def on_register(
        self, state: State, request: RegisterRequest, now: Now
    ) -> Change[RegisterAnswer]:
        """
        Decide a registration.
        """
        return decide_register(state, request, now)

    def on_renew(self, state: State, request: RenewRequest, now: Now) -> Change[RenewAnswer]:
        """
        Decide a renewal.
        """
        return decide_renewal(state, request, now)

    def on_finish(
        self, state: State, record: RecordView | None, request: FinishRequest, now: Now
    ) -> Change[CloseAnswer]:
        """
        Decide a finish.
        """
        return decide_finish(state, record, request, now)

    def on_release(
        self, state: State, record: RecordView | None, request: ReleaseRequest, now: Now
    ) -> Change[CloseAnswer]:
        """
        Decide a release.
        """
        return decide_release(state, record, request, now)

    async def claim(
        self, requests: Sequence[ClaimRequest], *, timeout_ms: int
    ) -> Sequence[ClaimAnswer | BackendError]:
        def serve(request: ClaimRequest, now: Now) -> ClaimAnswer:
            job = self.key(request.job)
            return self._apply(job, self.on_claim(self._store.states.get(job), request, now))

        return self._each(requests, serve)

    async def register(
        self, requests: Sequence[RegisterRequest], *, timeout_ms: int
    ) -> Sequence[RegisterAnswer | BackendError]:
        def serve(request: RegisterRequest, now: Now) -> RegisterAnswer:
            job = self.key(request.job)
            return self._apply(job, self.on_register(self._store.states.get(job), request, now))

        return self._each(requests, serve)

    async def renew(
        self, requests: Sequence[RenewRequest], *, timeout_ms: int
    ) -> Sequence[RenewAnswer | BackendError]:
        def serve(request: RenewRequest, now: Now) -> RenewAnswer:
            job = self.key(request.job)
            change = self.on_renew(self._store.states.get(job), request, now)
            if change.answer.held:
                started_ms = started_ms_of(request.started_ago_ms, now)
                self._store.started(job, request.slot, request.attempt, started_ms)
            return self._apply(job, change)

        return self._each(requests, serve)

    async def finish(
        self, requests: Sequence[FinishRequest], *, timeout_ms: int
    ) -> Sequence[CloseAnswer | BackendError]:
        def serve(request: FinishRequest, now: Now) -> CloseAnswer:
            job = self.key(request.job)
            record = self._store.view(job, request.slot, request.attempt)
            state = self._store.states.get(job)
            return self._apply(job, self.on_finish(state, record, request, now))

        return self._telling(requests, self._each(requests, serve))

    async def release(
        self, requests: Sequence[ReleaseRequest], *, timeout_ms: int
    ) -> Sequence[CloseAnswer | BackendError]:
        def serve(request: ReleaseRequest, now: Now) -> CloseAnswer:
            job = self.key(request.job)
            record = self._store.view(job, request.slot, request.attempt)
            state = self._store.states.get(job)
            return self._apply(job, self.on_release(state, record, request, now))

        return self._telling(requests, self._each(requests, serve))


class SoundClaimOnly(_Unreachable, MemoryClaimBackend):
    """
    The claim-only memory backend as it is.
    """


class SoundForgetful(SoundClaimOnly):
    """
    One that remembers a claim for half a day, and grants slots in rising order alone.
    """

    memory_ms: ClassVar[int] = 43_200_000

    @property
    def capabilities(self) -> Capabilities:
        """
        Claims, for as long as they are remembered.
        """
        return replace(super().capabilities, claim_memory_ms=self.memory_ms, rising_slots=True)

    def floor(self, job: str, now: Now) -> int:
        """
        Name the newest slot that may have run without a trace.
        """
        newest = max(self._store.claims.get(job, ()), default=0)
        return max(newest, now.wall_ms - self.memory_ms)

    def _claim(self, request: ClaimRequest, now: Now) -> ClaimAnswer:
        forgotten = self._store.forgotten
        forgotten[request.job] = max(forgotten.get(request.job, 0), self.floor(request.job, now))
        return super()._claim(request, now)


class _Lossy:
    """
    Stands between a client and its backend, and loses what it is told to lose.
    """

    def __init__(self, backend: Any) -> None:
        self._backend = backend
        self._losing = ""

    def lose_request(self) -> None:
        self._losing = "request"

    def lose_reply(self) -> None:
        self._losing = "reply"

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._backend, name)
        return self._through(found) if inspect.iscoroutinefunction(found) else found

    def _through(self, call: Any) -> Any:
        async def send(*arguments: Any, **options: Any) -> Any:
            losing, self._losing = self._losing, ""
            if losing == "request":
                raise StoreUnavailableError("the request was lost")
            answers = await call(*arguments, **options)
            if losing == "reply":
                raise StoreUnavailableError("the reply was lost")
            return answers

        return send


class _Silent:
    """
    Stands between a client and its backend, and lets nothing pass once it is told so.
    """

    def __init__(self, backend: Any, silence: asyncio.Event | None = None) -> None:
        self._backend = backend
        self._silence = silence or asyncio.Event()

    def fall_silent(self) -> None:
        self._silence.set()

    def clone(self) -> Any:
        return _Silent(self._backend.clone(), self._silence)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._backend, name)
        if not self._silence.is_set() or name == "close":
            return found
        return self._backend.open_in_vain if name == "open" else self._into_the_void

    async def _into_the_void(self, *_: Any, timeout_ms: int, **__: Any) -> None:
        await self._backend.unanswered(timeout_ms)


def profile_of(backend: type[Any], *, time_scale: float = 1.0, origin: str = "") -> BackendProfile:
    """
    Make a profile of a backend class; its namespaces live as long as the profile.
    """
    stores: dict[object, MemoryStore] = {}
    locate = getattr(backend, "store_key", lambda namespace: namespace)
    make = getattr(backend, "store_type", MemoryStore)

    @asynccontextmanager
    async def open_it(namespace: str, *, retention: Retention | None = None) -> AsyncIterator[Any]:
        store = stores.setdefault(locate(namespace), make())
        if retention is not None:
            store.retention = retention
        opened = backend(store)
        await opened.open(timeout_ms=1_000)
        try:
            yield opened
        finally:
            await opened.close()

    @asynccontextmanager
    async def open_proxy(namespace: str) -> AsyncIterator[Proxy]:
        async with open_it(namespace) as opened:
            lossy: Any = _Lossy(opened)
            yield Proxy(backend=lossy, loss=lossy)

    @asynccontextmanager
    async def open_line(namespace: str) -> AsyncIterator[Line]:
        async with open_it(namespace) as opened:
            silent: Any = _Silent(opened)
            yield Line(backend=silent, fall_silent=silent.fall_silent)

    return BackendProfile(
        name=backend.__name__,
        open=open_it,
        proxy=open_proxy,
        line=open_line,
        time_scale=time_scale,
        origin=origin,
    )
