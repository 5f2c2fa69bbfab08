"""
Each event is told once, with its fields; what callbacks do is their own affair.
"""

from __future__ import annotations

import logging
from typing import Any

import pytest
from virtual import START_MS, World, fail

from anarchon import InvalidOptionError, RunContext, Status, StoreUnavailableError
from anarchon.events import EVENT_TYPES, Event, RecoveredEvent


def test_every_type_has_its_own_dataclass() -> None:
    """
    The types are the words of the contract; each is frozen and says who tells it.
    """
    assert {
        "scheduler_started",
        "scheduler_stopped",
        "claim",
        "start",
        "finish",
        "skip",
        "miss",
        "takeover",
        "handover",
        "lost",
        "block",
        "outage",
        "recovered",
        "clock",
        "schedule",
        "error",
    } == set(EVENT_TYPES)
    event = RecoveredEvent(instance="me", duration_ms=3)

    assert ("recovered", "me", "me") == (event.type, event.instance, event.instance_id)
    with pytest.raises(AttributeError):
        event.instance = "you"  # type: ignore[misc]  # that is what fails


async def test_life_of_a_run_is_told_in_order(world: World) -> None:
    """
    Started, claim, start, finish, stopped; each with job, slot, attempt and instance.
    """
    node = world.node("me")

    @node.scheduler.every("job", "1h", offset="10s")
    async def job(ctx: RunContext) -> None:
        await world.pass_ms(1_250)

    await node.start()
    await node.hears("finish")
    await node.stop()
    events = [event for _, event in node.events]

    assert ["scheduler_started", "claim", "start", "finish", "scheduler_stopped"] == [
        event.type for event in events
    ]
    started, claim, start, finish, stopped = events
    where = ("me", "job", START_MS + 10_000, 1)

    assert ("me", ("job",)) == (started.instance, started.jobs)  # type: ignore[attr-defined]  # its own field
    assert "memory" in started.service  # type: ignore[attr-defined]  # its own field
    for event in (claim, start, finish):
        told: Any = event

        assert where == (told.instance, told.job, told.slot, told.attempt)
    assert 0 == start.late_ms  # type: ignore[attr-defined]  # its own field
    ended: Any = finish

    assert (Status.SUCCESS, None, None, 1_250) == (
        ended.status,
        ended.reason,
        ended.error,
        ended.duration_ms,
    )
    assert "me" == stopped.instance


async def test_started_is_told_only_after_the_store_has_answered(world: World) -> None:
    """
    start() waits for the store, telling the outage once and its end.
    """
    node = world.node()
    node.scheduler.every("job", "1h", lambda: None)
    node.faults.next("open", *[fail(StoreUnavailableError("not yet"))] * 3)
    await node.start()

    assert ["outage", "recovered", "scheduler_started"] == [e.type for _, e in node.events]
    (outage,), (recovered,) = node.told("outage"), node.told("recovered")

    assert "not yet" == str(outage.error)
    assert world.now_ms == recovered.duration_ms
    assert recovered.duration_ms > 0


async def test_outage_is_told_once_and_so_is_its_end(world: World) -> None:
    """
    However many calls fail in it, over however many jobs.
    """
    node = world.node()
    for number in range(20):
        node.scheduler.every(f"job-{number}", "5s", lambda: None)
    await node.start()
    await world.pass_ms(12_000)
    node.faults.down = StoreUnavailableError("gone")
    await world.pass_ms(300_000)
    node.faults.down = None
    await world.pass_ms(20_000)
    (outage,), (recovered,) = node.told("outage"), node.told("recovered")

    assert "gone" in str(outage.error)
    assert 280_000 <= recovered.duration_ms <= 306_000
    assert node.faults.count("claim") < 300


