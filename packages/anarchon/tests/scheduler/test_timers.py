"""
When is a run due here? Never before its slot, never more idle than 30 s, never all for one.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from virtual import START_MS, World

from anarchon import (
    BackendError,
    Every,
    MemoryBackend,
    RenewAnswer,
    RenewRequest,
    RunContext,
)
from anarchon.job import CatchUp

JOBS = 1_000


async def test_jitter_delays_a_claim_and_never_hastens_it(world: World) -> None:
    """
    Handlers begin between their slot and slot + jitter; the slot itself is untouched.
    """
    node = world.node()

    @node.scheduler.every("job", "10s", jitter="3s")
    async def job(ctx: RunContext) -> None:
        world.note(ctx)

    await node.start()
    await world.pass_ms(1_000_000)
    delays = [START_MS + note.at_ms - note.slot for note in world.notes]

    assert list(range(10, 1_000, 10)) == world.slots()[:99]
    assert 0 <= min(delays) < 500
    assert 2_500 < max(delays) <= 3_000


async def test_sleep_never_exceeds_thirty_seconds_and_idle_costs_no_more(world: World) -> None:
    """
    A thousand daily jobs, idle for an hour: one wake in 30 s, and no call to the store.
    """
    node = world.node()
    for number in range(JOBS):
        node.scheduler.cron(f"job-{number}", f"{number % 60} 0 * * *", lambda: None)
    await world.pass_ms(2 * 3_600_000)
    await node.start()
    calls = len(node.faults.calls)
    timers = node.scheduler._engine._timers  # type: ignore[union-attr]  # it runs
    wakes: list[int] = []
    look = timers._look_at_clock

    def watched() -> None:
        wakes.append(world.now_ms)
        look()

    timers._look_at_clock = watched  # type: ignore[method-assign]  # counted, and forwarded
    await world.pass_ms(3_600_000)

    assert 120 == len(wakes)
    assert calls == len(node.faults.calls)


async def test_thousand_jobs_due_at_one_instant_cost_a_handful_of_calls(world: World) -> None:
    """
    Claims and finishes of one instant are gathered into batches, each job runs, and none is late.
    """
    node = world.node()
    ran: set[str] = set()

    async def job(ctx: RunContext) -> None:
        ran.add(ctx.job)

    for number in range(JOBS):
        node.scheduler.every(f"job-{number}", "1m", job)
    await node.start()
    await node.hears("finish", count=JOBS, within_ms=70_000)

    assert JOBS == len(ran)
    assert [60_000] * JOBS == node.when("start")
    assert node.faults.count("claim") <= 8
    assert node.faults.count("finish") <= 16
    assert node.faults.count("register") <= 4
    sizes = [call.items for call in node.faults.calls]

    assert max(sizes) <= 256


async def test_lone_claim_is_sent_at_once(world: World) -> None:
    """
    Gathering never waits: a single due job costs one call, at its instant.
    """
    node = world.node()
    node.scheduler.every("job", "10s", lambda: None)
    await node.start()
    await node.hears("finish")

    assert [10_000] == [call.at_ms for call in node.faults.calls if call.method == "claim"]


async def test_what_comes_due_while_a_call_is_in_flight_goes_out_as_one_batch(
    world: World,
) -> None:
    """
    Group commit: a slow call is followed by one for all that waited.
    """
    node = world.node()
    for number in range(10):
        node.scheduler.every(f"job-{number}", "1m", lambda: None, offset=10 + number / 100)
    await node.start()

    async def slow(served: object) -> object:
        await world.pass_ms(500)
        return await served()  # type: ignore[operator]  # a Served

    node.faults.next("claim", slow)
    await node.hears("finish", count=10)

    assert [1, 9] == [call.items for call in node.faults.calls if call.method == "claim"]


async def test_renewals_of_a_batch_go_in_order_of_job_and_slot(world: World) -> None:
    """
    Statements that touch several jobs lock them in one order, whatever order they came due in.
    """
    node = world.node()
    batches: list[list[tuple[str, int]]] = []
    names = [f"job-{number:02}" for number in range(30)]
    random.Random(1).shuffle(names)
    for name in names:
        node.scheduler.every(name, "1m", lambda: world.pass_ms(5_000))

    class Watching(MemoryBackend):
        """
        A backend that writes down what is renewed together.
        """

        async def renew(
            self, requests: Sequence[RenewRequest], *, timeout_ms: int
        ) -> Sequence[RenewAnswer | BackendError]:
            """
            Write down, and renew.
            """
            batches.append([(request.job, request.slot) for request in requests])
            return await super().renew(requests, timeout_ms=timeout_ms)

    node.scheduler.use(Watching(world.store))
    await node.start()
    await node.hears("finish", count=30, within_ms=70_000)

    assert 30 == max(len(batch) for batch in batches)
    assert [sorted(batch) for batch in batches] == batches


class Broken:
    """
    A schedule that works until it is broken.
    """

    def __init__(self) -> None:
        self.broken = False
        self._every = Every("10s")

    def next_slot(self, after_ms: int) -> int | None:
        """
        Answer, or raise.
        """
        if self.broken:
            raise ZeroDivisionError("next")
        return self._every.next_slot(after_ms)

    def last_slot(self, at_ms: int) -> int | None:
        """
        Answer, or raise.
        """
        if self.broken:
            raise ZeroDivisionError("last")
        return self._every.last_slot(at_ms)


@pytest.mark.parametrize("catch_up", ["latest", "none", "all"])
async def test_schedule_that_raises_never_stops_the_others(world: World, catch_up: CatchUp) -> None:
    """
    It is told, asked again after a while, and goes on when it works again.
    """
    node, schedule = world.node(), Broken()

    async def job(ctx: RunContext) -> None:
        world.note(ctx, ctx.job)

    for name in ("a", "c"):
        node.scheduler.every(name, "10s", job, catch_up=catch_up)
    node.scheduler.job("b", schedule, job, catch_up=catch_up)
    await node.start()
    await world.pass_ms(15_000)
    schedule.broken = True
    await world.pass_ms(100_000)

    assert world.slots("a") == world.slots("c") == list(range(10, 120, 10))
    assert {"b"} == {event.job for event in node.told("error")}
    assert len(node.told("error")) <= 15
    assert {ZeroDivisionError} == {type(event.error) for event in node.told("error")}
    schedule.broken = False
    before = len(world.slots("b"))
    await world.pass_ms(100_000)

    assert before + 5 <= len(world.slots("b"))
    assert len(set(world.slots("b"))) == len(world.slots("b"))


@pytest.mark.parametrize("catch_up", ["latest", "all"])
async def test_schedule_that_raises_while_its_run_is_reported_keeps_the_run(
    world: World, catch_up: CatchUp
) -> None:
    """
    The store has granted the run: it is executed, whatever computing the missed slots raises.
    """
    first, second, schedule = world.node(), world.node(), Broken()
    for node in (first, second):

        @node.scheduler.job("job", schedule, catch_up=catch_up)
        async def job(ctx: RunContext) -> None:
            world.note(ctx)

    await first.start()
    await first.stop()
    await world.pass_ms(40_000)

    async def break_it(served: object) -> object:
        answers = await served()  # type: ignore[operator]  # a Served
        schedule.broken = True
        return answers

    second.faults.next("claim", break_it)
    await second.start()
    await second.hears("finish")

    assert 1 == len(world.notes)
    schedule.broken = False


async def test_catching_up_goes_on_when_a_schedule_raised_on_the_way(world: World) -> None:
    """
    Under "all" the next slot is asked for when a run has ended; it is asked for again when that raises.
    """
    node, schedule = world.node(), Broken()

    @node.scheduler.job("job", schedule, catch_up="all")
    async def job(ctx: RunContext) -> None:
        world.note(ctx)
        schedule.broken = len(world.notes) == 2

    await node.start()
    await world.pass_ms(25_000)
    (error,) = node.told("error")

    assert ("job", "next") == (error.job, str(error.error))
    schedule.broken = False
    await world.pass_ms(60_000)

    assert list(range(10, 81, 10)) == world.slots()


async def test_job_whose_schedule_raises_at_start_is_left_out_and_told(world: World) -> None:
    """
    The others start.
    """
    node, schedule = world.node(), Broken()
    node.scheduler.job("bad", schedule, lambda: None)
    node.scheduler.every("good", "10s", lambda: None)
    schedule.broken = True
    await node.start()
    (error,) = node.told("error")
    (finish,) = await node.hears("finish")

    assert ("bad", "good") == (error.job, finish.job)
    assert ("good",) == node.told("scheduler_started")[0].jobs


async def test_schedule_that_ends_is_asked_no_more(world: World) -> None:
    """
    After its last slot a job is simply over.
    """
    node = world.node()
    node.scheduler.once("once", START_MS + 5_000, lambda: None)
    node.scheduler.every("tick", "10s", lambda: None)
    await node.start()
    await world.pass_ms(100_000)

    assert 1 == len([event for event in node.told("finish") if event.job == "once"])
    assert [] == node.told("error")


async def test_scheduler_without_jobs_starts_and_stops(world: World) -> None:
    """
    Nothing to run is no error.
    """
    node = world.node()
    await node.start()
    await world.pass_ms(100_000)
    await node.stop()

    assert ["scheduler_started", "scheduler_stopped"] == [event.type for _, event in node.events]


async def test_loser_keeps_watching_every_slot(world: World) -> None:
    """
    When the instance that always wins has gone, the next slot is claimed by another one, on time.
    """
    first, second = world.node(), world.node(jitter="100ms")
    for node in (first, second):

        @node.scheduler.every("job", "10s")
        async def job(ctx: RunContext) -> None:
            world.note(ctx)

        await node.start()
    await world.pass_ms(35_000)
    await first.crash()
    await world.pass_ms(30_000)

    assert [10, 20, 30, 40, 50, 60] == world.slots()
    assert all(
        note.at_ms - 1_000 * slot <= 100
        for note, slot in zip(world.notes, world.slots(), strict=True)
    )


async def test_instances_that_start_at_any_moment_share_one_grid(world: World) -> None:
    """
    Twenty instances, twenty start times, a job that is over at once: one run a slot.
    """
    chance = random.Random(7)
    nodes = [world.node() for _ in range(20)]
    for node in nodes:

        @node.scheduler.every("job", "10s")
        async def job(ctx: RunContext) -> None:
            world.note(ctx)

        await node.start()
        await world.pass_ms(chance.randrange(1_000))
    await world.pass_ms(100_000)
    seconds = world.now_ms // 10_000

    assert [10 * number for number in range(1, seconds + 1)] == world.slots()


async def test_restarts_lose_no_scheduler(world: World) -> None:
    """
    The store comes and goes a hundred times: every instance still claims.
    """
    node = world.node()

    @node.scheduler.every("job", "10s")
    async def job(ctx: RunContext) -> None:
        world.note(ctx)

    await node.start()
    for _ in range(100):
        node.faults.down = ConnectionResetError("restarting")
        await world.pass_ms(700)
        node.faults.down = None
        await world.pass_ms(1_300)
    await world.pass_ms(25_000)

    assert 220 == world.slots()[-1]
    assert len(set(world.slots())) == len(world.slots())


async def test_handlers_of_one_instance_run_side_by_side(world: World) -> None:
    """
    A hundred jobs that wait do not wait for each other.
    """
    node = world.node()
    for number in range(100):
        node.scheduler.every(f"job-{number}", "1m", lambda: world.pass_ms(1_000))
    await node.start()
    await node.hears("finish", count=100, within_ms=70_000)

    assert 61_000 == world.now_ms
