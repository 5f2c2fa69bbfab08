"""
A user's program, which is only type-checked and never run: every public shape has the type that its page promises.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Self, assert_type

from anarchon import (
    PROTOCOL_VERSION,
    AnarchonError,
    AnswerReason,
    Backend,
    BackendError,
    BackendStateError,
    Capabilities,
    ClaimAnswer,
    ClaimRequest,
    Clock,
    CloseAnswer,
    Cron,
    DefinitionError,
    DuplicateJobError,
    Every,
    FinishRequest,
    HandOver,
    InternalError,
    InvalidDurationError,
    InvalidJobError,
    InvalidOptionError,
    InvalidScheduleError,
    Job,
    Jobs,
    LeaseBackend,
    LeaseLostError,
    MemoryBackend,
    MemoryClaimBackend,
    MemoryStore,
    Once,
    ProtocolVersionError,
    Reach,
    Reason,
    RegisterAnswer,
    RegisterRequest,
    ReleaseRequest,
    RenewAnswer,
    RenewRequest,
    RequestError,
    Retention,
    RunContext,
    RunRecord,
    Runtime,
    RunView,
    Schedule,
    Scheduler,
    SchedulerStateError,
    ServerTooOldError,
    Status,
    StoreRefusedError,
    StoreUnavailableError,
    SystemClock,
    UnknownBackendError,
    UnsupportedByBackendError,
    Verdict,
    __version__,
    backend_from_url,
)
from anarchon.events import (
    BlockEvent,
    ClockEvent,
    ErrorEvent,
    Event,
    FinishEvent,
    MissEvent,
    SkipEvent,
    TakeoverEvent,
)
from anarchon_sqlite import SqliteBackend

scheduler = Scheduler(
    SqliteBackend("jobs.db"),
    instance_id="web-1",
    heartbeat="10s",
    lease=30,
    jitter=timedelta(0),
    timezone="Europe/Berlin",
    state={"any": "thing"},
    start_timeout=None,
    stop_timeout=25.0,
)
by_url = Scheduler("sqlite:///jobs.db")


# A decorator returns the very function, with the very type.


@scheduler.every(
    "sync", "10s", offset="1s", jitter=0, max_lateness="5s", max_crashes=5, takeover=False
)
async def sync(ctx: RunContext) -> int:
    ctx.check()
    return ctx.attempt


@scheduler.cron(
    "report",
    "0 8 * * *",
    timezone="Europe/Berlin",
    timeout="5m",
    catch_up="latest",
    catch_up_window="1d",
)
def report() -> str:
    return "sent"


@scheduler.once("migrate", datetime(2027, 1, 1, tzinfo=UTC))
def migrate(ctx: RunContext) -> None:
    raise HandOver


@scheduler.job("own", Every("1m", offset=0))
def own(ctx: RunContext) -> bytes:
    return ctx.token.encode()


async def decorated(ctx: RunContext) -> None:
    assert_type(await sync(ctx), int)
    assert_type(report(), str)
    assert_type(own(ctx), bytes)


# The call form serves all of them, and takes partials, lambdas and callable objects.


def send(ctx: RunContext, address: str) -> None: ...


class Handler:
    async def __call__(self, ctx: RunContext) -> None: ...


scheduler.every("partial", timedelta(minutes=1), functools.partial(send, address="a@example.org"))
scheduler.cron("object", "*/5 * * * *", Handler())
scheduler.once(
    "milliseconds",
    1_800_000_000_000,
    lambda ctx: sync(ctx),  # noqa: PLW0108 - a lambda that returns an awaitable is the case
)
scheduler.job("cron", Cron("0 0 * * *", timezone="UTC"), report)

jobs = Jobs()


@jobs.every("collected", 60)
async def collected() -> float:
    return 1.0


scheduler.include(jobs)


async def awaited() -> None:
    assert_type(await collected(), float)


# The context says which run it is, and how it stands.


def context(ctx: RunContext) -> None:
    assert_type(ctx.job, str)
    assert_type(ctx.slot, int)
    assert_type(ctx.slot_time, datetime)
    assert_type(ctx.attempt, int)
    assert_type(ctx.token, str)
    assert_type(ctx.instance_id, str)
    assert_type(ctx.fence, tuple[int, int])
    assert_type(ctx.deadline, datetime | None)
    assert_type(ctx.stopping.is_set(), bool)
    assert_type(ctx.lost.wait_blocking(1.0), bool)
    assert_type(ctx.state, Any)


async def drains(ctx: RunContext) -> None:
    await ctx.stopping.wait()
    try:
        ctx.check()
    except LeaseLostError:
        raise HandOver from None


# Callbacks are plain functions of the event's own type; on() is a call and a decorator.


@scheduler.on("finish")
def finished(event: FinishEvent) -> None:
    assert_type(event.status, Status)
    assert_type(event.reason, Reason | None)
    assert_type(event.duration_ms, int)


def anything(event: Event) -> str:
    return event.type


def missed(event: MissEvent) -> int:
    return event.count if not event.at_least else event.last_slot - event.first_slot


def blocked(event: BlockEvent) -> str:
    return event.job or event.instance


def clock(event: ClockEvent) -> int:
    return event.step_ms


def troubled(event: ErrorEvent) -> BaseException | None:
    return event.error


def skipped(event: SkipEvent) -> bool:
    return event.reason == "overlap"


def taken(event: TakeoverEvent) -> tuple[str, int]:
    return event.from_instance, event.attempt


scheduler.on("start", anything)
scheduler.on("miss", missed)
scheduler.on("block", blocked)
scheduler.on("clock", clock)
scheduler.on("error", troubled)
scheduler.on("skip", skipped)
scheduler.on("takeover", taken)
finished_still: object = finished


# Schedules are functions of an instant.

assert_type(Every("10s").next_slot(0), int | None)
assert_type(Cron("0 8 * * *").last_slot(0), int | None)
assert_type(Once(datetime(2027, 1, 1, tzinfo=UTC)).next_slot(0), int | None)


# So is a schedule of one's own: anything with the two questions.


class FullMoon:
    def next_slot(self, after_ms: int) -> int | None:
        return after_ms + 2_551_442_877

    def last_slot(self, at_ms: int) -> int | None:
        return None


own_schedule: Schedule = FullMoon()
scheduler.job("moon", FullMoon(), report)


# The seam to the machine can be replaced, as a whole or the clock alone.


class StandingClock:
    def wall_ms(self) -> int:
        return 0

    def suspend_ms(self) -> int:
        return 0


standing: Clock = StandingClock()
real: Clock = SystemClock()
simulated = Scheduler(
    MemoryBackend(MemoryStore(clock=standing, retention=Retention(records_per_job=10))),
    clock=standing,
    runtime=Runtime(token=lambda: "t", make_random=lambda: random.Random(1)),
)


# A backend is whatever has the methods; ours are such.

claim_only: Backend = MemoryClaimBackend()
with_leases: LeaseBackend = MemoryBackend()
on_disk: LeaseBackend = SqliteBackend("jobs.db")
found: Backend = backend_from_url("memory:")


class TheirBackend:
    """
    A third party's: it inherits from nothing.
    """

    protocol_version: ClassVar[int] = PROTOCOL_VERSION

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(leases=True, reach=Reach.NETWORK)

    @property
    def service(self) -> str:
        return "theirs"

    def clone(self) -> Self:
        return self

    async def open(self, *, timeout_ms: int) -> None: ...

    async def close(self) -> None: ...

    async def time(self, *, timeout_ms: int) -> int | None:
        return None

    async def claim(
        self, requests: Sequence[ClaimRequest], *, timeout_ms: int
    ) -> Sequence[ClaimAnswer | BackendError]:
        run = RunView(slot=1, attempt=1, remaining_ms=0, instance_id="other")
        return [
            ClaimAnswer(verdict=Verdict.RUNNING, reason=AnswerReason.ENDED, run=run)
            for _ in requests
        ]

    async def finish(
        self, requests: Sequence[FinishRequest], *, timeout_ms: int
    ) -> Sequence[CloseAnswer | BackendError]:
        return [RequestError(request.job) for request in requests]

    async def history(self, job: str | None, *, limit: int, timeout_ms: int) -> Sequence[RunRecord]:
        return []

    async def register(
        self, requests: Sequence[RegisterRequest], *, timeout_ms: int
    ) -> Sequence[RegisterAnswer | BackendError]:
        return [RegisterAnswer(new=True, store_now_ms=0) for _ in requests]

    async def renew(
        self, requests: Sequence[RenewRequest], *, timeout_ms: int
    ) -> Sequence[RenewAnswer | BackendError]:
        return [RenewAnswer(held=True, store_now_ms=0) for _ in requests]

    async def release(
        self, requests: Sequence[ReleaseRequest], *, timeout_ms: int
    ) -> Sequence[CloseAnswer | BackendError]:
        return [CloseAnswer(accepted=True) for _ in requests]

    async def next_hint(
        self, runs: Sequence[tuple[str, int, int]], *, timeout_ms: int
    ) -> frozenset[str]:
        return frozenset()


theirs: LeaseBackend = TheirBackend()
on_theirs = Scheduler(TheirBackend())


# Every error is an AnarchonError, in the family that says whose it is.

definition_errors: tuple[type[DefinitionError], ...] = (
    DuplicateJobError,
    InvalidDurationError,
    InvalidJobError,
    InvalidOptionError,
    InvalidScheduleError,
    UnknownBackendError,
    UnsupportedByBackendError,
)
backend_errors: tuple[type[BackendError], ...] = (
    BackendStateError,
    ProtocolVersionError,
    RequestError,
    ServerTooOldError,
    StoreRefusedError,
    StoreUnavailableError,
)
all_errors: tuple[type[AnarchonError], ...] = (
    *definition_errors,
    *backend_errors,
    HandOver,
    InternalError,
    LeaseLostError,
    SchedulerStateError,
)


async def lifespan() -> None:
    async with scheduler as running:
        assert_type(running, Scheduler)
        records = await scheduler.history("sync", limit=20)
        newest: Sequence[RunRecord] = records
        for record in newest:
            assert_type(record.status, Status)
            assert_type(record.finished_at, datetime | None)
    try:
        await scheduler.start()
        await scheduler.wait(signals=True)
    except AnarchonError:
        await scheduler.stop()
    assert_type(scheduler.instance_id, str)
    assert_type(scheduler.jobs, tuple[Job, ...])
    assert_type(__version__, str)
    scheduler.use("sqlite:///other.db")


def program() -> None:
    scheduler.run()
