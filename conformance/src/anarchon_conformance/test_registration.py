"""
Registration: what a store knows of a job, and since when.
"""

from __future__ import annotations

import asyncio

import pytest

from anarchon.backend import AnswerReason, Verdict
from anarchon.errors import BackendError
from anarchon_conformance.harness import Bench, new_token
from anarchon_conformance.marking import clause


@clause("REG-1")
async def test_new_job_has_missed_nothing(bench: Bench) -> None:
    """
    The slot of a new job's registration counts as past, with everything before it.
    """
    async with bench.world() as world:
        instance, other = await world.two()
        answer = await instance.register(world.slot(3))
        same = await other.claim(world.slot(3))
        older = await other.claim(world.slot(2))
        newer = await other.claim(world.slot(4))

        assert (True, world.slot(3)) == (answer.new, answer.high)
        assert (None, None, None) == (answer.since_ms, answer.fingerprint, answer.run)
        assert (Verdict.DONE, AnswerReason.ENDED) == (same.verdict, same.reason)
        assert (Verdict.LATE, AnswerReason.SUPERSEDED) == (older.verdict, older.reason)
        assert (Verdict.WON, world.slot(3)) == (newer.verdict, newer.previous_high)


@clause("REG-2")
async def test_future_slot_is_refused(bench: Bench) -> None:
    """
    An instance whose clock is fast does not shut a new job until its clock was right.
    """
    async with bench.world() as world:
        instance, other = await world.two()
        with pytest.raises(BackendError):
            await instance.register(await instance.now_ms() + 3_600_000)
        answer = await other.register(world.slot(1))

        assert (True, world.slot(1)) == (answer.new, answer.high)


@clause("REG-3")
async def test_job_without_a_slot_is_known(bench: Bench) -> None:
    """
    A job whose first slot is to come is not new the second time, and that slot is granted.
    """
    async with bench.world() as world:
        instance, other = await world.two()
        first = await instance.register(None)
        second = await other.register(world.slot(1))
        claimed = await other.claim(world.slot(1))

        assert (True, None) == (first.new, first.high)
        assert (False, None) == (second.new, second.high)
        assert (Verdict.WON, None) == (claimed.verdict, claimed.previous_high)


@clause("REG-4")
async def test_known_job_is_told_and_left(bench: Bench) -> None:
    """
    An instance that starts hears what is going on, and moves nothing.
    """
    async with bench.world() as world:
        runner, starting = await world.two()
        await runner.register(world.slot(1))
        await runner.win(world.slot(2))
        answers = [await starting.register(world.slot(index)) for index in (1, 3)]
        runs = [answer.run for answer in answers if answer.run is not None]

        assert [(False, world.slot(2))] * 2 == [(answer.new, answer.high) for answer in answers]
        assert [(world.slot(2), 1, runner.label)] * 2 == [
            (run.slot, run.attempt, run.instance_id) for run in runs
        ]
        assert bench.long_ms - bench.patience_ms < runs[0].remaining_ms <= bench.long_ms


@clause("REG-5")
async def test_schedule_is_told_and_replaced(bench: Bench) -> None:
    """
    Each instance hears the schedule that stood before, and leaves its own.
    """
    async with bench.world() as world:
        instance, other = await world.two()
        await instance.register(world.slot(1), fingerprint="one", zone_digests="2026:a")
        second = await other.register(world.slot(1), fingerprint="two", zone_digests="2026:b")
        third = await other.register(world.slot(1), fingerprint="two", zone_digests="2026:b")

        assert ("one", "2026:a") == (second.fingerprint, second.zone_digests)
        assert ("two", "2026:b") == (third.fingerprint, third.zone_digests)


