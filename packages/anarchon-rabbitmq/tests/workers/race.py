"""
Race for slots: `race.py URL PREFIX NAME SLOTS LEGS TIMEOUT_MS` prints, as JSON, its wins and what came of failures.

It says "ready", and runs a leg, a part of the slots, for each line with the first slot that it is sent; "under
way" says that the leg has begun. A leg ends with the next line: until then it goes on with slots that are its own,
so that whatever happens meanwhile happens to claims. One that fails is made again with the same token, as a
scheduler does it.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from itertools import count
from typing import Any

from anarchon.backend import ClaimAnswer, ClaimRequest, Verdict
from anarchon.errors import StoreUnavailableError
from anarchon_rabbitmq import RabbitMQBackend

CLAIMERS = 4
SLOTS_A_JOB = 100
PATIENCE_S = 120
"""
A broker that lost its leader refuses at once, over and over, until there is another.
"""


def note_time(times_s: list[float]) -> None:
    """
    Write down when this was called, by the event loop's clock.
    """
    times_s.append(asyncio.get_running_loop().time())


async def claimed(
    backend: RabbitMQBackend, requests: list[ClaimRequest], told: dict[str, Any], timeout_ms: int
) -> list[ClaimAnswer]:
    """
    Claim until there is an answer; each try has to end by its deadline.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + PATIENCE_S
    while loop.time() < end:
        # A process that does not get to run for seconds is late with its own timer, too.
        over_s: list[float] = []
        timer = loop.call_later(timeout_ms / 1_000, note_time, over_s)
        try:
            answers = await backend.claim(requests, timeout_ms=timeout_ms)
        except StoreUnavailableError:
            told["failures"] += 1
        else:
            return [answer for answer in answers if isinstance(answer, ClaimAnswer)]
        finally:
            timer.cancel()
            late_s = loop.time() - over_s[0] if over_s else 0.0
            told["late_ms"] = max(told["late_ms"], round(1_000 * late_s))
        await asyncio.sleep(0.05)  # As a scheduler does: a node takes a moment to come back.
    raise TimeoutError("no answer in any try")


async def main(
    url: str, prefix: str, name: str, *, slots: int, legs: int, timeout_ms: int
) -> dict[str, Any]:
    """
    Claim every slot with several claimers, each a backend of its own, in batches of different lengths.
    """
    backends = [
        RabbitMQBackend(url, prefix=prefix, claim_memory_ms=86_400_000) for _ in range(CLAIMERS)
    ]
    for backend in backends:
        await backend.open(timeout_ms=60_000)
    say("ready")
    told: dict[str, Any] = {"won": [], "failures": 0, "late_ms": 0}

    beyond = count()

    async def go_on(backend: RabbitMQBackend, first: int) -> None:
        while not enough.is_set():
            own = ClaimRequest(
                job=f"beyond-{name}", slot=first + next(beyond), token="own", instance_id=name
            )
            (answer,) = await claimed(backend, [own], told, timeout_ms)
            assert answer.verdict is Verdict.WON, answer

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
            answers = await claimed(backend, requests, told, timeout_ms)
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
        await go_on(backend, first)

    async def listen() -> None:
        await asyncio.to_thread(sys.stdin.readline)
        enough.set()

    for leg in range(legs):
        first = int(await asyncio.to_thread(sys.stdin.readline))
        enough = asyncio.Event()
        numbers = range(leg * slots // legs, (leg + 1) * slots // legs)
        await asyncio.gather(
            listen(),
            *(race(place, backend, list(numbers), first) for place, backend in enumerate(backends)),
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
    SLOTS, LEGS, TIMEOUT_MS = map(int, sys.argv[4:])
    run = main(*sys.argv[1:4], slots=SLOTS, legs=LEGS, timeout_ms=TIMEOUT_MS)
    say(json.dumps(asyncio.run(run)))
