"""
Several processes on a real server: one winner, and a server that goes away and comes back.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import threading
from collections import Counter
from collections.abc import Callable
from itertools import chain

import pytest
from store_fixtures import line, tell

import anarchon_testbed as testbed
from anarchon import HandOver, RunContext, Scheduler
from anarchon_redis import RedisBackend

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

TIMEOUT_MS = 10_000
HEARTBEAT_S = 60
RESTARTS = int(os.environ.get("ANARCHON_RESTARTS", "6"))

Started = Callable[..., subprocess.Popen[str]]


async def store_now_ms(url: str, prefix: str, strategy: str) -> int:
    """
    Ask for the store's time.
    """
    backend = RedisBackend(url, prefix=prefix, strategy=strategy)  # type: ignore[arg-type] # one of the four
    await backend.open(timeout_ms=TIMEOUT_MS)
    told = await backend.time(timeout_ms=TIMEOUT_MS)
    await backend.close()
    assert told is not None
    return told


@pytest.mark.parametrize(
    ("kind", "strategy"),
    [
        *(("redis", strategy) for strategy in ("lease", "stream-id", "idmp", "script")),
        *(("valkey", strategy) for strategy in ("lease", "stream-id", "script")),
    ],
)
def test_one_winner_among_processes(
    kind: str, strategy: str, prefix: str, started: Started
) -> None:
    """
    16 claimers in 4 processes over 5,000 slots: exactly one winner each, and every process wins some.
    """
    url = testbed.shared_url(kind)
    racers = [started("race", url, prefix, strategy, f"racer-{number}") for number in range(4)]
    first = asyncio.run(store_now_ms(url, prefix, strategy)) - 60_000
    for racer in racers:
        assert "ready" == line(racer)
    for racer in racers:
        tell(racer, str(first))
    outputs = [racer.communicate(timeout=250) for racer in racers]
    wins = [json.loads(output) for output, _ in outputs]

    assert [""] * 4 == [errors for _, errors in outputs]
    assert dict.fromkeys(range(5_000), 1) == dict(
        sorted(Counter(chain.from_iterable(wins)).items())
    )
    assert all(wins), "a process that wins nothing raced nobody"


class Listener:
    """
    Collects the lines of a worker, from a thread.
    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.lines: list[str] = []
        self.heard = threading.Condition()
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for text in self._process.stdout:
            with self.heard:
                self.lines.append(text.strip())
                self.heard.notify_all()

    def wait_for_more(self, count: int) -> None:
        """
        Wait until so many lines more have come.
        """
        with self.heard:
            wanted = len(self.lines) + count
            assert self.heard.wait_for(lambda: len(self.lines) >= wanted, timeout=60)


def test_a_server_that_restarts_under_load_runs_no_slot_twice(
    prefix: str, started: Started
) -> None:
    """
    Half of the restarts are kills: schedulers go on by themselves, and with AOF always no slot runs twice.
    """

    async def scenario(server: testbed.RedisServer, listeners: list[Listener]) -> None:
        for turn in range(RESTARTS):
            if turn % 2:
                await server.kill()
                await server.start()
            else:
                await server.restart()
            for listener in listeners[:1]:
                await asyncio.to_thread(listener.wait_for_more, 1)

    with testbed.redis(own=True, appendonly=True, appendfsync="always") as server:
        workers = [started("ticks", server.url, prefix) for _ in range(2)]
        for worker in workers:
            assert "ready" == line(worker)
        listeners = [Listener(worker) for worker in workers]
        for listener in listeners:
            listener.wait_for_more(1)
        asyncio.run(scenario(server, listeners))
        for worker in workers:
            tell(worker, "enough")
        statuses = [worker.wait(timeout=60) for worker in workers]
        runs = Counter(text for listener in listeners for text in listener.lines)

        assert [0, 0] == statuses
        assert len(runs) > RESTARTS
        assert [] == [run for run, times in runs.items() if times > 1]


def test_a_run_that_is_handed_over_starts_elsewhere_at_once(prefix: str) -> None:
    """
    The hint of a release starts the next attempt long before the heartbeat, which is the only other way to hear of it.
    """

    async def scenario() -> float:
        url = testbed.shared_url("redis")
        loop = asyncio.get_running_loop()
        started: dict[int, float] = {}
        heard = asyncio.Event()

        async def work(ctx: RunContext) -> None:
            started[ctx.attempt] = loop.time()
            heard.set()
            await ctx.stopping.wait()
            raise HandOver

        def instance() -> Scheduler:
            scheduler = Scheduler(RedisBackend(url, prefix=prefix), heartbeat=f"{HEARTBEAT_S}s")
            scheduler.every("work", "1s", jitter=0)(work)
            return scheduler

        first, second = instance(), instance()
        await first.start()
        await asyncio.wait_for(heard.wait(), 30)
        heard.clear()
        lost = asyncio.Event()
        second.on("skip", lambda _event: lost.set())
        await second.start()
        await asyncio.wait_for(lost.wait(), 30)
        await first.stop()
        released_s = loop.time()
        await asyncio.wait_for(heard.wait(), 2 * HEARTBEAT_S)
        await second.stop()
        return started[2] - released_s

    # The promise is one second, on a machine that has time.
    assert asyncio.run(scenario()) < HEARTBEAT_S / 2
