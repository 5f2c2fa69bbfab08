"""
Three RabbitMQ nodes that belong together, on the loopback address.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial

from anarchon_testbed.context import in_thread
from anarchon_testbed.groups import ServerGroup, until
from anarchon_testbed.kept import Kept
from anarchon_testbed.ports import HOST, free_port
from anarchon_testbed.programs import find_program
from anarchon_testbed.rabbitmq_server import RabbitMQServer

__all__ = ["RabbitMQCluster", "rabbitmq_cluster"]

_AGREE_MS_MAX = 240_000
_POLL_MS = 100


class RabbitMQCluster(ServerGroup):
    """
    A cluster of `size` nodes, all of one version. A node that is killed comes back with its data.
    """

    def __init__(
        self,
        version: str | None = None,
        *,
        size: int = 3,
        config: Mapping[str, str] | None = None,
    ) -> None:
        mark = secrets.token_hex(3)
        names = tuple(f"n{number}-{mark}@localhost" for number in range(1, size + 1))
        self._mapper_port = free_port()
        self.nodes = [
            RabbitMQServer(
                version,
                own=True,
                node=name,
                peers=names,
                mapper_port=self._mapper_port,
                config={
                    "cluster_formation.randomized_startup_delay_range.max": "1",
                    **(config or {}),
                }
                if version is not None and version.startswith("3.")
                else config,
            )
            for name in names
        ]
        super().__init__()

    @property
    def urls(self) -> list[str]:
        """
        The URL of each node, in the order of `nodes`.
        """
        return [node.url for node in self.nodes]

    @property
    def url(self) -> str:
        """
        One URL that names all nodes, the way the backend reads it.
        """
        first = self.nodes[0]
        login = first.url.rpartition("@")[0]
        return f"{login}@{','.join(f'{node.host}:{node.port}' for node in self.nodes)}"

    def leader_of(self, stream: str, *, vhost: str = "/") -> RabbitMQServer:
        """
        Name the node that leads a stream, waiting until one that runs does, blocking.

        For a while after its death the others still name the one that led.
        """
        found: list[RabbitMQServer] = []

        def led() -> bool:
            name = self._leader(stream, vhost)
            found[:] = [node for node in self.nodes if node.node == name and node.pid is not None]
            return bool(found)

        until(led, what=f"stream {stream} has no leader", ms_max=_AGREE_MS_MAX, poll_ms=_POLL_MS)
        return found[0]

    def _leader(self, stream: str, vhost: str) -> str:
        asked = next(node for node in self.nodes if node.pid is not None)
        name = f'{{resource, <<"{vhost}">>, queue, <<"{stream}">>}}'
        told = asked.evaluate(
            f"{{ok, Q}} = rabbit_amqqueue:lookup({name}), node(amqqueue:get_pid(Q))"
        )
        return told.strip("'")

    def agree_now(self) -> None:
        """
        Wait until every node that runs sees all the others that do, blocking.
        """
        running = [node for node in self.nodes if node.pid is not None]
        for node in running:
            until(
                partial(_sees, node, {one.node for one in running}),
                what=f"the node on port {node.port} does not see the others",
                ms_max=_AGREE_MS_MAX,
                poll_ms=_POLL_MS,
            )

    async def agree(self) -> None:
        """
        Wait until every node that runs sees all the others that do.
        """
        await in_thread(self.agree_now)

    @property
    def _members(self) -> Sequence[RabbitMQServer]:
        return self.nodes

    def _start(self, stack: ExitStack) -> None:
        # The port mapper is nobody's child, so that no node takes it along when it is killed.
        program = find_program(self.nodes[0].recipe)
        mapper = Kept()
        stack.callback(mapper.close)
        mapper.run(
            [*program.command, "--mapper"],
            {
                "PATH": "/usr/bin:/bin",
                "ERL_EPMD_ADDRESS": HOST,
                "ERL_EPMD_PORT": str(self._mapper_port),
            },
        )
        # Nodes that are new wait for each other: they have to be started together.
        with ThreadPoolExecutor(len(self.nodes)) as pool:
            starts = [pool.submit(stack.enter_context, node) for node in self.nodes]
        for start in starts:
            start.result()

    def _join(self, stack: ExitStack) -> None:  # noqa: ARG002 - nothing else is to be started
        self.agree_now()


def _seen_by(node: RabbitMQServer) -> set[str]:
    listed = "all_running" if node.version[0] == "3" else "list_running"
    told = node.evaluate(f"rabbit_nodes:{listed}()")
    return set(re.findall(r"[\w-]+@\w+", told))


def _sees(node: RabbitMQServer, others: set[str]) -> bool:
    return others <= _seen_by(node)


rabbitmq_cluster = RabbitMQCluster
"""
Ask for a cluster of RabbitMQ nodes: the version wanted and options.
"""
