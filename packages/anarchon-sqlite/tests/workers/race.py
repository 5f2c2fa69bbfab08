"""
Race for runs: `race.py PATH NAME RUNS TASKS` prints the numbers of those that it won.

It says "ready", and begins when it is sent a line.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys

from anarchon.backend import ClaimAnswer, ClaimRequest, Verdict
from anarchon_sqlite import SqliteBackend


async def main(path: str, name: str, runs: int, tasks: int) -> list[int]:
    """
    Claim every run from every task, in batches of different lengths.
    """
    backend = SqliteBackend(path, synchronous="normal")
    await backend.open(timeout_ms=30_000)
    slot = await backend.time(timeout_ms=30_000)
    assert slot is not None
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    slot = int(sys.stdin.readline())
    won: list[int] = []

    async def race(task: int) -> None:
        numbers = list(range(runs))
        draw = random.Random(f"{name}/{task}")
        if task % 2:
            # Who comes first on one way is first on all of it; on ways that cross, everybody is somewhere.
            draw.shuffle(numbers)
        while numbers:
            part = [numbers.pop(0) for _ in range(min(len(numbers), draw.randint(1, 40)))]
            requests = [
                ClaimRequest(
                    job=f"job-{number}",
                    slot=slot,
                    token=f"{name}/{task}/{number}",
                    instance_id=name,
                    lease_ms=60_000,
                )
                for number in part
            ]
            answers = await backend.claim(requests, timeout_ms=30_000)
            won.extend(
                number
                for number, answer in zip(part, answers, strict=True)
                if isinstance(answer, ClaimAnswer) and answer.verdict is Verdict.WON
            )

    await asyncio.gather(*(race(task) for task in range(tasks)))
    await backend.close()
    return won


sys.stdout.write(
    json.dumps(asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))))
)
