"""
Fencing: an attempt that lost its run changes nothing any more, and is told so.
"""

from __future__ import annotations

import asyncio

from anarchon.backend import AnswerReason, Verdict
from anarchon.records import Reason, Status
from anarchon_conformance.harness import Bench, Instance, World, new_token, until
from anarchon_conformance.marking import clause

_LABEL = "host:1"


async def _taken_over(world: World, *, lease_ms: int) -> tuple[Instance, Instance, int, str, str]:
    """
    Let a backup take a run over, both instances carrying the same id.
    """
    runner, backup = await world.join(_LABEL), await world.join(_LABEL)
    slot = world.slot(1)
    old = await runner.win(slot, lease_ms=world.bench.short_ms)
    new = new_token()
    answer = await backup.take_over(slot, 2, token=new, lease_ms=lease_ms)

    assert Verdict.WON == answer.verdict
    return runner, backup, slot, old, new


@clause("FNC-1")
async def test_old_attempt_renews_nothing(bench: Bench) -> None:
    """
    A renewal that arrives after the takeover prolongs nobody's lease.
    """
    async with bench.world() as world:
        runner, backup, slot, old, _ = await _taken_over(world, lease_ms=bench.short_ms)
        refused = [
            await runner.renew(slot, old),
            await runner.renew(slot, old, attempt=2),
        ]

        assert [False, False] == [answer.held for answer in refused]
        assert Verdict.WON == (await backup.take_over(slot, 3)).verdict


@clause("FNC-2")
async def test_old_attempt_finishes_nothing(bench: Bench) -> None:
    """
    A result that comes after the takeover is not the run's.
    """
    async with bench.world() as world:
        runner, backup, slot, old, new = await _taken_over(world, lease_ms=bench.long_ms)
        before = await backup.history()
        refused = [
            await runner.finish(slot, old),
            await runner.finish(slot, old, attempt=2),
        ]
        watched = await runner.claim(slot, attempt=3)

        assert [False, False] == [answer.accepted for answer in refused]
        assert before == await backup.history()
        assert Verdict.RUNNING == watched.verdict
        assert (await backup.finish(slot, new, attempt=2)).accepted


@clause("FNC-3")
async def test_old_attempt_releases_nothing(bench: Bench) -> None:
    """
    A hand-over that comes after the takeover takes the run from nobody.
    """
    async with bench.world() as world:
        runner, backup, slot, old, new = await _taken_over(world, lease_ms=bench.long_ms)
        before = await backup.history()
        refused = [
            await runner.release(slot, old),
            await runner.release(slot, old, attempt=2),
            await runner.release(slot, old, takeover=False),
        ]

        assert [False] * 3 == [answer.accepted for answer in refused]
        assert before == await backup.history()
        assert (await backup.renew(slot, new, attempt=2)).held


@clause("FNC-4")
async def test_late_copy_of_a_claim_is_not_granted(bench: Bench) -> None:
    """
    A claim that the network delivers again, after its run has gone on, starts nothing.
    """
    async with bench.world() as world:
        runner, backup, slot, old, new = await _taken_over(world, lease_ms=bench.short_ms)
        first = await runner.claim(slot, token=old)
        await backup.run_out(slot)
        second = await runner.claim(slot, token=old)
        loser = await runner.claim(slot, attempt=2)
        third = await runner.claim(slot, attempt=3)
        copy = await backup.claim(slot, attempt=2, token=new)

        assert [Verdict.RUNNING] * 3 == [first.verdict, second.verdict, loser.verdict]
        assert [Verdict.WON, Verdict.RUNNING] == [third.verdict, copy.verdict]


@clause("FNC-5")
async def test_instance_id_decides_nothing(bench: Bench) -> None:
    """
    In containers every instance may be called alike; only the token tells them apart.
    """
    async with bench.world() as world:
        runner, namesake = await world.join(_LABEL), await world.join(_LABEL)
        slot = world.slot(1)
        token = await runner.win(slot)
        claimed = await namesake.claim(slot)
        finished = await namesake.finish(slot, new_token())

        assert Verdict.WON != claimed.verdict
        assert not finished.accepted
        assert Status.RUNNING == (await namesake.record(slot)).status
        assert (await runner.finish(slot, token)).accepted


@clause("FNC-6")
async def test_superseded_attempt_changes_nothing(bench: Bench) -> None:
    """
    A run that a later slot has replaced is over for its runner too.
    """
    async with bench.world() as world:
        runner, other = await world.two()
        slot, later = world.slot(1), world.slot(2)
        old = await runner.win(slot, lease_ms=bench.short_ms)
        await runner.run_out(slot)
        new = await other.win(later)
        renewed = await runner.renew(slot, old)
        finished = await runner.finish(slot, old)
        released = await runner.release(slot, old)
        record = await other.record(slot)

        assert [False] * 3 == [renewed.held, finished.accepted, released.accepted]
        assert (Status.INTERRUPTED, Reason.SUPERSEDED) == (record.status, record.reason)
        assert (await other.renew(later, new)).held


@clause("FNC-7")
async def test_one_result_of_each_run_is_accepted(bench: Bench) -> None:
    """
    Eight workers whose first attempts outlast their lease: no result is lost, none counts twice.
    """
    async with bench.world() as world:
        workers = [await world.join() for _ in range(8)]
        slot = world.slot(1)
        loop = asyncio.get_running_loop()
        jobs = [f"job-{index}" for index in range(4)]
        counts = dict.fromkeys(jobs, 0)
        results: list[tuple[str, int, str]] = []

        async def hear_nothing(worker: Instance, lasting_ms: float) -> None:
            end = loop.time() + lasting_ms / 1_000
            await until(
                worker.now_ms,
                lambda _: loop.time() >= end,
                within_ms=bench.patience_ms + lasting_ms,
            )

        async def work(worker: Instance, job: str) -> None:
            attempt = 1
            while True:
                token = new_token()
                answer = await worker.claim(
                    slot,
                    attempt=attempt,
                    token=token,
                    job=job,
                    lease_ms=bench.short_ms if attempt < 3 else bench.long_ms,
                    max_crashes=1_000,
                )
                if answer.verdict is Verdict.RUNNING and answer.run is not None:
                    attempt = answer.run.attempt + 1
                    await hear_nothing(worker, bench.short_ms / 20)
                    continue
                if answer.verdict is not Verdict.WON:
                    assert (Verdict.DONE, AnswerReason.ENDED) == (answer.verdict, answer.reason)
                    return
                seen = counts[job]
                if attempt < 3:
                    await hear_nothing(worker, 1.5 * bench.short_ms)
                if (await worker.finish(slot, token, attempt=attempt, job=job)).accepted:
                    counts[job] = seen + 1
                    results.append((job, attempt, worker.label))

        await asyncio.gather(*(work(worker, job) for job in jobs for worker in workers))
        successes = [
            (record.job, record.attempt, record.instance_id)
            for record in await workers[0].history(None)
            if record.status is Status.SUCCESS
        ]

        assert jobs == sorted(job for job, _, _ in results)
        assert sorted(results) == sorted(successes)
        assert dict.fromkeys(jobs, 1) == counts
