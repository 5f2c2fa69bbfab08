"""
Claims that come too late or too early, judged by the store's clock.
"""

from __future__ import annotations

from anarchon.backend import AnswerReason, Verdict
from anarchon_conformance.harness import Bench, new_token, until
from anarchon_conformance.marking import clause

_TRIES_MAX = 6
_HOUR_MS = 3_600_000
_MINUTE_MS = 60_000


@clause("LAT-1")
async def test_older_slot_is_superseded(bench: Bench) -> None:
    """
    Once a newer slot was granted, an older one is over, whether it ever ran or not.
    """
    async with bench.world() as world:
        instance, lagging = await world.two()
        for index in (1, 3):
            token = await instance.win(world.slot(index))
            await instance.finish(world.slot(index), token)
        answers = [
            await lagging.claim(world.slot(2)),
            await lagging.claim(world.slot(1)),
            await lagging.claim(world.slot(2), attempt=2),
            await lagging.claim(world.slot(2), overlap="wait"),
        ]

        assert [(Verdict.LATE, AnswerReason.SUPERSEDED)] * 4 == [
            (answer.verdict, answer.reason) for answer in answers
        ]
        assert {world.slot(3)} == {answer.high for answer in answers}
        assert 2 == len(await instance.history())


@clause("LAT-2")
async def test_too_old_slot_is_not_run(bench: Bench) -> None:
    """
    A slot older than max_lateness is refused and stays unknown; a younger one is granted.
    """
    async with bench.world() as world:
        instance = await world.join()
        slot = world.slot(1)
        refused = await instance.claim(slot, max_lateness_ms=_MINUTE_MS)
        empty = await instance.history()
        granted = await instance.claim(slot, max_lateness_ms=2 * _HOUR_MS)

        assert (Verdict.LATE, AnswerReason.TOO_OLD) == (refused.verdict, refused.reason)
        assert refused.high is None
        assert [] == list(empty)
        assert Verdict.WON == granted.verdict


@clause("LAT-3")
async def test_expired_claim_is_not_granted(bench: Bench) -> None:
    """
    A claim that its sender has given up, and that arrives all the same, starts nothing.
    """
    async with bench.world() as world:
        instance = await world.join()
        slot = world.slot(1)
        now_ms = await instance.now_ms()
        refused = await instance.claim(slot, not_after_ms=now_ms - 1_000)
        empty = await instance.history()
        granted = await instance.claim(slot, not_after_ms=now_ms + _HOUR_MS)

        assert (Verdict.LATE, AnswerReason.EXPIRED) == (refused.verdict, refused.reason)
        assert [] == list(empty)
        assert Verdict.WON == granted.verdict


@clause("LAT-4")
async def test_granted_claim_is_won_after_its_end(bench: Bench) -> None:
    """
    The claimer asks once more after not_after, to know: what was granted before is won.
    """
    async with bench.world() as world:
        instance = await world.join()
        index, within_ms = 1, bench.short_ms
        while True:
            slot, token = world.slot(index), new_token()
            not_after_ms = await instance.now_ms() + within_ms
            first = await instance.claim(slot, token=token, not_after_ms=not_after_ms)
            if first.verdict is not Verdict.LATE or index == _TRIES_MAX:
                break
            # The claim itself came too late: the machine is that busy.
            index, within_ms = index + 1, 2 * within_ms
        await until(
            instance.now_ms,
            lambda now_ms: now_ms > not_after_ms,
            within_ms=within_ms + bench.patience_ms,
        )
        again = await instance.claim(slot, token=token, not_after_ms=not_after_ms)

        assert [Verdict.WON] * 2 == [first.verdict, again.verdict]


@clause("LAT-5")
async def test_slot_of_the_future_is_early(bench: Bench) -> None:
    """
    An instance whose clock is fast is told how long to wait, and shuts nobody out.
    """
    async with bench.world() as world:
        fast, other = await world.two()
        ahead = await fast.now_ms() + _HOUR_MS
        answer = await fast.claim(ahead)
        empty = await fast.history()
        ordinary = await other.claim(world.slot(1))

        assert Verdict.EARLY == answer.verdict
        assert _HOUR_MS - bench.patience_ms < answer.wait_ms <= _HOUR_MS
        assert answer.high is None
        assert [] == list(empty)
        assert Verdict.WON == ordinary.verdict


@clause("LAT-7")
async def test_slot_just_ahead_is_granted(bench: Bench) -> None:
    """
    Clocks that differ by a few hundred milliseconds cost nobody a round trip.
    """
    async with bench.world() as world:
        instance = await world.join()
        answer = await instance.claim(await instance.now_ms() + 400)

        assert Verdict.WON == answer.verdict


@clause("LAT-8")
async def test_skip_is_told_after_its_end(bench: Bench) -> None:
    """
    The claimer asks once more after not_after, to know: what was skipped is reported, with its range.
    """
    async with bench.world() as world:
        runner, other = await world.two()
        await runner.win(world.slot(1))
        slot, token = world.slot(4), new_token()
        not_after_ms = await other.now_ms() + bench.patience_ms
        first = await other.claim(slot, token=token, not_after_ms=not_after_ms)
        again = await other.claim(slot, token=token, not_after_ms=not_after_ms - _HOUR_MS)
        stranger = await other.claim(slot, not_after_ms=not_after_ms - _HOUR_MS)

        assert [(Verdict.OVERLAP, True, world.slot(1))] * 2 == [
            (answer.verdict, answer.recorded, answer.previous_high) for answer in (first, again)
        ]
        assert (Verdict.LATE, AnswerReason.EXPIRED) == (stranger.verdict, stranger.reason)
        assert 2 == len(await runner.history())
