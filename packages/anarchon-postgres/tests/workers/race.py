"""
Race for runs: `race.py DSN SCHEMA NAME JOBS SLOTS TASKS` prints the numbers of those that it won.

Each slot has jobs of its own, so that none is skipped. It says "ready", and begins when it is sent the first slot.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import sys

from anarchon.backend import ClaimAnswer, ClaimRequest, FinishRequest, Verdict
from anarchon.records import Status
from anarchon_postgres import PostgresBackend


async def main(dsn: str, schema: str, name: str, *, jobs: int, slots: int, tasks: int) -> list[int]:
    """
    Claim every run from every task, each on a connection of its own, in batches of different lengths.
    """
    backends = [PostgresBackend(dsn, schema=schema) for _ in range(tasks)]
    for backend in backends:
        await backend.open(timeout_ms=60_000)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    first = int(await asyncio.to_thread(sys.stdin.readline))
    won: list[int] = []

    async def race(task: int, backend: PostgresBackend) -> None:
        draw = random.Random(f"{name}/{task}")
        for index in range(slots):
            numbers = list(range(jobs))
            draw.shuffle(numbers)
            while numbers:
                part = [numbers.pop() for _ in range(min(len(numbers), draw.randint(1, 40)))]
                requests = [
                    ClaimRequest(
                        job=f"job-{index}-{number}",
                        slot=first + index,
                        token=f"{name}/{task}/{number}/{index}",
                        instance_id=name,
                        lease_ms=600_000,
                    )
                    for number in part
                ]
                answers = await backend.claim(requests, timeout_ms=60_000)
                mine = [
                    (number, request)
                    for number, request, answer in zip(part, requests, answers, strict=True)
                    if isinstance(answer, ClaimAnswer) and answer.verdict is Verdict.WON
                ]
                won.extend(index * jobs + number for number, _ in mine)
                ends = [
                    FinishRequest(
                        job=request.job,
                        slot=request.slot,
                        attempt=1,
                        token=request.token,
                        status=Status.SUCCESS,
                    )
                    for _, request in mine
                ]
                draw.shuffle(ends)
                closed = await backend.finish(ends, timeout_ms=60_000)
                assert all(getattr(each, "accepted", False) for each in closed)

    await asyncio.gather(*(race(task, backend) for task, backend in enumerate(backends)))
    for backend in backends:
        await backend.close()
    return won


logging.getLogger("anarchon").setLevel(
    logging.ERROR
)  # That hints are off behind a pooler is known.
JOBS, SLOTS, TASKS = map(int, sys.argv[4:])
sys.stdout.write(json.dumps(asyncio.run(main(*sys.argv[1:4], jobs=JOBS, slots=SLOTS, tasks=TASKS))))
