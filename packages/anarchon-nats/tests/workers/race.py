"""
Race for runs: `race.py URL PREFIX NAME RUNS PAUSE_MS` tells, as JSON, what it won and how late a call ended.

It says "ready", begins when it is sent the first slot, and says "halfway" when a task of it has
asked for half of the runs. It ends when it is sent another line: until then it goes on with runs
that are its own, so that whatever happens meanwhile happens to claims. A call that fails is
repeated with the same tokens, as the scheduler does; one whose outcome stays unknown counts as no
win.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import sys
from collections.abc import Sequence
from typing import Any

from anarchon.backend import ClaimAnswer, ClaimRequest, Verdict
from anarchon.errors import StoreUnavailableError
from anarchon_nats import NatsBackend

TASKS = 4
JOBS = 50
DEADLINE_MS = 2_000
PATIENCE_S = 60
"""
Nodes that vote for a new leader refuse at once, over and over, and on a busy machine for long.
"""


class Racer:
    """
    One process: a backend, and tasks that share it.
    """

    def __init__(self, backend: NatsBackend, name: str, pause_ms: int) -> None:
        self.backend = backend
        self.name = name
        self.pause_ms = pause_ms
        self.won: list[int] = []
        self.unknown = 0
        self.late_ms = 0.0
        self.said = False
        self.enough = asyncio.Event()
        self._beyond = itertools.count()

    async def claim(self, requests: Sequence[ClaimRequest]) -> Sequence[Any] | None:
        """
        Ask until an answer comes; None if it never does.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + PATIENCE_S
        while loop.time() < end:
            # A process that does not get to run for seconds is late with its own timer, too.
            over_s: list[float] = []
            timer = loop.call_later(DEADLINE_MS / 1_000, note_time, over_s)
            try:
                return await self.backend.claim(requests, timeout_ms=DEADLINE_MS)
            except StoreUnavailableError:
                self.unknown += 1
            finally:
                timer.cancel()
                late_s = loop.time() - over_s[0] if over_s else 0.0
                self.late_ms = max(self.late_ms, late_s * 1_000)
            await asyncio.sleep(0.1)  # The scheduler's own first pause between two tries.
        return None

    async def race(self, task: int, runs: int, first: int) -> None:
        """
        Claim every run, half of the tasks in an order of their own, in batches of different lengths.
        """
        draw = random.Random(f"{self.name}/{task}")
        left = list(range(runs))
        if task % 2:
            draw.shuffle(left)
        while left:
            size = draw.randint(1, 60)
            part, left = left[:size], left[size:]
            requests = [
                ClaimRequest(
                    job=f"job-{number % JOBS}",
                    slot=first + number // JOBS,
                    token=f"{self.name}-{task}-{number}",
                    instance_id=self.name,
                )
                for number in part
            ]
            for number, answer in zip(part, await self.claim(requests) or (), strict=False):
                assert isinstance(answer, ClaimAnswer), answer
                if answer.verdict is Verdict.WON:
                    self.won.append(number)
            if not self.said and len(left) <= runs // 2:
                self.said = True
                say("halfway")
            await asyncio.sleep(
                draw.random() * self.pause_ms / 500
            )  # Jitter, as instances have it.
        await self.go_on(first)

    async def go_on(self, first: int) -> None:
        """
        Claim runs that nobody else asks for, one after the other, until it is enough.
        """
        while not self.enough.is_set():
            own = ClaimRequest(
                job=f"beyond-{self.name}",
                slot=first + next(self._beyond),
                token="own",
                instance_id=self.name,
            )
            (answer,) = await self.claim([own]) or (None,)
            assert isinstance(answer, ClaimAnswer), answer
            assert answer.verdict is Verdict.WON

    async def listen(self) -> None:
        """
        Hear when it is enough.
        """
        await asyncio.to_thread(sys.stdin.readline)
        self.enough.set()


def note_time(times_s: list[float]) -> None:
    """
    Write down when this was called, by the event loop's clock.
    """
    times_s.append(asyncio.get_running_loop().time())


def say(text: str) -> None:
    """
    Tell the test something.
    """
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


async def main(url: str, prefix: str, name: str, runs: int, pause_ms: int) -> None:
    """
    Race, and tell what came of it.
    """
    backend = NatsBackend(url, prefix=prefix)
    await backend.open(timeout_ms=30_000)
    say("ready")
    racer = Racer(backend, name, pause_ms)
    first = int(sys.stdin.readline())
    await asyncio.gather(racer.listen(), *(racer.race(task, runs, first) for task in range(TASKS)))
    await backend.close()
    told = {"won": racer.won, "unknown": racer.unknown, "late_ms": racer.late_ms}
    say(json.dumps(told))


if __name__ == "__main__":
    place, own_prefix, own_name, count, pause = sys.argv[1:]
    asyncio.run(main(place, own_prefix, own_name, int(count), int(pause)))
