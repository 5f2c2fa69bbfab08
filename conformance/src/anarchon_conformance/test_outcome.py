"""
Finish: the result of an attempt, accepted once and told again.
"""

from __future__ import annotations

import pytest

from anarchon.backend import AnswerReason, Verdict
from anarchon.errors import BackendError
from anarchon.records import Reason, Status
from anarchon_conformance.harness import Bench, new_token
from anarchon_conformance.marking import clause


@clause("FIN-1")
async def test_finish_closes_the_attempt(bench: Bench) -> None:
    """
    Success and failure are recorded as they were sent, for everyone to read.
    """
    async with bench.world() as world:
        runner, reader = await world.two()
        plan = (
            (Status.SUCCESS, None, None),
            (Status.FAILED, Reason.ERROR, "ValueError: no"),
            (Status.FAILED, Reason.TIMEOUT, "it took too long"),
        )
        told = []
        for index, (status, reason, error) in enumerate(plan):
            slot = world.slot(index)
            token = await runner.win(slot)
            answer = await runner.finish(slot, token, status=status, reason=reason, error=error)
            record = await reader.record(slot)
            told.append((record.status, record.reason, record.error))

            assert answer.accepted
            assert record.finished_at is not None

        assert list(plan) == told


@clause("FIN-2")
async def test_finish_takes_success_or_failed(bench: Bench) -> None:
    """
    Nobody may close a run as interrupted, skipped or running.
    """
    async with bench.world() as world:
        runner, reader = await world.two()
        slot = world.slot(1)
        token = await runner.win(slot)
        before = await reader.record(slot)
        for status in (Status.INTERRUPTED, Status.SKIPPED, Status.RUNNING):
            with pytest.raises(BackendError):
                await runner.finish(slot, token, status=status)

        assert before == await reader.record(slot)
        assert (await runner.renew(slot, token)).held


@clause("FIN-3")
async def test_repeated_finish_is_accepted(bench: Bench) -> None:
    """
    A finish whose answer got lost may be sent again; what was recorded first stands.
    """
    async with bench.world() as world:
        runner, copy = await world.two()
        slot = world.slot(1)
        token = await runner.win(slot)
        await runner.finish(slot, token, started_ago_ms=10)
        before = await copy.record(slot)
        answers = [
            await runner.finish(slot, token),
            await copy.finish(slot, token, status=Status.FAILED, error="too late"),
        ]

        assert [True, True] == [answer.accepted for answer in answers]
        assert before == await copy.record(slot)
        assert Status.SUCCESS == before.status


@clause("FIN-4")
async def test_stranger_finishes_nothing(bench: Bench) -> None:
    """
    Token, attempt, slot and job must all be those of the attempt.
    """
    async with bench.world() as world:
        runner, reader = await world.two()
        slot = world.slot(1)
        token = await runner.win(slot)
        before = await reader.record(slot)
        refused = [
            await reader.finish(slot, new_token()),
            await reader.finish(slot, token, attempt=2),
            await reader.finish(world.slot(2), token),
            await reader.finish(slot, token, job="unknown"),
        ]

        assert [False] * 4 == [answer.accepted for answer in refused]
        assert before == await reader.record(slot)
        assert (await runner.finish(slot, token)).accepted
        assert not (await reader.finish(slot, new_token())).accepted


@clause("FIN-5")
async def test_late_finish_is_accepted(bench: Bench) -> None:
    """
    The result of a run that was only late is still a result.
    """
    async with bench.world() as world:
        runner, backup = await world.two()
        slot = world.slot(1)
        token = await runner.win(slot, lease_ms=bench.short_ms)
        await backup.run_out(slot)
        answer = await runner.finish(slot, token)
        after = await backup.claim(slot, attempt=2)

        assert answer.accepted
        assert Status.SUCCESS == (await backup.record(slot)).status
        assert (Verdict.DONE, AnswerReason.ENDED) == (after.verdict, after.reason)


@clause("FIN-6")
async def test_nothing_is_live_after_a_finish(bench: Bench) -> None:
    """
    The next slot need not wait for the lease of a run that has ended.
    """
    async with bench.world() as world:
        runner, other = await world.two()
        token = await runner.win(world.slot(1))
        await runner.finish(world.slot(1), token)
        known = await other.register(world.slot(1))
        answer = await other.claim(world.slot(2), overlap="wait")

        assert known.run is None
        assert Verdict.WON == answer.verdict
