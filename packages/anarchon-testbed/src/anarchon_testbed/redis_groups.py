"""
Several Redis or Valkey servers that belong together: a cluster, and a primary with replicas that sentinels watch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial

from anarchon_testbed.context import in_thread
from anarchon_testbed.groups import ServerGroup, until
from anarchon_testbed.redis_server import RedisServer, ValkeyServer

__all__ = ["RedisCluster", "RedisSentinel", "redis_cluster", "redis_sentinel"]

_SLOTS = 16_384
_LINKED = b"master_link_status:up"
_SERVERS: dict[str, type[RedisServer]] = {"redis": RedisServer, "valkey": ValkeyServer}


class RedisCluster(ServerGroup):
    """
    A cluster: `primaries` share the slots, and `replicas` have one primary each. A silent node is failed after
    `node_timeout_ms`.
    """

    def __init__(
        self,
        version: str | None = None,
        *,
        kind: str = "redis",
        primaries: int = 3,
        replicas: int = 0,
        node_timeout_ms: int = 1000,
        config: Mapping[str, str] | None = None,
    ) -> None:
        settings = {
            "cluster-enabled": "yes",
            "cluster-node-timeout": str(node_timeout_ms),
            "cluster-config-file": "nodes.conf",
            **(config or {}),
        }
        made = [
            _SERVERS[kind](version=version, own=True, config=settings)
            for _ in range(primaries + replicas)
        ]
        self.primaries, self.replicas = made[:primaries], made[primaries:]
        super().__init__()

    @property
    def nodes(self) -> list[RedisServer]:
        """
        Every node, the primaries of the start first.
        """
        return [*self.primaries, *self.replicas]

    @property
    def url(self) -> str:
        """
        The URL of the first node; a client finds the others through it.
        """
        return self.nodes[0].url

    def agree_now(self) -> None:
        """
        Wait until every node that runs says that the cluster is whole, blocking.
        """
        for node in self.nodes:
            if node.pid is not None:
                until(
                    partial(_says, node, b"cluster_state:ok", "CLUSTER", "INFO"),
                    what=f"the cluster seen from port {node.port} is not whole",
                )

    async def agree(self) -> None:
        """
        Wait until every node that runs says that the cluster is whole.
        """
        await in_thread(self.agree_now)

    @property
    def _members(self) -> Sequence[RedisServer]:
        return self.nodes

    def _join(self, stack: ExitStack) -> None:  # noqa: ARG002 - nothing else is to be started
        first, share = self.nodes[0], -(-_SLOTS // len(self.primaries))
        for number, node in enumerate(self.nodes):
            node.command("CLUSTER", "SET-CONFIG-EPOCH", str(number + 1))
            if node is not first:
                node.command("CLUSTER", "MEET", first.host, str(first.port))
        for number, node in enumerate(self.primaries):
            last = min((number + 1) * share, _SLOTS) - 1
            node.command("CLUSTER", "ADDSLOTSRANGE", str(number * share), str(last))
        for node in self.nodes:
            known = f"cluster_known_nodes:{len(self.nodes)}\r\n".encode()
            until(
                partial(_says, node, known, "CLUSTER", "INFO"),
                what=f"the node on port {node.port} does not know all others",
            )
        for number, node in enumerate(self.replicas):
            primary = self.primaries[number % len(self.primaries)]
            identity = primary.command("CLUSTER", "MYID").decode()
            until(
                partial(_says, node, b"OK", "CLUSTER", "REPLICATE", identity),
                what=f"the node on port {node.port} does not become a replica",
            )
            until(
                partial(_says, node, _LINKED, "INFO", "replication"),
                what=f"the replica on port {node.port} does not reach its primary",
            )
        self.agree_now()


class _SentinelServer(RedisServer):
    """
    One sentinel. It writes its own configuration, so what it knows outlives a restart.
    """

    def __init__(self, lines: list[str], *, version: str | None, kind: str) -> None:
        self.kind = kind
        super().__init__(version=version, own=True)
        self._lines = lines

    def _prepare(self) -> None:
        lines = [f"port {self.port}", f"bind {self.host}", f'dir "{self.folder}"', *self._lines]
        (self.folder / "server.conf").write_text("\n".join(lines) + "\n", encoding="utf-8")

    def _command(self) -> list[str]:
        return [*super()._command(), "--sentinel"]


class RedisSentinel(ServerGroup):
    """
    A primary, its replicas, and sentinels that promote a replica when the primary has been silent for `down_after_ms`.
    """

    name = "anarchon"

    def __init__(
        self,
        version: str | None = None,
        *,
        kind: str = "redis",
        replicas: int = 1,
        sentinels: int = 3,
        down_after_ms: int = 1000,
        config: Mapping[str, str] | None = None,
    ) -> None:
        self._version, self._kind = version, kind
        self._down_after_ms = down_after_ms
        self._sentinels = sentinels
        settings = {"repl-diskless-sync-delay": "0", **(config or {})}
        self.servers = [
            _SERVERS[kind](version=version, own=True, config=settings) for _ in range(1 + replicas)
        ]
        self.sentinels: list[RedisServer] = []
        super().__init__()

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """
        Where the sentinels are; clients ask them for the primary of the name `name`.
        """
        return [(one.host, one.port) for one in self.sentinels]

    @property
    def primary(self) -> RedisServer:
        """
        The server that a sentinel names as primary now.
        """
        reached = next(one for one in self.sentinels if one.pid is not None)
        answer = reached.command("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.name)
        return next(one for one in self.servers if one.port == int(answer[1]))

    async def fail_over(self) -> RedisServer:
        """
        Kill the primary and wait until the sentinels have promoted a replica; gives that one.

        Start the killed server again to let it come back as a replica.
        """
        return await in_thread(self.fail_over_now)

    def fail_over_now(self) -> RedisServer:
        """
        Fail over as `fail_over` does, blocking.
        """
        old = self.primary
        old.kill_now()
        return self.successor_of(old)

    def successor_of(self, old: RedisServer) -> RedisServer:
        """
        Wait until the sentinels have promoted another server than *old*, blocking; gives that one.
        """

        def promoted() -> bool:
            new = self.primary
            return new is not old and new.command("ROLE")[0] == b"master"

        until(promoted, what=f"no replica of port {old.port} was promoted")
        return self.primary

    @property
    def _members(self) -> Sequence[RedisServer]:
        return self.servers

    def _join(self, stack: ExitStack) -> None:
        first = self.servers[0]
        for server in self.servers[1:]:
            server.command("REPLICAOF", first.host, str(first.port))
            server.command("CONFIG", "REWRITE")
            until(
                partial(_says, server, _LINKED, "INFO", "replication"),
                what=f"the replica on port {server.port} does not reach its primary",
            )
        lines = [
            f"sentinel monitor {self.name} {first.host} {first.port} {self._sentinels // 2 + 1}",
            f"sentinel down-after-milliseconds {self.name} {self._down_after_ms}",
            f"sentinel failover-timeout {self.name} 5000",
        ]
        self.sentinels = [
            stack.enter_context(_SentinelServer(lines, version=self._version, kind=self._kind))
            for _ in range(self._sentinels)
        ]
        for sentinel in self.sentinels:
            self._await_company(sentinel)

    def _await_company(self, sentinel: RedisServer) -> None:
        def knows_all() -> bool:
            replicas = sentinel.command("SENTINEL", "REPLICAS", self.name)
            others = sentinel.command("SENTINEL", "SENTINELS", self.name)
            return (len(replicas), len(others)) == (len(self.servers) - 1, self._sentinels - 1)

        until(knows_all, what=f"the sentinel on port {sentinel.port} does not know all others")


redis_cluster = RedisCluster
"""
Ask for a cluster; `kind="valkey"` makes it one of Valkey.
"""

redis_sentinel = RedisSentinel
"""
Ask for a primary with replicas and sentinels; `kind="valkey"` makes them Valkey.
"""


def _says(server: RedisServer, text: bytes, *command: str) -> bool:
    answer = server.command(*command)
    return isinstance(answer, bytes) and text in answer
