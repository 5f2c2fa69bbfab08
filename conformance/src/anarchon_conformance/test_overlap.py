"""
Overlap: two slots of one job are never both live, and the store decides which waits or goes.
"""

from __future__ import annotations

import asyncio

from anarchon.backend import AnswerReason, Verdict
from anarchon.records import Reason, Status
from anarchon_conformance.harness import Bench, new_token
from anarchon_conformance.marking import clause


@clause("OVL-1")
async def test_skipped_slot_is_recorded_once(bench: Bench) -> None:
    """
    A slot that comes due too early for its job is skipped, in the history and for good.
    """
    async with bench.world() as world:
        runner, other = await world.two()
        token = await runner.win(world.slot(1))
        answer = await other.claim(world.slot(3))
        record = await runner.record(world.slot(3))
        await runner.finish(world.slot(1), token)
        later = await runner.claim(world.slot(2))

        assert (Verdict.OVERLAP, True) == (answer.verdict, answer.recorded)
        assert (world.slot(3), world.slot(1)) == (answer.high, answer.previous_high)
        assert (Status.SKIPPED, Reason.OVERLAP) == (record.status, record.reason)
        assert other.label == record.instance_id
        assert record.finished_at is not None
        assert 2 == len(await runner.history())
        assert (Verdict.LATE, AnswerReason.SUPERSEDED) == (later.verdict, later.reason)


@clause("OVL-2")
async def test_repeated_skip_is_answered_alike(bench: Bench) -> None:
    """
    The one who reports the missed slots may have to ask twice; nobody else reports them.
    """
    async with bench.world() as world:
        runner, other = await world.two()
        await runner.win(world.slot(1))
        token = new_token()
        answers = [await other.claim(world.slot(4), token=token) for _ in range(2)]
        stranger = await runner.claim(world.slot(4))

        assert [(Verdict.OVERLAP, True, world.slot(1))] * 2 == [
            (answer.verdict, answer.recorded, answer.previous_high) for answer in answers
        ]
        assert (Verdict.DONE, AnswerReason.ENDED) == (stranger.verdict, stranger.reason)
        assert 2 == len(await runner.history())


@clause("OVL-3")
async def test_waiting_slot_leaves_no_trace(bench: Bench) -> None:
    """
    A slot that waits is granted when the older run has ended.
    """
    async with bench.world() as world:
        runner, other = await world.two()
        token = await runner.win(world.slot(1))
        waiting = await other.claim(world.slot(2), overlap="wait")
        records = len(await runner.history())
        await runner.finish(world.slot(1), token)
        granted = await other.claim(world.slot(2), overlap="wait")

        assert (Verdict.OVERLAP, False) == (waiting.verdict, waiting.recorded)
        assert world.slot(1) == waiting.high
        assert waiting.previous_high is None
        assert 1 == records
        assert (Verdict.WON, world.slot(1)) == (granted.verdict, granted.previous_high)


@clause("OVL-4")
async def test_overlap_names_the_run_in_the_way(bench: Bench) -> None:
    """
    An instance that never saw the older run learns what to watch, and when it is dead.
    """
    async with bench.world() as world:
        runner, other = await world.two()
        slot = world.slot(1)
        await runner.win(slot, lease_ms=bench.short_ms)
        living = await other.claim(world.slot(2), overlap="wait")
        await runner.run_out(slot)
        dead = await other.claim(world.slot(2), overlap="wait")
        taken = await other.claim(slot, attempt=2)
        skipped = await runner.claim(world.slot(3))

        assert [(Verdict.OVERLAP, slot, 1, runner.label)] * 2 == [
            (answer.verdict, answer.run.slot, answer.run.attempt, answer.run.instance_id)
            for answer in (living, dead)
            if answer.run
        ]
        assert dead.run is not None
        assert 0 == dead.run.remaining_ms
        assert Verdict.WON == taken.verdict
        assert skipped.run is not None
        assert (slot, 2, other.label) == (
            skipped.run.slot,
            skipped.run.attempt,
            skipped.run.instance_id,
        )


@clause("OVL-5")
async def test_later_slot_wins_over_a_dead_run(bench: Bench) -> None:
    """
    A run whose lease has run out is not "still going".
    """
    async with bench.world() as world:
        runner, other = await world.two()
        await runner.win(world.slot(1), lease_ms=bench.short_ms)
        await runner.run_out(world.slot(1))
        answer = await other.claim(world.slot(2))
        record = await other.record(world.slot(1))

        assert (Verdict.WON, world.slot(1)) == (answer.verdict, answer.previous_high)
        assert (Status.INTERRUPTED, Reason.SUPERSEDED) == (record.status, record.reason)


@clause("OVL-6")
async def test_later_slot_wins_over_a_released_run(bench: Bench) -> None:
    """
    A run that was handed over, and that nobody took, does not hold up the job.
    """
    async with bench.world() as world:
        runner, other = await world.two()
        token = await runner.win(world.slot(1))
        await runner.release(world.slot(1), token)
        answer = await other.claim(world.slot(2))
        record = await other.record(world.slot(1))

        assert (Verdict.WON, world.slot(1)) == (answer.verdict, answer.previous_high)
        assert (Status.INTERRUPTED, Reason.HANDED_OVER) == (record.status, record.reason)


@clause("OVL-7")
async def test_two_slots_are_never_both_live(bench: Bench) -> None:
    """
    Different connections claim two slots of one job at the same instant; one is live.
    """
    async with bench.world() as world:
        instances = [await world.join() for _ in range(6)]
        held = []
        for turn in range(10):
            job = f"job-{turn}"
            tokens = [new_token() for _ in instances]
            slots = [world.slot(1 + place % 2) for place in range(len(instances))]
            await asyncio.gather(
                *(
                    each.claim(slot, token=token, job=job)
                    for each, slot, token in zip(instances, slots, tokens, strict=True)
                )
            )
            renewals = [
                await instances[0].renew(slot, token, job=job)
                for slot, token in zip(slots, tokens, strict=True)
            ]
            held.append(sum(renewal.held for renewal in renewals))

        assert [1] * 10 == held


@clause("OVL-8")
async def test_older_run_goes_on_beside_skips(bench: Bench) -> None:
    """
    Skipping later slots takes nothing from the run that goes on.
    """
    async with bench.world() as world:
        runner, other = await world.two()
        slot = world.slot(1)
        token = await runner.win(slot)
        for index in (2, 3):
            await other.claim(world.slot(index))
        renewed = await runner.renew(slot, token)
        watched = await other.claim(slot, attempt=2)
        finished = await runner.finish(slot, token)

        assert renewed.held
        assert Verdict.RUNNING == watched.verdict
        assert finished.accepted
        assert Status.SUCCESS == (await other.record(slot)).status


@clause("OVL-9")
async def test_takeover_of_a_superseded_run_is_late(bench: Bench) -> None:
    """
    A backup that still watches the older run hears that its time is over.
    """
    async with bench.world() as world:
        runner, other = await world.two()
        await runner.win(world.slot(1), lease_ms=bench.short_ms)
        await runner.run_out(world.slot(1))
        await other.win(world.slot(2))
        answer = await runner.claim(world.slot(1), attempt=2)

        assert (Verdict.LATE, AnswerReason.SUPERSEDED) == (answer.verdict, answer.reason)
        assert world.slot(2) == answer.high
        assert 2 == len(await runner.history())
