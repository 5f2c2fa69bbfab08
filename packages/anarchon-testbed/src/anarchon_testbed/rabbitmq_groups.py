"""
Three RabbitMQ nodes that belong together, on the loopback address.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial

from anarchon_testbed.context import Enterable, in_thread
from anarchon_testbed.errors import ServerFailedError
from anarchon_testbed.kept import Kept
from anarchon_testbed.ports import HOST, free_port
from anarchon_testbed.programs import find_program
from anarchon_testbed.rabbitmq_server import RabbitMQServer

__all__ = ["RabbitMQCluster", "rabbitmq_cluster"]

_AGREE_MS_MAX = 90_000
_POLL_MS = 100


class RabbitMQCluster(Enterable):
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
        self._stack = ExitStack()

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

    @property
    def version(self) -> str:
        """
        The version of the nodes.
        """
        return self.nodes[0].version

    def leader_of(self, stream: str, *, vhost: str = "/") -> RabbitMQServer:
        """
        Tell the node that leads a stream, blocking.
        """
        asked = next(node for node in self.nodes if node.pid is not None)
        name = f'{{resource, <<"{vhost}">>, queue, <<"{stream}">>}}'
        told = asked.evaluate(
            f"{{ok, Q}} = rabbit_amqqueue:lookup({name}), node(amqqueue:get_pid(Q))"
        )
        found = told.strip("'")
        return next(node for node in self.nodes if node.node == found)

    def agree_now(self) -> None:
        """
        Wait until every node that runs sees all the others that do, blocking.
        """
        running = [node for node in self.nodes if node.pid is not None]
        for node in running:
            _until(
                partial(_sees, node, {one.node for one in running}),
                what=f"the node on port {node.port} does not see the others",
            )

    async def agree(self) -> None:
        """
        Wait until every node that runs sees all the others that do.
        """
        await in_thread(self.agree_now)

    def _enter(self) -> None:
        with ExitStack() as stack:
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
            self.agree_now()
            self._stack = stack.pop_all()

    def _leave(self, error: BaseException | None) -> None:
        self._stack.__exit__(type(error) if error else None, error, None)


def _members(node: RabbitMQServer) -> set[str]:
    try:
        told = node.evaluate(
            "rabbit_nodes:all_running()"
            if node.version[0] == "3"
            else "rabbit_nodes:list_running()"
        )
    except ServerFailedError:
        return set()
    return set(re.findall(r"[\w-]+@\w+", told))


def _sees(node: RabbitMQServer, others: set[str]) -> bool:
    return others <= _members(node)


def _until(condition: Callable[[], bool], *, what: str) -> None:
    end = time.monotonic() + _AGREE_MS_MAX / 1000
    while not condition():
        if time.monotonic() > end:
            raise ServerFailedError(f"{what} after {_AGREE_MS_MAX} ms")
        time.sleep(_POLL_MS / 1000)  # The runtime has nothing to wait on from outside.


rabbitmq_cluster = RabbitMQCluster
"""
Ask for a cluster of RabbitMQ nodes: the version wanted and options.
"""
