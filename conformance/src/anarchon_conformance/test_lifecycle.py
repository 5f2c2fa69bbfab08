"""
The life of a backend: opened once, used, closed; and what it says about itself.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from anarchon.backend import (
    PROTOCOL_VERSION,
    FinishRequest,
    LeaseBackend,
    RegisterRequest,
    ReleaseRequest,
    RenewRequest,
    Verdict,
)
from anarchon.errors import BackendError, BackendStateError, StoreUnavailableError
from anarchon.records import Status
from anarchon_conformance.harness import JOB, Bench, Instance, new_token, only, pause, until
from anarchon_conformance.marking import clause

# Bounds that no clock in milliseconds leaves in the lifetime of this software: 2020 and 2200.
_PLAUSIBLE_MS = (1_577_836_800_000, 7_258_118_400_000)

# A call to a silent store gets a thirtieth of the usual time. A busy machine may notice its end late, but not
# six times as late.
_SILENT_PART = 30
_LATE_TIMES = 6

_PASSES = (0, 1, 2, 4, 8, 16, 32, 64)
"""
How many passes of the event loop an open() is let go on for before it is interrupted.
"""


async def _let_run(passes: int) -> None:
    """
    Let every other task run until it waits, as many times.
    """
    for _ in range(passes):
        await asyncio.sleep(0)


def _calls(
    backend: LeaseBackend, instance: Instance, *, timeout_ms: int | None = None
) -> list[Callable[[], Awaitable[Any]]]:
    """
    Name one call of each kind that the backend declares.
    """
    timeout_ms = timeout_ms or instance.bench.timeout_ms
    token = new_token()
    key = {"job": JOB, "slot": 1, "attempt": 1, "token": token}
    claim = instance.claim_request(1, token=token)
    finish = FinishRequest(**key, status=Status.SUCCESS)  # type: ignore[arg-type]  # a key holds texts and numbers
    calls: list[Callable[[], Awaitable[Any]]] = [
        lambda: backend.time(timeout_ms=timeout_ms),
        lambda: backend.claim([claim], timeout_ms=timeout_ms),
        lambda: backend.finish([finish], timeout_ms=timeout_ms),
        lambda: backend.history(JOB, limit=1, timeout_ms=timeout_ms),
    ]
    if instance.bench.capabilities.leases:
        renew = RenewRequest(**key, lease_ms=1_000)  # type: ignore[arg-type]  # as above
        release = ReleaseRequest(**key)  # type: ignore[arg-type]  # as above
        calls += [
            lambda: backend.register([RegisterRequest(job=JOB, slot=None)], timeout_ms=timeout_ms),
            lambda: backend.renew([renew], timeout_ms=timeout_ms),
            lambda: backend.release([release], timeout_ms=timeout_ms),
        ]
    return calls


@clause("LIF-1")
async def test_second_open_is_refused(bench: Bench) -> None:
    """
    Opening twice would be two connections, of which nobody closes one.
    """
    async with bench.world() as world:
        instance = await world.join()
        with pytest.raises(BackendStateError):
            await instance.backend.open(timeout_ms=bench.timeout_ms)

        assert Verdict.WON == (await instance.claim(world.slot(1))).verdict


@clause("LIF-2")
async def test_use_before_open_is_refused(bench: Bench) -> None:
    """
    A backend that was never opened says so, whatever is asked of it.
    """
    async with bench.world() as world:
        instance = await world.join()
        for call in _calls(instance.backend.clone(), instance):
            with pytest.raises(BackendStateError):
                await call()


@clause("LIF-2")
async def test_use_after_close_is_refused(bench: Bench) -> None:
    """
    A backend that was closed says so, whatever is asked of it.
    """
    async with bench.world() as world:
        instance = await world.join()
        await instance.backend.close()
        for call in _calls(instance.backend, instance):
            with pytest.raises(BackendStateError):
                await call()


@clause("LIF-3")
async def test_closing_twice_is_no_error(bench: Bench) -> None:
    """
    Whoever cleans up need not know whether somebody else has.
    """
    async with bench.world() as world:
        instance = await world.join()
        unopened = instance.backend.clone()
        for backend in (instance.backend, instance.backend, unopened, unopened):
            await backend.close()
        with pytest.raises(BackendStateError):
            await instance.now_ms()


@clause("LIF-4")
async def test_close_ends_calls_in_flight(bench: Bench) -> None:
    """
    Claims on their way, and a watch that would last for minutes, end with the backend.
    """
    async with bench.world() as world:
        instance = await world.join()
        other = await world.join()
        slot = world.slot(1)
        await other.win(slot, job="watched")
        calls: list[Awaitable[Any]] = [
            instance.claim(slot, job=f"job-{index}") for index in range(20)
        ]
        if bench.capabilities.hints:
            watched = ("watched", slot, 1)
            hint = instance.backend.next_hint([watched], timeout_ms=10 * bench.patience_ms)
            calls.append(hint)
        tasks = [asyncio.ensure_future(call) for call in calls]
        await pause(1)
        await instance.backend.close()
        _, hanging = await asyncio.wait(tasks, timeout=bench.patience_ms / 1_000)
        for task in hanging:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        strange = [
            each
            for each in ended
            if isinstance(each, BaseException) and not isinstance(each, BackendError)
        ]

        assert 0 == len(hanging)
        assert [] == strange


@clause("LIF-5")
async def test_clone_has_a_life_of_its_own(bench: Bench) -> None:
    """
    A copy on the loop of another thread sees the same store, and its end is its own.
    """
    async with bench.world() as world:
        instance = await world.join()
        slot = world.slot(1)
        token = await instance.win(slot)
        copy = instance.backend.clone()

        async def finish() -> bool:
            await copy.open(timeout_ms=bench.timeout_ms)
            try:
                request = FinishRequest(
                    job=JOB, slot=slot, attempt=1, token=token, status=Status.SUCCESS
                )
                return only(await copy.finish([request], timeout_ms=bench.timeout_ms)).accepted
            finally:
                await copy.close()

        accepted = await asyncio.to_thread(asyncio.run, finish())

        assert accepted
        assert Status.SUCCESS == (await instance.record(slot)).status


@clause("LIF-6")
async def test_answers_carry_the_clock_that_time_tells(bench: Bench) -> None:
    """
    The clock goes on, counts milliseconds, and is the one in the answers.
    """
    async with bench.world() as world:
        instance = await world.join()
        slack_ms = bench.capabilities.time_resolution_ms
        before_ms = await instance.now_ms()
        token = new_token()
        told: list[int | None] = [(await instance.claim(world.slot(1), token=token)).store_now_ms]
        if bench.capabilities.leases:
            told.append((await instance.renew(world.slot(1), token)).store_now_ms)
            told.append((await instance.register(None, job="other")).store_now_ms)
        told.append((await instance.finish(world.slot(1), token)).store_now_ms)
        after_ms = await instance.now_ms()
        bounds = (before_ms - slack_ms, after_ms + slack_ms)

        assert [] == [each for each in told if each is None or not bounds[0] <= each <= bounds[1]]
        assert _PLAUSIBLE_MS[0] < before_ms < _PLAUSIBLE_MS[1]
        await until(instance.now_ms, lambda now_ms: now_ms > before_ms, within_ms=bench.patience_ms)


@clause("LIF-7")
async def test_capabilities_are_true(bench: Bench) -> None:
    """
    What is declared is there, before open() as after it, and makes sense.
    """
    async with bench.world() as world:
        instance = await world.join()
        backend = instance.backend
        declared = backend.capabilities
        needed = ["claim", "finish", "history", "time", "open", "close", "clone"]
        needed += ["register", "renew", "release"] if declared.leases else []
        needed += ["next_hint"] if declared.hints else []
        told = await backend.time(timeout_ms=bench.timeout_ms)
        limits = (declared.batch_max, declared.name_bytes_max, declared.lease_ms_min)

        assert PROTOCOL_VERSION == backend.protocol_version
        assert declared == backend.clone().capabilities
        assert [] == [name for name in needed if not callable(getattr(backend, name, None))]
        assert declared.store_clock == (told is not None)
        assert min(*limits, declared.time_resolution_ms) >= 1
        assert declared.leases or not declared.hints
        assert declared.store_clock or not declared.leases
        assert backend.service.strip()


@clause("LIF-8")
async def test_call_to_a_silent_store_ends_by_its_timeout(bench: Bench) -> None:
    """
    Nobody says that the store is gone; each call finds it out by itself, and so does close().
    """
    opened = bench.profile.line
    assert opened is not None
    loop = asyncio.get_running_loop()
    timeout_ms = max(bench.short_ms, bench.timeout_ms // _SILENT_PART)
    async with opened(bench.namespace()) as line:
        backend = cast("LeaseBackend", line.backend)
        through = Instance(backend=backend, label="through", bench=bench)
        slot = await through.now_ms()
        line.fall_silent()
        with pytest.raises(StoreUnavailableError):
            await backend.claim([through.claim_request(slot)], timeout_ms=timeout_ms)
        took_ms = []
        for call in _calls(backend, through, timeout_ms=timeout_ms):
            begun = loop.time()
            # Some stores can be read while they take nothing.
            with contextlib.suppress(StoreUnavailableError):
                async with asyncio.timeout(bench.timeout_ms / 1_000):
                    await call()
            took_ms.append((loop.time() - begun) * 1_000)
        async with asyncio.timeout(bench.timeout_ms / 1_000):
            await backend.close()

        assert max(took_ms) < timeout_ms * _LATE_TIMES


@clause("LIF-9")
async def test_close_ends_an_open_that_is_under_way(bench: Bench) -> None:
    """
    However far open() has come, it does not come back from a backend that was closed meanwhile.
    """
    async with bench.world() as world:
        instance = await world.join()
        for passes in _PASSES:
            backend = instance.backend.clone()
            opening = asyncio.ensure_future(backend.open(timeout_ms=bench.timeout_ms))
            await _let_run(passes)
            under_way = not opening.done()
            await backend.close()
            async with asyncio.timeout(bench.timeout_ms / 1_000):
                (ended,) = await asyncio.gather(opening, return_exceptions=True)

            assert isinstance(ended, BackendStateError) if under_way else ended is None, ended
            for call in _calls(backend, instance):
                with pytest.raises(BackendStateError):
                    await call()
            with pytest.raises(BackendStateError):
                await backend.open(timeout_ms=bench.timeout_ms)


@clause("LIF-10")
async def test_open_that_was_cancelled_may_be_called_again(bench: Bench) -> None:
    """
    However far open() had come when its caller gave up, the next one opens the backend.
    """
    async with bench.world() as world:
        instance = await world.join()
        for index, passes in enumerate(_PASSES):
            backend = instance.backend.clone()
            opening = asyncio.ensure_future(backend.open(timeout_ms=bench.timeout_ms))
            await _let_run(passes)
            opening.cancel()
            try:
                (ended,) = await asyncio.gather(opening, return_exceptions=True)
                if ended is not None:
                    await backend.open(timeout_ms=bench.timeout_ms)
                again = Instance(backend=backend, label=f"again {index}", bench=bench)
                answer = await again.claim(world.slot(1), job=f"job-{index}")
            finally:
                await backend.close()

            assert ended is None or isinstance(ended, asyncio.CancelledError), ended
            assert Verdict.WON == answer.verdict


@clause("LIF-11")
async def test_open_that_found_no_store_may_be_called_again(bench: Bench) -> None:
    """
    Whoever finds no store asks again, and hears of the store again, not of the backend's state.
    """
    opened = bench.profile.line
    assert opened is not None
    loop = asyncio.get_running_loop()
    timeout_ms = max(bench.short_ms, bench.timeout_ms // _SILENT_PART)
    took_ms = []
    async with opened(bench.namespace()) as line:
        backend = line.backend.clone()
        line.fall_silent()
        try:
            for _ in range(2):
                begun = loop.time()
                with contextlib.suppress(StoreUnavailableError):
                    async with asyncio.timeout(bench.timeout_ms / 1_000):
                        await backend.open(timeout_ms=timeout_ms)
                    break  # Some stores can be read while they take nothing.
                took_ms.append((loop.time() - begun) * 1_000)
        finally:
            await backend.close()

    assert max(took_ms, default=0) < timeout_ms * _LATE_TIMES
