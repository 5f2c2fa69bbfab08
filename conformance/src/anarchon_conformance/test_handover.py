"""
Release: a run handed over, so that another instance starts the next attempt at once.
"""

from __future__ import annotations

from anarchon.backend import Verdict
from anarchon.records import Reason, Status
from anarchon_conformance.harness import Bench, new_token
from anarchon_conformance.marking import clause


@clause("REL-1")
async def test_release_is_recorded(bench: Bench) -> None:
    """
    The history says that the attempt was handed over, and when.
    """
    async with bench.world() as world:
        runner, backup = await world.two()
        slot = world.slot(1)
        token = await runner.win(slot)
        answer = await runner.release(slot, token)
        record = await backup.record(slot)

        assert answer.accepted
        assert (Status.INTERRUPTED, Reason.HANDED_OVER) == (record.status, record.reason)
        assert record.finished_at is not None


@clause("REL-2")
async def test_released_token_is_worth_nothing(bench: Bench) -> None:
    """
    Whatever the old runner sent before it went, and arrives late, is refused.
    """
    async with bench.world() as world:
        runner, backup = await world.two()
        slot = world.slot(1)
        token = await runner.win(slot)
        await runner.release(slot, token)
        renewed = await runner.renew(slot, token)
        claimed = await runner.claim(slot, token=token)
        finished = await runner.finish(slot, token)
        taken = await backup.claim(slot, attempt=2)

        assert not renewed.held
        assert Verdict.RUNNING == claimed.verdict
        assert not finished.accepted
        assert Verdict.WON == taken.verdict
        assert Status.INTERRUPTED == (await backup.record(slot)).status


@clause("REL-3")
async def test_repeated_release_is_accepted(bench: Bench) -> None:
    """
    A release whose answer got lost may be sent again, also when a backup has taken over.
    """
    async with bench.world() as world:
        runner, backup = await world.two()
        slot = world.slot(1)
        token = await runner.win(slot)
        await runner.release(slot, token)
        before = await backup.record(slot)
        again = await runner.release(slot, token)
        taken = await backup.win(slot, attempt=2)
        after_takeover = await runner.release(slot, token)

        assert [True, True] == [again.accepted, after_takeover.accepted]
        assert before == await backup.record(slot)
        assert (await backup.renew(slot, taken, attempt=2)).held
        assert Status.RUNNING == (await backup.record(slot, attempt=2)).status


@clause("REL-4")
async def test_release_without_takeover_closes_the_run(bench: Bench) -> None:
    """
    A job that must not be started twice is not live any more.
    """
    async with bench.world() as world:
        runner, backup = await world.two()
        slot = world.slot(1)
        token = await runner.win(slot)
        answer = await runner.release(slot, token, takeover=False)
        known = await backup.register(slot)
        after = await backup.claim(slot, attempt=2)
        next_one = await backup.claim(world.slot(2), overlap="wait")
        record = await backup.record(slot)

        assert answer.accepted
        assert known.run is None
        assert [Verdict.DONE, Verdict.WON] == [after.verdict, next_one.verdict]
        assert (Status.INTERRUPTED, Reason.HANDED_OVER) == (record.status, record.reason)


@clause("REL-5")
async def test_stranger_releases_nothing(bench: Bench) -> None:
    """
    Token, attempt, slot and job must all be those of the live run.
    """
    async with bench.world() as world:
        runner, backup = await world.two()
        slot = world.slot(1)
        token = await runner.win(slot)
        refused = [
            await backup.release(slot, new_token()),
            await backup.release(slot, token, attempt=2),
            await backup.release(world.slot(2), token),
            await backup.release(slot, token, job="unknown"),
        ]
        watched = await backup.claim(slot, attempt=2)

        assert [False] * 4 == [answer.accepted for answer in refused]
        assert Verdict.RUNNING == watched.verdict
        assert (await runner.renew(slot, token)).held
