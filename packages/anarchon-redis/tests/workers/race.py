"""
Race for runs: `race.py URL PREFIX STRATEGY NAME` prints, as JSON, the numbers of those that it won.

It says "ready", and begins when it is sent the first slot.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys

from anarchon.backend import ClaimAnswer, ClaimRequest, Verdict
from anarchon_redis import RedisBackend

RUNS = 5_000
TASKS = 4
SLOTS_A_JOB = 100


def run_of(number: int, strategy: str, first: int) -> tuple[str, int]:
    """
    Name the job and slot of a run: one slot a job where a job has one run at a time.
    """
    if strategy == "lease":
        return f"job-{number}", first
    return f"job-{number % (RUNS // SLOTS_A_JOB)}", first + number // (RUNS // SLOTS_A_JOB)


def crossing(numbers: list[int], strategy: str, draw: random.Random) -> list[int]:
    """
    Put runs into an order of one's own; a stream takes the slots of a job in their order alone.
    """
    jobs = list(range(RUNS // SLOTS_A_JOB))
    draw.shuffle(jobs)
    if strategy == "stream-id":
        return [number for job in jobs for number in numbers[job :: len(jobs)]]
    draw.shuffle(numbers)
    return numbers


async def main(url: str, prefix: str, strategy: str, name: str) -> list[int]:
    """
    Claim every run from every task, in batches of different lengths.
    """
    backend = RedisBackend(url, prefix=prefix, strategy=strategy)  # type: ignore[arg-type] # one of the four
    await backend.open(timeout_ms=30_000)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    first = int(sys.stdin.readline())
    won: list[int] = []

    async def race(task: int) -> None:
        numbers = list(range(RUNS))
        draw = random.Random(f"{name}/{task}")
        if task % 2:
            # Who comes first on one way is first on all of it; on ways that cross, everybody is somewhere.
            numbers = crossing(numbers, strategy, draw)
        while numbers:
            size = draw.randint(1, 60)
            part, numbers = numbers[:size], numbers[size:]
            requests = []
            for number in part:
                job, slot = run_of(number, strategy, first)
                requests.append(
                    ClaimRequest(
                        job=job,
                        slot=slot,
                        token=f"{name}-{task}-{number}",
                        instance_id=name,
                        lease_ms=300_000,
                    )
                )
            answers = await backend.claim(requests, timeout_ms=30_000)
            for number, answer in zip(part, answers, strict=True):
                assert isinstance(answer, ClaimAnswer), answer
                if answer.verdict is Verdict.WON:
                    won.append(number)
            await asyncio.sleep(
                draw.random() / 500
            )  # Jitter, as instances have it: each wins somewhere.

    await asyncio.gather(*(race(task) for task in range(TASKS)))
    await backend.close()
    return won


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asyncio.run(main(*sys.argv[1:5]))) + "\n")
