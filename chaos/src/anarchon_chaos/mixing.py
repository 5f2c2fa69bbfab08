"""
Faults at random, from a seed: what nobody would think of writing down.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass

from anarchon_chaos.evidence import now_ns
from anarchon_chaos.server_steps import FreezeServer, KillServer
from anarchon_chaos.stage import Stage
from anarchon_chaos.steps import Cut, Freeze, Kill, Leave, Step

__all__ = ["RandomFaults", "draw"]

_CUTS = ("silent", "half-open", "reset", "down", "lost-reply", "latency", "narrow")


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomFaults:
    """
    Do one thing after the other to instances and to the server, for so long; who has ended is replaced.

    Args:
        at_once: How many faults go on at the same time.
    """

    ms: int
    at_once: int = 1

    async def play(self, stage: Stage) -> None:
        """
        Play until the time is over.
        """
        end_ns = now_ns() + self.ms * 1_000_000
        names = stage.resolve("all")
        # Each hand has instances of its own, so that no two faults meet on one.
        hands = [names[number :: self.at_once] for number in range(self.at_once)]
        await asyncio.gather(
            *(self._play(stage, hand, number, end_ns) for number, hand in enumerate(hands))
        )

    async def _play(self, stage: Stage, names: list[str], number: int, end_ns: int) -> None:
        rng = random.Random(f"{stage.seed}/{number}")  # noqa: S311 - It decides faults, not secrets.
        network = "network" in stage.store.kind.offers
        rounds = 0
        while now_ns() < end_ns:
            rounds += 1
            position = rng.randrange(len(names))
            name = names[position]
            step = draw(rng, name, network=network, server=number == 0 and network)
            await step.play(stage)
            if isinstance(step, Kill | Leave):
                names[position] = await self._replace(stage, name, f"{number}.{rounds}")
            await asyncio.sleep(rng.uniform(0.2, 2.0))

    @staticmethod
    async def _replace(stage: Stage, name: str, mark: str) -> str:
        fresh = f"{name.partition('.')[0]}.{mark}"
        await stage.add(fresh)
        await stage.ready(fresh)
        stage.start(fresh)
        await stage.started(fresh)
        return fresh


def draw(rng: random.Random, name: str, *, network: bool, server: bool) -> Step:
    """
    Draw one fault for an instance, or for the server where that may be harmed.
    """
    kinds = ["kill", "freeze", "leave", "nap"]
    if network:
        kinds += ["cut", "cut", "cut"]
    if server:
        kinds += ["server frozen", "server killed"]
    kind = rng.choice(kinds)
    if kind == "kill":
        return Kill(who=name)
    if kind == "leave":
        return Leave(who=name)
    if kind == "freeze":
        return Freeze(who=name, ms=rng.randrange(3_000, 7_000))
    if kind == "nap":
        return Freeze(who=name, ms=rng.randrange(200, 2_000))
    if kind == "server frozen":
        return FreezeServer(ms=rng.randrange(500, 5_000))
    if kind == "server killed":
        return KillServer(down_ms=rng.randrange(200, 4_000))
    cut = rng.choice(_CUTS)
    weak = cut in ("lost-reply", "latency", "narrow")
    ms = rng.randrange(800, 1_500) if weak else rng.randrange(1_000, 7_000)
    return Cut(who=name, kind=cut, ms=ms, stalls=not weak)
