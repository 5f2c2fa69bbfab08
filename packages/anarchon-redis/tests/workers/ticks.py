"""
Run a job four times a second: `ticks.py URL PREFIX` prints slot and attempt of each run that it starts.

It says "ready" once it has started, and hands over when it is sent a line.
"""

from __future__ import annotations

import asyncio
import sys

from anarchon import RunContext, Scheduler
from anarchon_redis import RedisBackend


def say(text: str) -> None:
    """
    Write a line at once.
    """
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


async def main(url: str, prefix: str) -> None:
    """
    Schedule until there is nobody left who listens.
    """
    scheduler = Scheduler(RedisBackend(url, prefix=prefix), heartbeat="500ms")

    @scheduler.every("tick", "250ms", jitter="50ms")
    async def tick(ctx: RunContext) -> None:
        say(f"{ctx.slot} {ctx.attempt}")

    async with scheduler:
        say("ready")
        await asyncio.to_thread(sys.stdin.readline)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
