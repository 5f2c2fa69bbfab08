"""
Groups of servers of which one takes another's place: Sentinel's, PostgreSQL's, and the clusters of NATS and RabbitMQ.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anarchon_testbed as testbed

__all__ = ["Group", "group_of"]

_REPLICAS = 2
"""
One is promoted, and one is left to hold what the new primary acknowledges.
"""

_SURE_S = 1.5
"""
How long PostgreSQL, which fails over by nobody's means but the operator's, has no primary.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """
    A group that runs: its backend URL so far, who leads, and how to make another one lead.

    ``part`` ends whoever would lead next, where that can fall behind; it comes back when it has to lead.
    """

    url: str
    leader: Callable[[], int]
    fail_over: Callable[[], Awaitable[object]]
    part: Callable[[], Awaitable[object]] | None = None


@asynccontextmanager
async def group_of(kind: str, place: str, *, waits: bool) -> AsyncIterator[Group]:
    """
    Start a group of servers of a kind, for a scenario whose place has that name.

    Args:
        waits: PostgreSQL answers once its standby has what it answers.
    """
    if kind == "nats":
        async with testbed.nats_cluster() as cluster:
            yield _cluster(cluster, place, f"{cluster.url}?replicas=3")
    elif kind == "rabbitmq":
        async with testbed.rabbitmq_cluster() as brokers:
            yield _cluster(brokers, f"{place}.runs", f"{brokers.url}?replicas=3")
    elif kind == "postgres":
        async with testbed.postgres_pair(synchronous=waits) as pair:

            async def promote() -> None:
                await pair.primary.kill()
                await pair.standby.start()  # It runs already, unless it was parted.
                await asyncio.sleep(_SURE_S)  # Who promotes is sure by then that it is dead.
                await pair.fail_over()

            yield Group(
                url=pair.url,
                leader=lambda: pair.primary.port,
                fail_over=promote,
                part=pair.standby.kill,
            )
    else:
        async with testbed.redis_sentinel(kind=kind, replicas=_REPLICAS) as group:
            hosts = ",".join(f"{host}:{port}" for host, port in group.addresses)
            yield Group(
                url=f"redis://{hosts}?sentinel={group.name}&wait_replicas=1",
                leader=lambda: group.primary.port,
                fail_over=group.fail_over,
            )


def _cluster(
    cluster: testbed.NatsCluster | testbed.RabbitMQCluster, stream: str, url: str
) -> Group:
    """
    Make a group of a cluster whose nodes lead by stream: the leader of ours is killed.
    """

    def leader() -> int:
        return cluster.leader_of(stream).port

    async def fail_over() -> None:
        node = await asyncio.to_thread(cluster.leader_of, stream)
        await node.kill()
        await asyncio.to_thread(cluster.leader_of, stream)  # It waits until another one leads.

    return Group(url=url, leader=leader, fail_over=fail_over)
