"""
Race for slots: `race.py URL PREFIX NAME SLOTS LEGS` prints, as JSON, those that it won and what came of failures.

It says "ready", and runs a leg, a part of the slots, for each line with the first slot that it is sent; "under
way" says that the leg has begun. A claim that fails is made again with the same token, as a scheduler does it.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from typing import Any

from anarchon.backend import ClaimAnswer, ClaimRequest, Verdict
from anarchon.errors import StoreUnavailableError
from anarchon_rabbitmq import RabbitMQBackend

CLAIMERS = 4
SLOTS_A_JOB = 100
TIMEOUT_MS = 5_000
PATIENCE_S = 120
"""
A broker that lost its leader refuses at once, over and over, until there is another.
"""


async def claimed(
    backend: RabbitMQBackend, requests: list[ClaimRequest], told: dict[str, Any]
) -> list[ClaimAnswer]:
    """
    Claim until there is an answer; each try has to end by its deadline.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + PATIENCE_S
    while loop.time() < end:
        begun = loop.time()
        try:
            answers = await backend.claim(requests, timeout_ms=TIMEOUT_MS)
        except StoreUnavailableError:
            told["failures"] += 1
            await asyncio.sleep(0.05)  # As a scheduler does: a node takes a moment to come back.
        else:
            return [answer for answer in answers if isinstance(answer, ClaimAnswer)]
        finally:
            # On a machine that is busy a process may not get to run for seconds.
            told["longest_ms"] = max(told["longest_ms"], round(1_000 * (loop.time() - begun)))
    raise TimeoutError("no answer in any try")


async def main(url: str, prefix: str, name: str, slots: int, legs: int) -> dict[str, Any]:
    """
    Claim every slot with several claimers, each a backend of its own, in batches of different lengths.
    """
    backends = [
        RabbitMQBackend(url, prefix=prefix, claim_memory_ms=86_400_000) for _ in range(CLAIMERS)
    ]
    for backend in backends:
        await backend.open(timeout_ms=60_000)
    say("ready")
    told: dict[str, Any] = {"won": [], "failures": 0, "longest_ms": 0}

    async def race(place: int, backend: RabbitMQBackend, numbers: list[int], first: int) -> None:
        draw = random.Random(f"{name}/{place}")
        if place % 2:
            # Who comes first on one way is first on all of it; on ways that cross, everybody is somewhere.
            draw.shuffle(numbers)
        begun = False
        while numbers:
            size = draw.randint(1, 20)
            part, numbers = numbers[:size], numbers[size:]
            requests = [
                ClaimRequest(
                    job=f"job-{number // SLOTS_A_JOB}",
                    slot=first + number % SLOTS_A_JOB,
                    token=f"{name}-{place}-{number}",
                    instance_id=name,
                )
                for number in part
            ]
            answers = await claimed(backend, requests, told)
            told["won"] += [
                number
                for number, answer in zip(part, answers, strict=True)
                if answer.verdict is Verdict.WON
            ]
            if not begun and place == 0:
                begun = True
                say("under way")
            # Jitter, as instances have it: each wins somewhere.
            await asyncio.sleep(draw.random() / 200)

    for leg in range(legs):
        first = int(await asyncio.to_thread(sys.stdin.readline))
        numbers = range(leg * slots // legs, (leg + 1) * slots // legs)
        await asyncio.gather(
            *(race(place, backend, list(numbers), first) for place, backend in enumerate(backends))
        )
    for backend in backends:
        await backend.close()
    return told


def say(text: str) -> None:
    """
    Tell the test a line.
    """
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    place, prefix, name, slots, legs = sys.argv[1:6]
    say(json.dumps(asyncio.run(main(place, prefix, name, int(slots), int(legs)))))
