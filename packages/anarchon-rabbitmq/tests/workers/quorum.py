"""
The counter-example: `quorum.py URL QUEUE NAME SLOTS` takes each slot with a queue of length one, and prints its wins.

A quorum queue with x-max-length 1 and reject-publish looks like a claim: the first message is in, the
second is refused. Its limit is soft.
"""

from __future__ import annotations

import asyncio
import json
import sys

import aio_pika
from aio_pika.exceptions import DeliveryError

CLAIMERS = 4
ARGUMENTS = {"x-queue-type": "quorum", "x-max-length": 1, "x-overflow": "reject-publish"}


async def main(url: str, queue: str, name: str, slots: int) -> list[int]:
    """
    Claim every slot with several claimers at once.
    """
    connections = [await aio_pika.connect(url) for _ in range(CLAIMERS)]
    channels = [await connection.channel(on_return_raises=True) for connection in connections]
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    won: list[int] = []

    async def claim(channel: aio_pika.abc.AbstractChannel, slot: int) -> None:
        message = aio_pika.Message(name.encode(), delivery_mode=aio_pika.DeliveryMode.PERSISTENT)
        try:
            await channel.default_exchange.publish(message, routing_key=f"{queue}-{slot}")
        except DeliveryError:
            return
        won.append(slot)

    for slot in range(slots):
        # All processes ask for a slot at the same moment.
        await asyncio.to_thread(sys.stdin.readline)
        await asyncio.gather(*(claim(channel, slot) for channel in channels))
        sys.stdout.write("done\n")
        sys.stdout.flush()
    for connection in connections:
        await connection.close()
    return won


if __name__ == "__main__":
    place, queue, name, slots = sys.argv[1:5]
    sys.stdout.write(json.dumps(asyncio.run(main(place, queue, name, int(slots)))) + "\n")
