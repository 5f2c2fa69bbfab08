"""
Claims: one winner, whoever asks, however often.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter

from anarchon.backend import Verdict
from anarchon.records import Retention, Status
from anarchon_conformance.harness import Bench, new_token
from anarchon_conformance.marking import clause

_CLIENTS = 8
_SLOTS = 25


def _winners_by_slot(claims: list[tuple[int, Verdict]]) -> dict[int, int]:
    won: Counter[int] = Counter({slot: 0 for slot, _ in claims})
    won.update(slot for slot, verdict in claims if verdict is Verdict.WON)
    return dict(won)


@clause("CLM-1")
async def test_one_winner_among_tasks(bench: Bench) -> None:
    """
    Eight connections claim each run at the same moment, and one of them wins.
    """
    async with bench.world() as world:
        instances = [await world.join() for _ in range(_CLIENTS)]
        claims: list[tuple[int, Verdict]] = []
        for index in range(_SLOTS):
            slot = world.slot(index)
            answers = await asyncio.gather(
                *(each.claim(slot, job=f"job-{index}") for each in instances)
            )
            claims += [(slot, answer.verdict) for answer in answers]

        assert {world.slot(index): 1 for index in range(_SLOTS)} == _winners_by_slot(claims)


@clause("CLM-1")
async def test_no_update_is_lost(bench: Bench) -> None:
    """
    A counter that only winners read and write, with a pause between, loses no update.
    """
    async with bench.world() as world:
        instances = [await world.join() for _ in range(_CLIENTS)]
        count = 0

        async def work(index: int, place: int) -> int:
            nonlocal count
            answer = await instances[place].claim(world.slot(index), job=f"job-{index}")
            if answer.verdict is not Verdict.WON:
                return 0
            seen = count
            await instances[place].now_ms()
            count = seen + 1
            return 1

        wins = 0
        for index in range(_SLOTS):
            wins += sum(await asyncio.gather(*(work(index, place) for place in range(_CLIENTS))))

        assert _SLOTS == wins
        assert _SLOTS == count


@clause("CLM-2")
async def test_one_winner_among_threads(bench: Bench) -> None:
    """
    Event loops in four threads claim the same runs, and each run has one winner.
    """
    claims: list[tuple[int, Verdict]] = []
    errors: list[BaseException] = []
    threads = 4
    barrier = threading.Barrier(threads)

    async def race(namespace: str, base_ms: int) -> None:
        async with bench.world(namespace=namespace) as world:
            instance = await world.join()
            barrier.wait(bench.patience_ms / 1_000)
            for index in range(_SLOTS):
                slot = base_ms + index * 1_000
                answer = await instance.claim(slot, job=f"job-{index}")
                claims.append((slot, answer.verdict))

    def run(namespace: str, base_ms: int) -> None:
        try:
            asyncio.run(race(namespace, base_ms))
        except BaseException as error:  # noqa: BLE001 - a thread's error belongs to the test
            errors.append(error)
            barrier.abort()

    async with bench.world() as world:
        await world.join()
        pool = [
            threading.Thread(target=run, args=(world.namespace, world.base_ms))
            for _ in range(threads)
        ]
        for thread in pool:
            thread.start()
        for thread in pool:
            await asyncio.to_thread(thread.join)

        assert [] == errors
        assert {world.slot(index): 1 for index in range(_SLOTS)} == _winners_by_slot(claims)


@clause("CLM-4")
async def test_repeated_claim_is_won_again(bench: Bench) -> None:
    """
    The answer to a claim may get lost: asked again, also by another connection, it is the same.
    """
    async with bench.world() as world:
        first, second = await world.two()
        token = new_token()
        answers = [
            await first.claim(world.slot(1), token=token),
            await first.claim(world.slot(1), token=token),
            await second.claim(world.slot(1), token=token),
        ]

        assert [Verdict.WON] * 3 == [answer.verdict for answer in answers]
        assert [None] * 3 == [answer.previous_high for answer in answers]
        assert 1 == len(await first.history())


@clause("CLM-5")
async def test_lost_claim_changes_nothing(bench: Bench) -> None:
    """
    Whoever loses leaves the winner's record and rights alone.
    """
    async with bench.world() as world:
        winner, loser = await world.two()
        slot = world.slot(1)
        token = await winner.win(slot)
        before = await loser.record(slot)
        lost = [(await loser.claim(slot)).verdict for _ in range(3)]

        assert Verdict.WON not in lost
        assert before == await loser.record(slot)
        assert winner.label == before.instance_id
        assert (await winner.finish(slot, token)).accepted


@clause("CLM-6")
async def test_finished_slot_stays_finished(bench: Bench) -> None:
    """
    Success or failure, nobody wins the slot again.
    """
    async with bench.world() as world:
        winner, other = await world.two()
        verdicts = set()
        for index, status in enumerate((Status.SUCCESS, Status.FAILED)):
            slot = world.slot(index)
            token = await winner.win(slot)
            await winner.finish(slot, token, status=status)
            for each in (winner, other):
                verdicts.add((await each.claim(slot)).verdict)

        assert {Verdict.DONE if bench.capabilities.leases else Verdict.TAKEN} == verdicts


@clause("CLM-7")
async def test_pruning_frees_no_slot(bench: Bench) -> None:
    """
    When the records of old runs are gone, their slots are still not to be had.
    """
    retention = Retention(age_ms=1, records_per_job=1)
    async with bench.world(retention=retention) as world:
        instance, other = await world.two()
        for index in range(6):
            token = await instance.win(world.slot(index))
            await instance.finish(world.slot(index), token)
        again = [(await other.claim(world.slot(index))).verdict for index in range(6)]

        assert Verdict.WON not in again


@clause("CLM-8")
async def test_won_carries_the_previous_high(bench: Bench) -> None:
    """
    The winner learns which slot was the newest before, and so which ones were missed.
    """
    async with bench.world() as world:
        instance, other = await world.two()
        told = []
        for index in (1, 4, 5):
            token = new_token()
            answer = await instance.claim(world.slot(index), token=token)
            repeated = await other.claim(world.slot(index), token=token)
            told.append((answer.previous_high, repeated.previous_high))
            await instance.finish(world.slot(index), token)

        assert [
            (None, None),
            (world.slot(1), world.slot(1)),
            (world.slot(4), world.slot(4)),
        ] == told
