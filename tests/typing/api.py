"""
A user's program, which is only type-checked and never run: every public shape has the type that its page promises.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import assert_type

from anarchon import (
    AnarchonError,
    Backend,
    Cron,
    Every,
    HandOver,
    Jobs,
    LeaseBackend,
    MemoryBackend,
    MemoryClaimBackend,
    Once,
    RunContext,
    RunRecord,
    Scheduler,
    Status,
    backend_from_url,
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
scheduler.once("milliseconds", 1_800_000_000_000, lambda ctx: sync(ctx))  # noqa: PLW0108 - a lambda that returns an awaitable is the case
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


# Schedules are functions of an instant.

assert_type(Every("10s").next_slot(0), int | None)
assert_type(Cron("0 8 * * *").last_slot(0), int | None)
assert_type(Once(datetime(2027, 1, 1, tzinfo=UTC)).next_slot(0), int | None)


# A backend is whatever has the methods; ours are such.

claim_only: Backend = MemoryClaimBackend()
with_leases: LeaseBackend = MemoryBackend()
on_disk: LeaseBackend = SqliteBackend("jobs.db")
found: Backend = backend_from_url("memory:")


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
    scheduler.use("sqlite:///other.db")


def program() -> None:
    scheduler.run()
