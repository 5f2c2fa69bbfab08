"""
Renewals: the heartbeat of a run, valid while nobody has taken it over.
"""

from __future__ import annotations

from anarchon.backend import Verdict
from anarchon_conformance.harness import Bench, new_token
from anarchon_conformance.marking import clause


@clause("RNW-1")
async def test_renewal_prolongs_the_lease(bench: Bench) -> None:
    """
    A run that was renewed outlives the lease that it was claimed with.
    """
    async with bench.world() as world:
        runner, backup = await world.two()
        slot = world.slot(1)
        token = await runner.win(slot, lease_ms=bench.short_ms)
        answer = await runner.renew(slot, token)

        assert answer.held
        assert slot == answer.high
        await backup.goes_on(slot, for_ms=2 * bench.short_ms)


@clause("RNW-1")
async def test_renewal_counts_from_now(bench: Bench) -> None:
    """
    The lease's new length counts from the renewal, also when it is shorter than before.
    """
    async with bench.world() as world:
        runner, backup = await world.two()
        slot = world.slot(1)
        token = await runner.win(slot)
        await runner.renew(slot, token, lease_ms=bench.short_ms)
        answer = await backup.take_over(slot, 2)

        assert Verdict.WON == answer.verdict


@clause("RNW-2")
async def test_late_renewal_is_valid(bench: Bench) -> None:
    """
    A runner that was only slow, and whom nobody has missed yet, keeps its run.
    """
    async with bench.world() as world:
        runner, backup = await world.two()
        slot = world.slot(1)
        token = await runner.win(slot, lease_ms=bench.short_ms)
        await backup.run_out(slot)
        answer = await runner.renew(slot, token)
        watched = await backup.claim(slot, attempt=2)

        assert answer.held
        assert Verdict.RUNNING == watched.verdict


@clause("RNW-3")
async def test_stranger_renews_nothing(bench: Bench) -> None:
    """
    Token, attempt, slot and job must all be those of the live run.
    """
    async with bench.world() as world:
        runner, backup = await world.two()
        slot = world.slot(1)
        token = await runner.win(slot, lease_ms=bench.short_ms)
        refused = [
            await runner.renew(slot, new_token()),
            await runner.renew(slot, token, attempt=2),
            await runner.renew(world.slot(2), token),
            await runner.renew(slot, token, job="unknown"),
        ]

        assert [False] * 4 == [each.held for each in refused]
        assert Verdict.WON == (await backup.take_over(slot, 2)).verdict


@clause("RNW-4")
async def test_ended_run_is_not_renewed(bench: Bench) -> None:
    """
    A heartbeat that arrives after the end brings nothing back to life.
    """
    async with bench.world() as world:
        runner, backup = await world.two()
        finished = await runner.win(world.slot(1))
        await runner.finish(world.slot(1), finished)
        after_finish = await runner.renew(world.slot(1), finished)
        given_up = await runner.win(world.slot(2), lease_ms=bench.short_ms)
        await backup.take_over(world.slot(2), 2, takeover=False)
        after_give_up = await runner.renew(world.slot(2), given_up)
        next_one = await backup.claim(world.slot(3), overlap="wait")

        assert [False, False] == [after_finish.held, after_give_up.held]
        assert Verdict.WON == next_one.verdict


@clause("RNW-5")
async def test_repeated_claim_renews(bench: Bench) -> None:
    """
    A claimer that had to ask twice does not start with half a lease.
    """
    async with bench.world() as world:
        runner, backup = await world.two()
        slot = world.slot(1)
        token = await runner.win(slot, lease_ms=bench.short_ms)
        await runner.win(slot, token=token)
        await backup.goes_on(slot, for_ms=2 * bench.short_ms)
        answer = await runner.finish(slot, token)

        assert answer.accepted


@clause("RNW-6")
async def test_repeated_renewal_is_answered_alike(bench: Bench) -> None:
    """
    A renewal whose answer got lost may be sent again, over another connection too.
    """
    async with bench.world() as world:
        runner, copy = await world.two()
        slot = world.slot(1)
        token = await runner.win(slot)
        answers = [
            await runner.renew(slot, token),
            await runner.renew(slot, token),
            await copy.renew(slot, token),
        ]

        assert [(True, slot)] * 3 == [(answer.held, answer.high) for answer in answers]
