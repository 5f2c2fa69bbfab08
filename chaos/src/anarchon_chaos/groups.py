"""
Groups of servers of which one takes another's place: Sentinel's, PostgreSQL's, and the clusters of NATS and RabbitMQ.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anarchon_testbed as testbed
from anarchon_chaos.evidence import now_ns

__all__ = ["Group", "group_of"]

_REPLICAS = 2
"""
One is promoted, and one is left to hold what the new primary acknowledges.
"""

_SURE_S = 1.5
"""
How long PostgreSQL, which fails over by nobody's means but the operator's, has no primary.
"""

_NO_MAJORITY_S = 2.5
"""
How long a cluster that has lost its leader elects no other: longer than from one slot of the load to the deadline of
the claim for the next. Else one may lead within 100 ms, and nobody notices who is connected to another node.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """
    A group that runs: its backend URL so far, who leads, and how to make another one lead.

    ``fail_over`` gives the instant at which what was acknowledged and not passed on was lost: the old leader is dead,
    and nobody else has been asked to lead. It gives None where whoever leads next has all of it.
    ``part`` ends whoever would lead next, where that can fall behind; it comes back when it has to lead.
    """

    url: str
    leader: Callable[[], int]
    fail_over: Callable[[], Awaitable[int | None]]
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

            async def promote() -> int | None:
                await pair.primary.kill()
                await pair.standby.start()  # It runs already, unless it was parted.
                await asyncio.sleep(_SURE_S)  # Who promotes is sure by then that it is dead.
                lost_ns = now_ns()
                await pair.fail_over()
                return None if waits else lost_ns

            yield Group(
                url=pair.url,
                leader=lambda: pair.primary.port,
                fail_over=promote,
                part=pair.standby.kill,
            )
    else:
        async with testbed.redis_sentinel(kind=kind, replicas=_REPLICAS) as group:
            hosts = ",".join(f"{host}:{port}" for host, port in group.addresses)

            async def succeed() -> int:
                old = await asyncio.to_thread(lambda: group.primary)
                await old.kill()
                lost_ns = now_ns()
                await asyncio.to_thread(group.successor_of, old)
                return lost_ns

            yield Group(
                url=f"redis://{hosts}?sentinel={group.name}&wait_replicas=1",
                leader=lambda: group.primary.port,
                fail_over=succeed,
            )


def _cluster(
    cluster: testbed.NatsCluster | testbed.RabbitMQCluster, stream: str, url: str
) -> Group:
    """
    Make a group of a cluster whose nodes lead by stream: the leader of ours is killed, and while one more stands still
    there is no majority, so that nobody leads.
    """

    def leader() -> int:
        return cluster.leader_of(stream).port

    async def fail_over() -> None:
        node = await asyncio.to_thread(cluster.leader_of, stream)
        other = next(one for one in cluster.nodes if one is not node)
        # It has to stand still before the leader dies: an election takes less time than to stop it.
        await asyncio.to_thread(other.freeze)
        await node.kill()
        await asyncio.sleep(_NO_MAJORITY_S)  # That long the fault lasts, whatever the cluster does.
        await asyncio.to_thread(other.thaw)
        await asyncio.to_thread(cluster.leader_of, stream)  # It waits until another one leads.

    return Group(url=url, leader=leader, fail_over=fail_over)
