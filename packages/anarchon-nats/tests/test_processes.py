"""
Sixteen claimers in four processes: one winner for each slot, whatever happens to the servers meanwhile.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from itertools import chain

import pytest
from store_fixtures import line, tell

import anarchon_testbed as testbed
from anarchon.errors import StoreUnavailableError
from anarchon_nats import NatsBackend

SOAK = bool(os.environ.get("ANARCHON_SOAK"))
"""
`make soak` asks for races as long as they were asked for; without, they are short.
"""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900 if SOAK else 300)]

RUNS = 5_000 if SOAK else 600
"""
How many slots a race is about.
"""

PROCESSES = 4
LATE_MS_MAX = 5_000
"""
How long after its deadline, by a timer of the same process, a call may end on a machine that is busy.
"""

Started = Callable[..., subprocess.Popen[str]]
Opened = Callable[..., AbstractAsyncContextManager[NatsBackend]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """
    What a race came to: how often each run was won, by how many, and how calls went.
    """

    wins: dict[int, int]
    winners: int
    unknown: int
    late_ms: float


class Race:
    """
    Four processes on one prefix.
    """

    def __init__(self, started: Started, url: str, prefix: str, *, pause_ms: int = 1) -> None:
        self.racers = [
            started("race", url, prefix, f"racer-{number}", RUNS, pause_ms)
            for number in range(PROCESSES)
        ]

    def begin(self) -> None:
        """
        Let all begin at once, when all are ready.
        """
        for racer in self.racers:
            assert "ready" == line(racer)
        first = time.time_ns() // 1_000_000 - 600_000
        for racer in self.racers:
            tell(racer, str(first))

    def halfway(self) -> None:
        """
        Wait until one of them has asked for half of the runs.
        """
        assert "halfway" == line(self.racers[0])

    def end(self) -> Outcome:
        """
        Tell all that it is enough, wait for them, and count.
        """
        for racer in self.racers:
            tell(racer)
        outputs = [racer.communicate(timeout=800 if SOAK else 250) for racer in self.racers]
        assert [""] * PROCESSES == [errors for _, errors in outputs]
        told = [json.loads(output.splitlines()[-1]) for output, _ in outputs]
        return Outcome(
            wins=dict(sorted(Counter(chain.from_iterable(each["won"] for each in told)).items())),
            winners=sum(bool(each["won"]) for each in told),
            unknown=sum(each["unknown"] for each in told),
            late_ms=max(each["late_ms"] for each in told),
        )


def make_stream(opened: Opened, url: str, replicas: int) -> None:
    """
    Make the stream of the prefix, with so many replicas, as soon as there are enough nodes for it.
    """

    async def make() -> None:
        while True:
            try:
                async with opened(url, replicas=replicas):
                    return
            except StoreUnavailableError:
                await asyncio.sleep(0.1)  # A node that has just come back is not counted yet.

    asyncio.run(make())


def test_one_winner_on_one_node(url: str, prefix: str, started: Started) -> None:
    """
    Exactly one winner each, and every process wins some.
    """
    race = Race(started, url, prefix)
    race.begin()
    outcome = race.end()

    assert dict.fromkeys(range(RUNS), 1) == outcome.wins
    assert PROCESSES == outcome.winners, "a process that wins nothing raced nobody"


@pytest.mark.parametrize("replicas", [1, 3])
def test_one_winner_on_a_cluster(
    cluster: testbed.NatsCluster, replicas: int, opened: Opened, prefix: str, started: Started
) -> None:
    """
    The same on three nodes, with one replica and with three.
    """
    make_stream(opened, cluster.url, replicas)
    race = Race(started, cluster.url, prefix)
    race.begin()
    outcome = race.end()

    assert dict.fromkeys(range(RUNS), 1) == outcome.wins
    assert PROCESSES == outcome.winners, "a process that wins nothing raced nobody"


@pytest.mark.parametrize("victim", ["follower", "leader"])
def test_one_winner_while_a_node_dies(
    cluster: testbed.NatsCluster, victim: str, opened: Opened, prefix: str, started: Started
) -> None:
    """
    SIGKILL in the middle of the race: nobody hangs, nothing is won twice, and everything is won in the end.

    A call whose answer was lost with the node is repeated with its own token, and told the truth.
    """
    make_stream(opened, cluster.url, 3)
    race = Race(started, cluster.url, prefix, pause_ms=10)
    leader = cluster.leader_of(prefix)
    node = leader if victim == "leader" else next(one for one in cluster.nodes if one is not leader)
    race.begin()
    race.halfway()
    node.kill_now()
    try:
        outcome = race.end()
    finally:
        node.start_now()
        cluster.agree_now()

    assert dict.fromkeys(range(RUNS), 1) == outcome.wins
    # Nothing but the deadline ends a call to a node that is gone.
    assert outcome.late_ms < LATE_MS_MAX
    assert outcome.unknown or victim == "follower", "who lost the leader heard nothing for a while"
