"""
What an instance in a process of its own is sent to do.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

from anarchon.errors import BackendError
from anarchon_conformance.harness import JOB, Instance
from anarchon_conformance.loading import load_profile
from anarchon_conformance.running import prepare

__all__ = ["run"]


def run(order: dict[str, Any]) -> None:
    """
    Open the namespace, say ready, wait for the word, and do the errand.
    """
    bench = prepare(load_profile(order["origin"]))

    async def errand() -> None:
        async with bench.world(namespace=order["namespace"]) as world:
            instance = await world.join(order["label"])
            _say({"ready": True})
            await asyncio.to_thread(sys.stdin.readline)
            _say(await _ERRANDS[order["errand"]](instance, order))
            if order.get("stay"):
                await asyncio.to_thread(sys.stdin.readline)

    asyncio.run(errand())


def _say(what: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


async def _race(instance: Instance, order: dict[str, Any]) -> dict[str, Any]:
    """
    Claim one slot after the other, and tell which were won.
    """
    verdicts = []
    for index, slot in enumerate(order["slots"]):
        verdicts.append((await instance.claim(slot, job=f"job-{index}")).verdict)
    return {"verdicts": verdicts}


async def _hold(instance: Instance, order: dict[str, Any]) -> dict[str, Any]:
    """
    Win a run with a short lease, and go silent.
    """
    answer = await instance.claim(order["slots"][0], lease_ms=instance.bench.short_ms)
    return {"verdicts": [answer.verdict]}


async def _clocks(instance: Instance, order: dict[str, Any]) -> dict[str, Any]:
    """
    Ask everything whose answer must not depend on this process's clock.
    """
    now_ms = order["now_ms"]
    leases = instance.bench.capabilities.leases
    told: dict[str, Any] = {
        "own_ms": [time.time_ns() // 1_000_000, round(datetime.now(UTC).timestamp() * 1_000)],
        "store_ms": await instance.now_ms(),
        "due": (await instance.claim(now_ms, job="due", not_after_ms=now_ms + 60_000)).verdict,
        "ahead": (await instance.claim(now_ms + 60_000, job="ahead")).verdict,
        "expired": (await instance.claim(now_ms, job="x", not_after_ms=now_ms - 1)).verdict,
    }
    record = (await instance.history("due"))[0]
    told["claimed_ms"] = round(record.claimed_at.timestamp() * 1_000)
    if not leases:
        return told
    told["young"] = (await instance.claim(now_ms, job="y", max_lateness_ms=60_000)).verdict
    told["old"] = (await instance.claim(now_ms - 90_000, job="z", max_lateness_ms=60_000)).verdict
    told["held"] = (await instance.claim(order["slots"][0], attempt=2, job=JOB)).verdict
    try:
        await instance.register(now_ms + 60_000, job="future")
        told["future"] = "accepted"
    except BackendError:
        told["future"] = "refused"
    told["past"] = (await instance.register(now_ms, job="past")).new
    return told


_ERRANDS: dict[str, Callable[[Instance, dict[str, Any]], Awaitable[dict[str, Any]]]] = {
    "clocks": _clocks,
    "hold": _hold,
    "race": _race,
}