async def test_callback_that_raises_is_logged_and_the_others_are_called(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """
    What a callback raises is not passed on.
    """
    node = world.node()
    heard: list[Event] = []

    @node.scheduler.on("claim")
    def broken(event: Event) -> None:
        raise ValueError(event.type)

    node.scheduler.on("claim", heard.append)
    node.scheduler.every("job", "10s", lambda: None)
    await node.start()
    await node.hears("finish")

    assert 1 == len(heard)
    (record,) = [r for r in caplog.records if "a callback for 'claim' raised" in r.getMessage()]

    assert (logging.ERROR, "anarchon") == (record.levelno, record.name)
    assert record.exc_info is not None


def test_callback_must_be_a_plain_function_for_a_known_type(world: World) -> None:
    """
    A wrong type is an error where on() is called, not where the decorator is applied.
    """
    scheduler = world.node().scheduler

    async def later(event: Event) -> None: ...

    with pytest.raises(InvalidOptionError, match="there is no event type 'claims'; the types are"):
        scheduler.on("claims")
    with pytest.raises(InvalidOptionError, match="a callback for 'claim' is a plain function"):
        scheduler.on("claim", later)
    with pytest.raises(InvalidOptionError, match="a callback for 'claim' is a plain function"):
        scheduler.on("claim", "print")  # type: ignore[call-overload]  # that is what fails
    world.loop.close()


EXTRAS = ("job", "slot", "attempt", "instance")


async def test_log_records_carry_where_they_belong(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """
    Logger `anarchon`, extras job, slot, attempt, instance; a handler's exception at ERROR with its traceback.
    """
    caplog.set_level(logging.DEBUG, "anarchon")
    node = world.node("me")

    @node.scheduler.every("job", "1h", offset="10s")
    async def job(ctx: RunContext) -> None:
        raise ValueError("broken")

    await node.start()
    await node.hears("finish")
    records = [record for record in caplog.records if record.name == "anarchon"]
    where = ("job", START_MS + 10_000, 1, "me")
    told: dict[str, Any] = {record.getMessage().partition(":")[0]: record for record in records}

    assert logging.INFO == told["scheduler_started"].levelno
    for name in ("claim", "start", "finish"):
        assert logging.DEBUG == told[name].levelno
        assert where == tuple(getattr(told[name], extra) for extra in EXTRAS)
    (failed,) = [
        record for record in records if "failed" in record.getMessage() and record.exc_info
    ]

    assert logging.ERROR == failed.levelno
    assert where == tuple(getattr(failed, extra) for extra in EXTRAS)
    assert failed.exc_info is not None
    assert isinstance(failed.exc_info, tuple)
    assert isinstance(failed.exc_info[1], ValueError)
    assert "job 'job' failed (slot 1767225610000, attempt 1): ValueError: broken" == (
        failed.getMessage()
    )


async def test_losers_log_at_debug_and_never_warn(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """
    Losing a race is a normal answer.
    """
    caplog.set_level(logging.DEBUG, "anarchon")
    for _ in range(3):
        node = world.node()

        @node.scheduler.every("job", "10s", jitter="2s")
        async def job() -> None: ...

        await node.start()
    await world.pass_ms(35_000)
    skips = [record for record in caplog.records if record.getMessage().startswith("skip")]

    assert 6 == len(skips)
    assert {logging.DEBUG} == {record.levelno for record in skips}
    assert [] == [record for record in caplog.records if record.levelno >= logging.WARNING]


async def test_outage_is_logged_once_at_warning_and_its_end_at_info(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """
    Five minutes without a store are two lines.
    """
    caplog.set_level(logging.INFO, "anarchon")
    node = world.node()
    node.scheduler.every("job", "5s", lambda: None)
    await node.start()
    caplog.clear()
    node.faults.down = StoreUnavailableError("gone")
    await world.pass_ms(300_000)
    node.faults.down = None
    await world.pass_ms(20_000)
    lines = [(r.levelno, r.getMessage()) for r in caplog.records if "store" in r.getMessage()]

    assert [logging.WARNING, logging.INFO] == [level for level, _ in lines]
    assert "gone" in lines[0][1]
    assert "the store answers again" in lines[1][1]


async def test_next_slots_are_logged_at_start(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """
    A zone or a field that was misread shows at the first start.
    """
    caplog.set_level(logging.INFO, "anarchon")
    node = world.node(timezone="Europe/Berlin")
    node.scheduler.cron("report", "0 8 * * *", lambda: None)
    node.scheduler.once("past", START_MS - 1, lambda: None)
    node.scheduler.cron("own", "0 8 * * *", lambda: None, timezone="Asia/Kolkata")
    await node.start()
    lines = [record.getMessage() for record in caplog.records if "next slot" in record.getMessage()]

    assert lines[0].endswith("next slot 2026-01-01T07:00:00+00:00")
    assert "Europe/Berlin" in lines[0]
    assert lines[1].endswith("next slot none")
    assert lines[2].endswith("next slot 2026-01-01T02:30:00+00:00")


async def test_nothing_is_logged_when_logging_is_off(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """
    A program that does not configure the logger pays nothing for it.
    """
    caplog.set_level(logging.ERROR, "anarchon")
    node = world.node()
    node.scheduler.every("job", "10s", lambda: None)
    await node.start()
    await node.hears("finish")

    assert [] == caplog.records


async def test_history_is_read_through_the_scheduler(world: World) -> None:
    """
    Newest first, of one job or of all, from start() to stop().
    """
    node = world.node()
    for name in ("one", "two"):
        node.scheduler.every(name, "10s", lambda: None)
    await node.start()
    await world.pass_ms(35_000)
    records = await node.scheduler.history("one", limit=2)

    assert [START_MS + 30_000, START_MS + 20_000] == [record.slot for record in records]
    assert {"one"} == {record.job for record in records}
    everything = await node.scheduler.history()

    assert 6 == len(everything)
    assert ["one", "two"] == [record.job for record in everything[:2]]
    for limit in (0, -1, 10_001, True, "20", None):
        with pytest.raises(InvalidOptionError, match="limit is a whole number from 1 to 10000"):
            await node.scheduler.history(limit=limit)  # type: ignore[arg-type]  # that is what fails


async def test_history_of_a_store_that_is_gone_raises(world: World) -> None:
    """
    The reader hears of the trouble, within a deadline.
    """
    node = world.node()
    node.scheduler.every("one", "10s", lambda: None)
    await node.start()
    node.faults.dead = True
    with pytest.raises(StoreUnavailableError, match="did not answer within"):
        await node.scheduler.history()
    node.faults.dead = False
