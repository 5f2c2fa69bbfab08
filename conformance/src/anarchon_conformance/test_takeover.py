"""
Takeover: a run whose runner is gone goes to exactly one other, and to nobody for ever.
"""

from __future__ import annotations

import asyncio

from anarchon.backend import AnswerReason, ClaimAnswer, Verdict
from anarchon.records import Reason, RunRecord, Status
from anarchon_conformance.harness import Bench, Instance
from anarchon_conformance.marking import clause

_HOUR_MS = 3_600_000
_MINUTE_MS = 60_000
_GIVEN_UP = (Verdict.DONE, AnswerReason.GIVEN_UP)


def _said(answer: ClaimAnswer) -> tuple[Verdict, AnswerReason | None]:
    return answer.verdict, answer.reason


def _ended(record: RunRecord) -> tuple[Status, Reason | None]:
    return record.status, record.reason


async def _hand_over(
    instance: Instance, slot: int, token: str, attempts: range, *, max_crashes: int
) -> str:
    """
    Release a run and take its next attempt, again and again; return the last token.
    """
    for attempt in attempts:
        await instance.release(slot, token, attempt=attempt)
        token = await instance.win(slot, attempt=attempt + 1, max_crashes=max_crashes)
    return token


@clause("TKO-1")
async def test_live_run_is_shown(bench: Bench) -> None:
    """
    Whoever loses hears which run is in the way, who runs it, and how long its lease is.
    """
    async with bench.world() as world:
        runner, backup = await world.two()
        slot = world.slot(1)
        token = await runner.win(slot)
        answers = [await backup.claim(slot, attempt=attempt) for attempt in (1, 2)]
        runs = [answer.run for answer in answers if answer.run is not None]

        assert [Verdict.RUNNING] * 2 == [answer.verdict for answer in answers]
        assert [(slot, 1, runner.label)] * 2 == [
            (run.slot, run.attempt, run.instance_id) for run in runs
        ]
        assert bench.long_ms >= max(run.remaining_ms for run in runs)
        assert bench.long_ms - bench.patience_ms < min(run.remaining_ms for run in runs)
        assert (await runner.renew(slot, token)).held


@clause("TKO-2")
async def test_expired_run_has_one_taker(bench: Bench) -> None:
    """
    Eight backups see the lease run out at the same moment; one of them takes the run.
    """
    async with bench.world() as world:
        runner = await world.join()
        backups = [await world.join() for _ in range(8)]
        slot = world.slot(1)
        await runner.win(slot, lease_ms=bench.short_ms)
        await runner.run_out(slot)
        answers = await asyncio.gather(*(each.claim(slot, attempt=2) for each in backups))
        verdicts = sorted(answer.verdict for answer in answers)
        seen = {(answer.run.slot, answer.run.attempt) for answer in answers if answer.run}

        assert [Verdict.RUNNING] * 7 + [Verdict.WON] == verdicts
        assert {(slot, 2)} == seen
        assert Verdict.RUNNING == (await runner.claim(slot, attempt=2)).verdict


@clause("TKO-3")
async def test_only_the_next_attempt_takes_over(bench: Bench) -> None:
    """
    A claim is granted what it asked for or nothing: the attempt is compared.
    """
    async with bench.world() as world:
        runner, backup = await world.two()
        slot = world.slot(1)
        await runner.win(slot, lease_ms=bench.short_ms)
        await backup.run_out(slot)
        others = [await backup.claim(slot, attempt=attempt) for attempt in (1, 3, 7)]
        remaining = [answer.run.remaining_ms for answer in others if answer.run]
        taken = await backup.claim(slot, attempt=2)

        assert [Verdict.RUNNING] * 3 == [answer.verdict for answer in others]
        assert [0] * 3 == remaining
        assert Verdict.WON == taken.verdict


