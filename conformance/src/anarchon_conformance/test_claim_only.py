"""
Claim-only backends: one winner, a history, and at most one execution.
"""

from __future__ import annotations

from anarchon.backend import AnswerReason, Verdict
from anarchon.records import Reason, Retention, Status
from anarchon_conformance.harness import Bench
from anarchon_conformance.marking import clause

_MINUTE_MS = 60_000


@clause("CLO-1")
async def test_claim_is_won_or_taken(bench: Bench) -> None:
    """
    There is no third answer to a claim for a slot that is due.
    """
    async with bench.world() as world:
        instance, other = await world.two()
        slot = world.slot(1)
        verdicts = [(await instance.claim(slot)).verdict, (await other.claim(slot)).verdict]

        assert [Verdict.WON, Verdict.TAKEN] == verdicts


@clause("CLO-2")
async def test_stop_is_recorded(bench: Bench) -> None:
    """
    A run that is in progress when its instance stops is over: nobody can take it.
    """
    async with bench.world() as world:
        instance, other = await world.two()
        slot = world.slot(1)
        token = await instance.win(slot)
        answers = [
            await instance.finish(slot, token, status=Status.INTERRUPTED),
            await other.finish(slot, token, status=Status.INTERRUPTED),
        ]
        record = await other.record(slot)

        assert [True, True] == [answer.accepted for answer in answers]
        assert (Status.INTERRUPTED, Reason.STOPPED) == (record.status, record.reason)
        assert Verdict.TAKEN == (await other.claim(slot)).verdict


@clause("CLO-3")
async def test_forgotten_slot_is_refused(bench: Bench) -> None:
    """
    What the store cannot remember may have run, and does not run again.
    """
    async with bench.world(retention=Retention(records_per_job=3)) as world:
        instance, other = await world.two()
        count = 2 * 3 + bench.capabilities.batch_max + 100
        slots = [world.base_ms + 2 * index for index in range(count)]
        await instance.let_pass(slots)
        oldest = await other.claim(slots[0])
        older = await other.claim(slots[0] - 1)
        newest = await other.claim(slots[-1])

        assert oldest.verdict in {Verdict.LATE, Verdict.TAKEN}
        assert Verdict.LATE != oldest.verdict or Verdict.LATE == older.verdict
        assert Verdict.TAKEN == newest.verdict


@clause("CLO-4")
async def test_no_second_attempt(bench: Bench) -> None:
    """
    A run whose instance died is not started again.
    """
    async with bench.world() as world:
        instance, other = await world.two()
        await instance.win(world.slot(1))
        ended = await instance.win(world.slot(2))
        await instance.finish(world.slot(2), ended, status=Status.INTERRUPTED)
        verdicts = {
            (await other.claim(world.slot(index), attempt=2)).verdict for index in (1, 2, 3)
        }

        assert Verdict.WON not in verdicts


@clause("CLO-5")
async def test_memory_has_the_declared_length(bench: Bench) -> None:
    """
    A slot within the declared memory is granted, and one beyond it may have run.
    """
    async with bench.world() as world:
        instance = await world.join()
        memory_ms = bench.capabilities.claim_memory_ms or 0
        now_ms = await instance.now_ms()
        beyond = await instance.claim(now_ms - memory_ms - _MINUTE_MS)
        within = await instance.claim(now_ms - memory_ms + _MINUTE_MS)

        assert Verdict.WON == within.verdict
        assert (Verdict.LATE, AnswerReason.TOO_OLD) == (beyond.verdict, beyond.reason)


@clause("CLO-6")
async def test_rising_slots_stay_in_order(bench: Bench) -> None:
    """
    An older slot after a newer one is late where slots only rise, and granted where they need not.
    """
    async with bench.world() as world:
        instance, other = await world.two()
        await instance.win(world.slot(2))
        older = await other.claim(world.slot(1))
        apart = await other.claim(world.slot(1), job="another")
        newer = await other.claim(world.slot(3))
        rising = (Verdict.LATE, AnswerReason.TOO_OLD)
        expected = rising if bench.capabilities.rising_slots else (Verdict.WON, None)

        assert expected == (older.verdict, older.reason)
        assert [Verdict.WON, Verdict.WON] == [apart.verdict, newer.verdict]
