"""
Batches: each request as if it were alone, in order, and cheaper together.
"""

from __future__ import annotations

import asyncio
import json
import random
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Any

from anarchon.backend import (
    ClaimRequest,
    CloseAnswer,
    FinishRequest,
    RegisterRequest,
    RenewRequest,
    Verdict,
)
from anarchon.errors import BackendError
from anarchon.records import Status
from anarchon_conformance.harness import JOB, Bench, Instance, World, in_pieces, new_token, only
from anarchon_conformance.marking import clause

_MIXED = 1_000
_SAMPLES = 200
# The quietest of several turns counts: a machine that is busy for a moment must not decide.
_TURNS = 5


async def _mixed_claims(world: World, instance: Instance) -> list[tuple[ClaimRequest, Verdict]]:
    """
    Bring jobs into every state, and write claims with the answers that they must get.
    """
    leases = world.bench.capabilities.leases
    old, slot = world.slot(1), world.slot(2)
    held = [instance.claim_request(slot, job=f"held-{index}") for index in range(_MIXED // 5)]
    ended = [instance.claim_request(slot, job=f"ended-{index}") for index in range(_MIXED // 5)]
    answers = await instance.batch(held + ended)

    assert {Verdict.WON} == {answer.verdict for answer in answers}
    for request in ended[:20]:
        await instance.finish(slot, request.token, job=request.job)
    plan = [(instance.claim_request(slot, job=f"new-{i}"), Verdict.WON) for i in range(_MIXED // 5)]
    plan += [(request, Verdict.WON) for request in held]
    taken = Verdict.RUNNING if leases else Verdict.TAKEN
    plan += [(instance.claim_request(slot, job=request.job), taken) for request in held]
    done = Verdict.DONE if leases else Verdict.TAKEN
    plan += [(instance.claim_request(slot, job=request.job), done) for request in ended[:20]]
    if leases:
        plan += [
            (instance.claim_request(old, job=request.job), Verdict.LATE) for request in ended[:20]
        ]
        plan += [
            (instance.claim_request(slot, attempt=2, job=f"unknown-{i}"), Verdict.NONE)
            for i in range(_MIXED // 5)
        ]
    fill = [
        (instance.claim_request(slot, job=f"fill-{i}"), Verdict.WON)
        for i in range(_MIXED - len(plan))
    ]
    plan += fill
    random.Random(7).shuffle(plan)
    return plan


@clause("BAT-1")
async def test_mixed_claims_are_answered_in_order(bench: Bench) -> None:
    """
    A thousand claims of every kind get, one for one, the answer that each would get alone.
    """
    async with bench.world() as world:
        instance = await world.join()
        plan = await _mixed_claims(world, instance)
        answers = await instance.batch([request for request, _ in plan])
        wrong = [
            (request.job, expected, answer.verdict)
            for (request, expected), answer in zip(plan, answers, strict=True)
            if answer.verdict is not expected
        ]

        assert [] == wrong


@clause("BAT-1")
async def test_mixed_finishes_are_answered_in_order(bench: Bench) -> None:
    """
    Finishes with right and wrong tokens, mixed, are accepted and refused one for one.
    """
    async with bench.world() as world:
        instance = await world.join()
        slot = world.slot(1)
        claims = [instance.claim_request(slot, job=f"job-{index}") for index in range(100)]
        random.Random(11).shuffle(claims)
        await instance.batch(claims)
        right = [random.Random(index).random() < 0.5 for index in range(len(claims))]
        finishes = [
            FinishRequest(
                job=claim.job,
                slot=slot,
                attempt=1,
                token=claim.token if valid else new_token(),
                status=Status.SUCCESS,
            )
            for claim, valid in zip(claims, right, strict=True)
        ]

        async def send(requests: Any) -> Any:
            return await instance.backend.finish(requests, timeout_ms=bench.timeout_ms)

        answers: list[CloseAnswer | BackendError]
        answers = await in_pieces(send, finishes, size=bench.capabilities.batch_max)

        assert right == [only([answer]).accepted for answer in answers]


@clause("BAT-2")
async def test_bad_item_fails_alone(bench: Bench) -> None:
    """
    One impossible finish in the middle is an error in its place; the others are served.
    """
    async with bench.world() as world:
        instance = await world.join()
        slot = world.slot(1)
        tokens = [await instance.win(slot, job=f"job-{index}") for index in range(3)]
        statuses = (Status.SUCCESS, Status.RUNNING, Status.FAILED)
        requests = [
            FinishRequest(
                job=f"job-{index}", slot=slot, attempt=1, token=tokens[index], status=status
            )
            for index, status in enumerate(statuses)
        ]
        answers = await instance.backend.finish(requests, timeout_ms=bench.timeout_ms)
        kinds = [isinstance(answer, BackendError) for answer in answers]

        assert [False, True, False] == kinds
        assert only([answers[0]]).accepted
        assert only([answers[2]]).accepted
        assert Status.RUNNING == (await instance.record(slot, job="job-1")).status


def _answered_at_once(call: Awaitable[Any]) -> Any:
    """
    Drive a call by hand: one that waits for anything does not end in its first step.
    """
    steps = call.__await__()
    try:
        next(steps)
    except StopIteration as ended:
        return ended.value
    steps.close()
    message = "an empty batch waited for something"
    raise AssertionError(message)


@clause("BAT-3")
async def test_empty_batch_is_no_round_trip(bench: Bench) -> None:
    """
    Nothing asked, nothing sent: the answer is there before the event loop turns.
    """
    async with bench.world() as world:
        instance = await world.join()
        backend = instance.backend
        calls: list[Callable[..., Awaitable[Any]]] = [backend.claim, backend.finish]
        if bench.capabilities.leases:
            calls += [backend.register, backend.renew, backend.release]
        answers = [_answered_at_once(call([], timeout_ms=bench.timeout_ms)) for call in calls]

        assert [[]] * len(calls) == [list(answer) for answer in answers]
        assert Verdict.WON == (await instance.claim(world.slot(1))).verdict


@clause("BAT-4")
async def test_one_winner_within_a_batch(bench: Bench) -> None:
    """
    Claims for one run that travel together are still judged one after another.
    """
    async with bench.world() as world:
        instance = await world.join()
        requests = [instance.claim_request(world.slot(1)) for _ in range(5)]
        verdicts = [answer.verdict for answer in await instance.batch(requests)]

        assert 1 == verdicts.count(Verdict.WON)
        assert 1 == len(await instance.history(JOB))


@clause("BAT-5")
async def test_opposite_orders_do_not_block(bench: Bench) -> None:
    """
    Claims in one order beside renewals and registrations in the other all end, without an error.
    """
    async with bench.world() as world:
        claimer, renewer = await world.two()
        slot = world.slot(1)
        claims = [claimer.claim_request(slot, job=f"job-{index:02}") for index in range(40)]
        await claimer.batch(claims)
        renewals = [
            RenewRequest(
                job=each.job,
                slot=slot,
                attempt=1,
                token=each.token,
                lease_ms=bench.long_ms - 1,
            )
            for each in reversed(claims)
        ]
        schedules = [
            RegisterRequest(job=each.job, slot=slot, fingerprint=each.token)
            for each in reversed(claims)
        ]
        timeout_ms = bench.timeout_ms
        failures: list[Any] = []
        for _ in range(5):
            ended = await asyncio.gather(
                claimer.claims(claims),
                renewer.backend.renew(renewals, timeout_ms=timeout_ms),
                renewer.backend.register(schedules, timeout_ms=timeout_ms),
                return_exceptions=True,
            )
            for answers in ended:
                listed = [answers] if isinstance(answers, BaseException) else answers
                failures += [each for each in listed if isinstance(each, BaseException)]

        assert [] == failures


def _percentiles(samples_ms: list[float]) -> str:
    ordered = sorted(samples_ms)
    last = len(ordered) - 1
    p50, p99 = ordered[last // 2], ordered[round(last * 0.99)]
    return f"p50 {p50:.3f} ms, p99 {p99:.3f} ms"


async def _timed(call: Callable[[], Awaitable[Any]]) -> float:
    begun = time.perf_counter()
    await call()
    return (time.perf_counter() - begun) * 1_000


@clause("BAT-6")
async def test_batch_is_cheaper_than_its_items(
    bench: Bench, anarchon_figures: Callable[[str], None]
) -> None:
    """
    A batch of claims takes less time than as many claims alone; the figures go into the certificate.
    """
    async with bench.world() as world:
        instance = await world.join()
        slot = world.slot(1)
        count = min(_SAMPLES, bench.capabilities.batch_max)
        raw: list[float] = []
        alone: list[float] = []
        together_ms = float("inf")
        for turn in range(_TURNS):
            requests = [
                instance.claim_request(slot, job=f"together-{turn}-{index}")
                for index in range(count)
            ]
            together_ms = min(together_ms, await _timed(lambda: instance.claims(requests)))  # noqa: B023 - awaited here
            for index in range(count // _TURNS):
                raw.append(await _timed(instance.now_ms))
                job = f"alone-{turn}-{index}"
                alone.append(await _timed(lambda: instance.claim(slot, job=job)))  # noqa: B023 - awaited here
        figures = {
            "raw round trip": _percentiles(raw),
            "claim, one at a time": _percentiles(alone),
            "claims/s, one at a time": round(len(alone) / sum(alone) * 1_000),
            f"claims/s, {count} in a batch": round(count / together_ms * 1_000),
        }
        anarchon_figures(json.dumps(figures))

        assert together_ms / count < statistics.median(alone)