@clause("TKO-4")
async def test_lease_holds_as_long_as_asked(bench: Bench) -> None:
    """
    A runner that says nothing more keeps its run for one lease.
    """
    async with bench.world() as world:
        runner, backup = await world.two()
        loop = asyncio.get_running_loop()
        slot = world.slot(1)
        lease_ms = 2 * bench.short_ms
        begun = loop.time()
        await runner.win(slot, lease_ms=lease_ms)
        answer = await backup.take_over(slot, 2)
        lasted_ms = (loop.time() - begun) * 1_000 + bench.capabilities.time_resolution_ms

        assert Verdict.WON == answer.verdict
        assert lasted_ms >= lease_ms


@clause("TKO-5")
async def test_old_attempt_is_closed(bench: Bench) -> None:
    """
    The history says that the old attempt died, and who runs the new one.
    """
    async with bench.world() as world:
        runner, backup = await world.two()
        slot = world.slot(1)
        await runner.win(slot, lease_ms=bench.short_ms)
        await backup.take_over(slot, 2)
        old, new = await runner.record(slot), await runner.record(slot, attempt=2)

        assert (Status.INTERRUPTED, Reason.LEASE_EXPIRED) == _ended(old)
        assert old.finished_at is not None
        assert (Status.RUNNING, None) == _ended(new)
        assert backup.label == new.instance_id


@clause("TKO-6")
async def test_released_run_is_taken_at_once(bench: Bench) -> None:
    """
    A run that was handed over waits for nobody's lease.
    """
    async with bench.world() as world:
        runner, backup = await world.two()
        slot = world.slot(1)
        token = await runner.win(slot)
        await runner.release(slot, token)
        shown = await backup.claim(slot)
        taken = await backup.claim(slot, attempt=2)

        assert shown.run is not None
        assert 0 == shown.run.remaining_ms
        assert Verdict.WON == taken.verdict


@clause("TKO-7")
async def test_run_that_kills_is_given_up(bench: Bench) -> None:
    """
    A job that kills its process does not walk through the whole fleet.
    """
    async with bench.world() as world:
        runner, backup = await world.two()
        slot, short_ms = world.slot(1), bench.short_ms
        await runner.win(slot, lease_ms=short_ms)
        second = await backup.take_over(slot, 2, max_crashes=2, lease_ms=short_ms)
        third = await backup.take_over(slot, 3, max_crashes=2)
        after = [await backup.claim(slot, attempt=attempt) for attempt in (1, 3, 4)]

        assert Verdict.WON == second.verdict
        assert _GIVEN_UP == _said(third)
        assert (Status.INTERRUPTED, Reason.MAX_CRASHES) == _ended(
            await runner.record(slot, attempt=2)
        )
        assert [(Verdict.DONE, AnswerReason.ENDED)] * 3 == [_said(answer) for answer in after]
        assert 2 == len(await runner.history())
        assert Verdict.WON == (await runner.claim(world.slot(2), overlap="wait")).verdict


@clause("TKO-8")
async def test_hand_overs_are_no_crashes(bench: Bench) -> None:
    """
    Ten deploys do not give a long job up.
    """
    async with bench.world() as world:
        instance, backup = await world.two()
        slot = world.slot(1)
        token = await instance.win(slot)
        token = await _hand_over(instance, slot, token, range(1, 5), max_crashes=2)
        await instance.renew(slot, token, attempt=5, lease_ms=bench.short_ms)
        answer = await backup.take_over(slot, 6, max_crashes=2)

        assert Verdict.WON == answer.verdict


@clause("TKO-9")
async def test_crashes_count_for_one_run(bench: Bench) -> None:
    """
    What one run's runners died of is not held against the next slot.
    """
    async with bench.world() as world:
        runner, backup = await world.two()
        verdicts = []
        for index in (1, 2):
            slot = world.slot(index)
            await runner.win(slot, lease_ms=bench.short_ms)
            token = f"token-{index}"
            answer = await backup.take_over(slot, 2, token=token, max_crashes=2)
            verdicts.append(answer.verdict)
            await backup.finish(slot, token, attempt=2)

        assert [Verdict.WON] * 2 == verdicts