@clause("REG-6")
async def test_changed_schedule_starts_anew(bench: Bench) -> None:
    """
    Since tells when the schedule changed; the same one, or one that gives no fingerprint, changes nothing.
    """
    async with bench.world() as world:
        instance = await world.join()
        slack_ms = bench.capabilities.time_resolution_ms
        slot = world.slot(1)
        await instance.register(slot, fingerprint="one")
        same = await instance.register(slot, fingerprint="one")
        before_ms = await instance.now_ms()
        changed = await instance.register(slot, fingerprint="two")
        after_ms = await instance.now_ms()
        silent = await instance.register(slot)
        again = await instance.register(slot, fingerprint="two")

        assert same.since_ms is None
        assert changed.since_ms is not None
        assert before_ms - slack_ms <= changed.since_ms <= after_ms + slack_ms
        assert [changed.since_ms] * 2 == [silent.since_ms, again.since_ms]
        assert ["two"] * 2 == [silent.fingerprint, again.fingerprint]


@clause("REG-7")
async def test_grant_writes_its_schedule(bench: Bench) -> None:
    """
    A schedule that reaches the store with a claim counts as if it had been registered.
    """
    async with bench.world() as world:
        instance = await world.join()
        slack_ms = bench.capabilities.time_resolution_ms
        await instance.register(world.slot(1), fingerprint="one", zone_digests="2026:a")
        before_ms = await instance.now_ms()
        granted = await instance.claim(world.slot(2), fingerprint="two", zone_digests="2026:b")
        after_ms = await instance.now_ms()
        lost = await instance.claim(world.slot(2), fingerprint="three")
        told = await instance.register(world.slot(2))

        assert granted.since_ms is not None
        assert before_ms - slack_ms <= granted.since_ms <= after_ms + slack_ms
        assert Verdict.RUNNING == lost.verdict
        assert ("two", "2026:b") == (told.fingerprint, told.zone_digests)
        assert granted.since_ms == told.since_ms


@clause("REG-8")
async def test_zone_digests_are_no_change(bench: Bench) -> None:
    """
    New rules for a zone raise an event somewhere; the schedule is the same.
    """
    async with bench.world() as world:
        instance = await world.join()
        await instance.register(world.slot(1), fingerprint="one", zone_digests="2026:a")
        changed = await instance.register(world.slot(1), fingerprint="one", zone_digests="2026:b")
        claimed = await instance.claim(world.slot(2), fingerprint="one", zone_digests="2026:c")

        assert (None, None) == (changed.since_ms, claimed.since_ms)
        assert "2026:a" == changed.zone_digests


@clause("REG-9")
async def test_one_instance_registers_a_new_job(bench: Bench) -> None:
    """
    When a fleet starts at once, one instance has found a new job, and all agree on high.
    """
    async with bench.world() as world:
        instances = [await world.join() for _ in range(8)]
        counts = []
        for turn in range(10):
            answers = await asyncio.gather(
                *(each.register(world.slot(1), job=f"job-{turn}") for each in instances)
            )
            counts.append(sum(answer.new for answer in answers))

            assert {world.slot(1)} == {answer.high for answer in answers}

        assert [1] * 10 == counts


@clause("REG-10")
async def test_every_answer_tells_high_and_since(bench: Bench) -> None:
    """
    An instance that is behind learns it from whatever it hears.
    """
    async with bench.world() as world:
        instance = await world.join()
        await instance.register(world.slot(1), fingerprint="one")
        since_ms = (await instance.register(world.slot(1), fingerprint="two")).since_ms
        token = new_token()
        claims = [
            ("won", await instance.claim(world.slot(3), token=token)),
            ("running", await instance.claim(world.slot(3))),
            ("late", await instance.claim(world.slot(2))),
            ("overlap", await instance.claim(world.slot(4), overlap="wait")),
            ("early", await instance.claim(await instance.now_ms() + 3_600_000)),
            ("none", await instance.claim(world.slot(9), attempt=2)),
        ]
        finished = await instance.finish(world.slot(3), token)
        claims.append(("done", await instance.claim(world.slot(3))))

        assert since_ms is not None
        assert [(verdict, world.slot(3), since_ms) for verdict, _ in claims] == [
            (answer.verdict, answer.high, answer.since_ms) for _, answer in claims
        ]
        assert world.slot(3) == finished.high
