"""
Cancellation and lost replies: a request is made or not made, and asking again tells which.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar, cast

from anarchon.backend import LeaseBackend, Verdict
from anarchon.errors import BackendError
from anarchon.records import Status
from anarchon_conformance.harness import Bench, Instance, World, new_token, pause
from anarchon_conformance.marking import clause

T = TypeVar("T")
Lose = Callable[[], None]

_TURNS = 8
_FRACTIONS = 8


async def _cancelled_everywhere(
    instance: Instance, call: Callable[[str], Awaitable[Any]]
) -> AsyncIterator[str]:
    """
    Cancel a call after each turn of the event loop, and after each part of a round trip.

    Yields the job of each call after it was cancelled (or had ended before).
    """
    loop = asyncio.get_running_loop()
    begun = loop.time()
    await instance.now_ms()
    round_trip_ms = (loop.time() - begun) * 1_000
    for turn in range(_TURNS + _FRACTIONS):
        job = f"job-{turn}"
        task = asyncio.ensure_future(call(job))
        if turn < _TURNS:
            for _ in range(turn):
                await pause(0)
        else:
            await pause(round_trip_ms * (turn - _TURNS + 1) / _FRACTIONS * 2)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError, BackendError):
            await task
        yield job


@clause("CAN-1")
async def test_cancelled_claim_is_made_or_not(bench: Bench) -> None:
    """
    After a cancelled claim the same token wins, no other does, and there is one record.
    """
    async with bench.world() as world:
        instance, other = await world.two()
        slot = world.slot(1)
        token = new_token()
        wrong = []
        cancelled = _cancelled_everywhere(
            instance, lambda job: instance.claim(slot, token=token, job=job)
        )
        async for job in cancelled:
            again = await instance.claim(slot, token=token, job=job)
            stranger = await other.claim(slot, job=job)
            records = await other.history(job)
            if (again.verdict, len(records)) != (Verdict.WON, 1) or stranger.verdict is Verdict.WON:
                wrong.append((job, again.verdict, stranger.verdict, len(records)))

        assert [] == wrong


async def _granted(world: World, instance: Instance) -> dict[str, str]:
    """
    Win the runs of the jobs that are going to be cancelled.
    """
    requests = [
        instance.claim_request(world.slot(1), job=f"job-{turn}")
        for turn in range(_TURNS + _FRACTIONS)
    ]
    await instance.batch(requests)
    return {request.job: request.token for request in requests}


@clause("CAN-2")
async def test_cancelled_finish_is_made_or_not(bench: Bench) -> None:
    """
    After a cancelled finish the same one is accepted, and the record tells success.
    """
    async with bench.world() as world:
        instance, reader = await world.two()
        slot = world.slot(1)
        tokens = await _granted(world, instance)
        wrong = []
        cancelled = _cancelled_everywhere(
            instance, lambda job: instance.finish(slot, tokens[job], job=job)
        )
        async for job in cancelled:
            again = await instance.finish(slot, tokens[job], job=job)
            record = await reader.record(slot, job=job)
            if not again.accepted or record.status is not Status.SUCCESS:
                wrong.append((job, again, record))

        assert [] == wrong


@clause("CAN-3")
async def test_cancelled_release_is_made_or_not(bench: Bench) -> None:
    """
    After a cancelled release the same one is accepted, and a backup takes over.
    """
    async with bench.world() as world:
        instance, backup = await world.two()
        slot = world.slot(1)
        tokens = await _granted(world, instance)
        wrong = []
        cancelled = _cancelled_everywhere(
            instance, lambda job: instance.release(slot, tokens[job], job=job)
        )
        async for job in cancelled:
            again = await instance.release(slot, tokens[job], job=job)
            taken = await backup.claim(slot, attempt=2, job=job)
            if not again.accepted or taken.verdict is not Verdict.WON:
                wrong.append((job, again, taken))

        assert [] == wrong


@clause("CAN-3")
async def test_cancelled_renewal_harms_nothing(bench: Bench) -> None:
    """
    After a cancelled renewal the run is still the runner's.
    """
    async with bench.world() as world:
        instance = await world.join()
        slot = world.slot(1)
        tokens = await _granted(world, instance)
        cancelled = _cancelled_everywhere(
            instance, lambda job: instance.renew(slot, tokens[job], job=job)
        )
        held = [(await instance.renew(slot, tokens[job], job=job)).held async for job in cancelled]

        assert [True] * (_TURNS + _FRACTIONS) == held


@clause("CAN-3")
async def test_cancelled_registration_is_made_or_not(bench: Bench) -> None:
    """
    After a cancelled registration the same one finds the job, or makes it known.
    """
    async with bench.world() as world:
        instance = await world.join()
        slot = world.slot(1)
        wrong = []
        cancelled = _cancelled_everywhere(
            instance, lambda job: instance.register(slot, job=job, fingerprint="one")
        )
        async for job in cancelled:
            answer = await instance.register(slot, job=job, fingerprint="one")
            told = (answer.high, None if answer.new else answer.fingerprint)
            if told not in {(slot, None), (slot, "one")} or answer.new == (told[1] == "one"):
                wrong.append((job, answer))

        assert [] == wrong


@clause("CAN-4")
async def test_cancelling_one_caller_leaves_the_others(bench: Bench) -> None:
    """
    Of many calls in flight one is cancelled; the others are answered, and so is the next.
    """
    async with bench.world() as world:
        instance = await world.join()
        slot = world.slot(1)
        for turn in range(5):
            tasks = [
                asyncio.ensure_future(instance.claim(slot, job=f"job-{turn}-{index}"))
                for index in range(10)
            ]
            await pause(0)
            tasks[turn].cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
            others = [each for place, each in enumerate(ended) if place != turn]

            assert [] == [each for each in others if isinstance(each, BaseException)]

        assert Verdict.WON == (await instance.claim(slot, job="last")).verdict


async def _twice(lose: Callable[[], None], call: Callable[[], Awaitable[T]]) -> T:
    """
    Make a call whose message gets lost, and make it again.
    """
    lose()
    with contextlib.suppress(BackendError):
        await call()
    return await call()


@asynccontextmanager
async def _lossy(bench: Bench) -> AsyncIterator[tuple[World, Instance, tuple[Lose, Lose]]]:
    """
    Give a world, an instance in it whose messages get lost, and the two ways to lose one.
    """
    opened = bench.profile.proxy
    assert opened is not None
    namespace = bench.namespace()
    async with bench.world(namespace=namespace) as world, opened(namespace) as proxy:
        backend = cast("LeaseBackend", proxy.backend)
        through = Instance(backend=backend, label="through", bench=bench)
        yield world, through, (proxy.loss.lose_request, proxy.loss.lose_reply)


@clause("CAN-5")
async def test_lost_message_can_be_sent_again(bench: Bench) -> None:
    """
    Whether the request got lost or its reply, the call ends, and the same call tells the truth.
    """
    async with _lossy(bench) as (world, through, losses):
        reader = await world.join()
        slot = world.slot(1)
        for index, lose in enumerate(losses):
            job, token = f"job-{index}", new_token()
            claimed = await _twice(lose, partial(through.claim, slot, token=token, job=job))
            finished = await _twice(lose, partial(through.finish, slot, token, job=job))

            assert Verdict.WON == claimed.verdict
            assert finished.accepted
            assert Status.SUCCESS == (await reader.record(slot, job=job)).status


@clause("CAN-6")
async def test_lost_message_of_a_lease_can_be_sent_again(bench: Bench) -> None:
    """
    A renewal, a release and a registration tell the truth the second time.
    """
    async with _lossy(bench) as (world, through, losses):
        backup = await world.join()
        slot = world.slot(1)
        for index, lose in enumerate(losses):
            job = f"job-{index}"
            register = partial(through.register, world.slot(0), job=job, fingerprint="one")
            known = await _twice(lose, register)
            token = await through.win(slot, job=job)
            renewed = await _twice(lose, partial(through.renew, slot, token, job=job))
            released = await _twice(lose, partial(through.release, slot, token, job=job))
            stale = await through.renew(slot, token, job=job)
            taken = await backup.claim(slot, attempt=2, job=job)
            late = await through.release(slot, token, job=job)

            assert (world.slot(0), bool(index)) == (known.high, not known.new)
            assert renewed.held
            assert [True, True] == [released.accepted, late.accepted]
            assert not stale.held
            assert Verdict.WON == taken.verdict