@clause("TKO-10")
async def test_dead_run_is_closed_with_takeover_off(bench: Bench) -> None:
    """
    A job that must not be started twice is recorded as interrupted, and left.
    """
    async with bench.world() as world:
        runner, backup = await world.two()
        slot = world.slot(1)
        await runner.win(slot, lease_ms=bench.short_ms)
        answer = await backup.take_over(slot, 2, takeover=False)
        after = await backup.claim(slot, attempt=2)

        assert _GIVEN_UP == _said(answer)
        assert (Status.INTERRUPTED, Reason.TAKEOVER_OFF) == _ended(await runner.record(slot))
        assert Verdict.DONE == after.verdict
        assert Verdict.WON == (await runner.claim(world.slot(2), overlap="wait")).verdict


@clause("TKO-11")
async def test_unknown_run_is_not_taken_over(bench: Bench) -> None:
    """
    A takeover of something that the store has never seen, or forgot, starts nothing.
    """
    async with bench.world() as world:
        instance = await world.join()
        unknown_job = await instance.claim(world.slot(1), attempt=2)
        token = await instance.win(world.slot(1))
        await instance.finish(world.slot(1), token)
        unknown_slot = await instance.claim(world.slot(2), attempt=2)
        granted = await instance.claim(world.slot(2))

        assert [Verdict.NONE] * 2 == [unknown_job.verdict, unknown_slot.verdict]
        assert (Verdict.WON, world.slot(1)) == (granted.verdict, granted.previous_high)
        assert 2 == len(await instance.history())


@clause("TKO-12")
async def test_takeover_carries_the_first_previous_high(bench: Bench) -> None:
    """
    Whoever takes a run over can still tell which slots were missed before it.
    """
    async with bench.world() as world:
        runner, backup = await world.two()
        token = await runner.win(world.slot(1))
        await runner.finish(world.slot(1), token)
        await runner.win(world.slot(4), lease_ms=bench.short_ms)
        answer = await backup.take_over(world.slot(4), 2)

        assert (Verdict.WON, world.slot(1)) == (answer.verdict, answer.previous_high)


@clause("TKO-14")
async def test_every_answer_names_the_live_run(bench: Bench) -> None:
    """
    Whoever comes too late, too early or for nothing learns whose backup it can be.
    """
    async with bench.world() as world:
        runner, other = await world.two()
        slot, skipped, later = world.slot(2), world.slot(4), world.slot(6)
        token = await runner.win(slot)
        await runner.claim(skipped)
        now_ms = await other.now_ms()
        answers = [
            await other.claim(skipped),
            await other.claim(skipped, attempt=2),
            await other.claim(world.slot(1)),
            await other.claim(world.slot(1), attempt=2),
            await other.claim(later, not_after_ms=now_ms - _HOUR_MS),
            await other.claim(later, max_lateness_ms=_MINUTE_MS),
            await other.claim(later, attempt=2),
            await other.claim(now_ms + _HOUR_MS),
        ]

        assert [
            (Verdict.DONE, AnswerReason.ENDED),
            (Verdict.DONE, AnswerReason.ENDED),
            (Verdict.LATE, AnswerReason.SUPERSEDED),
            (Verdict.LATE, AnswerReason.SUPERSEDED),
            (Verdict.LATE, AnswerReason.EXPIRED),
            (Verdict.LATE, AnswerReason.TOO_OLD),
            (Verdict.NONE, None),
            (Verdict.EARLY, None),
        ] == [_said(answer) for answer in answers]
        assert [(slot, 1, runner.label)] * 8 == [
            (answer.run.slot, answer.run.attempt, answer.run.instance_id)
            for answer in answers
            if answer.run is not None
        ]
        assert 0 < min(answer.run.remaining_ms for answer in answers if answer.run is not None)
        await runner.release(slot, token)
        released = await other.claim(skipped)
        given_up = await other.claim(slot, attempt=2, takeover=False)
        over = await other.claim(skipped)

        assert released.run is not None
        assert 0 == released.run.remaining_ms
        assert [None] * 2 == [given_up.run, over.run]
