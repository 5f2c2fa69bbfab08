"""
Hints: a watcher is woken early, and nothing depends on it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from anarchon_conformance.harness import JOB, Bench, Instance, pause
from anarchon_conformance.marking import clause

Ending = Callable[[Instance, int, str, str], Awaitable[object]]


async def _release(instance: Instance, slot: int, token: str, job: str = JOB) -> object:
    return await instance.release(slot, token, job=job)


async def _finish(instance: Instance, slot: int, token: str, job: str = JOB) -> object:
    return await instance.finish(slot, token, job=job)


async def _hand_over(instance: Instance, slot: int, token: str, job: str = JOB) -> object:
    await instance.release(slot, token, job=job)
    return await instance.win(slot, attempt=2, job=job)


def _watch_ms(bench: Bench) -> int:
    """
    How long a watch lasts that is expected to be woken.
    """
    return bench.patience_ms // 3


async def _woken(bench: Bench, ending: Ending) -> frozenset[str]:
    """
    Watch a run, end it from another connection, and return what the watcher heard.
    """
    async with bench.world() as world:
        runner, backup = await world.two()
        slot = world.slot(1)
        token = await runner.win(slot)
        for _ in range(5):
            watch = backup.backend.next_hint([(JOB, slot, 1)], timeout_ms=_watch_ms(bench))
            watcher = asyncio.ensure_future(watch)
            await pause(20)
            if not watcher.done():
                await ending(runner, slot, token, JOB)
                return await watcher
        message = "told again and again of changes that did not happen"
        raise AssertionError(message)


@clause("HNT-1")
async def test_release_wakes_a_watcher(bench: Bench) -> None:
    """
    A run that was handed over starts elsewhere before the next heartbeat.
    """
    assert frozenset({JOB}) == await _woken(bench, _release)


@clause("HNT-2")
async def test_finish_wakes_a_watcher(bench: Bench) -> None:
    """
    A backup need not go on watching a run that has ended.
    """
    assert frozenset({JOB}) == await _woken(bench, _finish)


@clause("HNT-3")
async def test_change_before_the_watch_is_told(bench: Bench) -> None:
    """
    Between a backup's last look and its watch the run may have ended; it is told at once.
    """
    async with bench.world() as world:
        runner, backup = await world.two()
        slot = world.slot(1)
        heard = {}
        for ending in (_release, _finish, _hand_over):
            job = ending.__name__
            token = await runner.win(slot, job=job)
            await ending(runner, slot, token, job)
            watch = backup.backend.next_hint([(job, slot, 1)], timeout_ms=_watch_ms(bench))
            heard[job] = await watch

        assert {job: frozenset({job}) for job in heard} == heard


@clause("HNT-4")
async def test_watch_ends_at_its_timeout(bench: Bench) -> None:
    """
    Nothing happens to the watched runs, so the watch ends, and names no other job.
    """
    async with bench.world() as world:
        runner, backup = await world.two()
        slot = world.slot(1)
        for job in ("a", "b"):
            await runner.win(slot, job=job)
        other = await runner.win(slot, job="c")
        watched = [("a", slot, 1), ("b", slot, 1)]
        watch = backup.backend.next_hint(watched, timeout_ms=bench.short_ms)
        watcher = asyncio.ensure_future(watch)
        await pause(0)
        await runner.release(slot, other, job="c")
        async with asyncio.timeout((bench.short_ms + bench.patience_ms) / 1_000):
            heard = await watcher

        assert heard <= {"a", "b"}
