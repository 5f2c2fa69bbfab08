"""
Claimers in several processes: one winner a slot, on one node, and in a cluster that loses nodes meanwhile.

`make soak` races over the whole of 5,000 slots, and on a cluster of either version.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import chain
from typing import Any

import aio_pika
import pytest
from store_fixtures import line, tell, until_answered

import anarchon_testbed as testbed
from anarchon.backend import ClaimRequest, Verdict
from anarchon_rabbitmq import RabbitMQBackend

SOAK = bool(os.environ.get("ANARCHON_SOAK"))

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900 if SOAK else 300)]

SLOTS = 5_000 if SOAK else 800
CLUSTERS = ["3.10", "4"] if SOAK else ["4"]
PROCESSES = 4
RACE_SECONDS_MAX = 800 if SOAK else 200
CALM_TIMEOUT_MS = 60_000
"""
The deadline of claims that nothing disturbs: a busy machine alone makes none of them fail.
"""

ROUGH_TIMEOUT_MS = 5_000
LATE_MS_MAX = 5_000
"""
How long after its deadline, by a timer of the same process, a claim may end on a machine that is busy.
"""

Started = Callable[..., subprocess.Popen[str]]


class Race:
    """
    Racers in processes of their own.
    """

    def __init__(
        self, started: Started, url: str, prefix: str, *, legs: int, timeout_ms: int
    ) -> None:
        self._racers = [
            started("race", url, prefix, f"racer-{number}", SLOTS, legs, timeout_ms)
            for number in range(PROCESSES)
        ]
        for racer in self._racers:
            said = line(racer)

            assert "ready" == said, racer.communicate()[1]
        self._first = time.time_ns() // 1_000_000 - 60_000

    def run_leg(self) -> None:
        """
        Let the racers go for the next part of the slots, and return when all of them are under way.
        """
        for racer in self._racers:
            tell(racer, str(self._first))
        for racer in self._racers:
            assert "under way" == line(racer)

    def end_leg(self) -> None:
        """
        Let the racers come to the leg's end: until now they claim, however fast they are.
        """
        for racer in self._racers:
            tell(racer)

    def end(self) -> list[dict[str, Any]]:
        """
        Wait for the racers, and give what they tell.
        """
        outputs = [racer.communicate(timeout=RACE_SECONDS_MAX) for racer in self._racers]

        failed = [
            errors[-2_000:]
            for racer, (_, errors) in zip(self._racers, outputs, strict=True)
            if racer.returncode
        ]

        assert [] == failed
        return [json.loads(output) for output, _ in outputs]


def winners(told: list[dict[str, Any]]) -> Counter[int]:
    """
    Count the winners of each slot.
    """
    return Counter(chain.from_iterable(each["won"] for each in told))


@pytest.mark.parametrize("version", ["3.10", "4"])
def test_one_winner_on_one_node(version: str, prefix: str, started: Started) -> None:
    """
    16 claimers in 4 processes: each slot has exactly one winner, and every process wins some.
    """
    url = testbed.shared_url("rabbitmq", version)
    race = Race(started, url, prefix, legs=1, timeout_ms=CALM_TIMEOUT_MS)
    race.run_leg()
    race.end_leg()
    told = race.end()

    assert dict.fromkeys(range(SLOTS), 1) == dict(sorted(winners(told).items()))
    assert all(each["won"] for each in told), "a process that wins nothing raced nobody"
    assert 0 == sum(each["failures"] for each in told)


async def claims_go_on(url: str, prefix: str, job: str) -> list[Verdict]:
    """
    Claim one more slot with each of two instances that come new, once they are let in.
    """
    slot = time.time_ns() // 1_000_000
    verdicts = []
    for token in ("one", "two"):
        backend = RabbitMQBackend(url, prefix=prefix)
        request = ClaimRequest(job=job, slot=slot, token=token, instance_id=token)
        await until_answered(partial(backend.open, timeout_ms=30_000))
        (answer,) = await until_answered(partial(backend.claim, [request], timeout_ms=30_000))
        verdicts.append(answer.verdict)  # type: ignore[union-attr]  # An error has no verdict, and fails the test.
        await backend.close()
    return verdicts


@pytest.mark.parametrize("version", CLUSTERS)
def test_one_winner_in_a_cluster_that_loses_its_leader(
    version: str, prefix: str, started: Started
) -> None:
    """
    Three nodes; a follower and then the leader are killed during the race. Every slot has one winner all the same.

    A claim under way is asked again with its token, and answered as it went. No claim outlasts its deadline.
    """
    with testbed.rabbitmq_cluster(version) as cluster:
        race = Race(started, cluster.url, prefix, legs=3, timeout_ms=ROUGH_TIMEOUT_MS)
        race.run_leg()
        leader = cluster.leader_of(f"{prefix}.runs")
        race.end_leg()
        follower = next(node for node in cluster.nodes if node is not leader)
        race.run_leg()
        follower.kill_now()
        race.end_leg()
        follower.start_now()
        back = asyncio.run(claims_go_on(follower.url, prefix, "at the follower"))
        leader = cluster.leader_of(f"{prefix}.runs")
        race.run_leg()
        leader.kill_now()
        race.end_leg()
        heir = cluster.leader_of(f"{prefix}.runs")
        told = race.end()
        after = asyncio.run(claims_go_on(cluster.url, prefix, "without the leader"))

    assert dict.fromkeys(range(SLOTS), 1) == dict(sorted(winners(told).items()))
    assert [[Verdict.WON, Verdict.TAKEN]] * 2 == [back, after]
    assert heir is not leader
    assert 0 < sum(each["failures"] for each in told), (
        "no claim was under way when the nodes were killed"
    )
    assert max(each["late_ms"] for each in told) <= LATE_MS_MAX


def test_a_quorum_queue_with_a_length_limit_has_several_winners(
    prefix: str, url: str, started: Started
) -> None:
    """
    The counter-example: a queue of length one that refuses more is no claim, for its limit is soft.
    """
    slots = 20

    async def declare() -> None:
        connection = await aio_pika.connect(url)
        channel = await connection.channel()
        for slot in range(slots):
            await channel.declare_queue(
                f"{prefix}-{slot}",
                durable=True,
                arguments={
                    "x-queue-type": "quorum",
                    "x-max-length": 1,
                    "x-overflow": "reject-publish",
                },
            )
        await connection.close()

    async def delete() -> None:
        connection = await aio_pika.connect(url)
        channel = await connection.channel()
        for slot in range(slots):
            await channel.queue_delete(f"{prefix}-{slot}")
        await connection.close()

    asyncio.run(declare())
    racers = [started("quorum", url, prefix, f"racer-{number}", slots) for number in range(4)]
    for racer in racers:
        assert "ready" == line(racer)
    for _ in range(slots):
        for racer in racers:
            tell(racer, "go")
        for racer in racers:
            assert "done" == line(racer)
    wins = [json.loads(racer.communicate(timeout=60)[0]) for racer in racers]
    asyncio.run(delete())

    assert max(Counter(chain.from_iterable(wins)).values()) > 1
