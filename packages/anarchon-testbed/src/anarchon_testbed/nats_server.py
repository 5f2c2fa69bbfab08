"""
NATS: one server, and clusters whose nodes find each other by routes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from anarchon_testbed.containers import ContainerPlan
from anarchon_testbed.context import in_thread
from anarchon_testbed.errors import ServerFailedError
from anarchon_testbed.groups import ServerGroup, until
from anarchon_testbed.natswire import NatsAddress, ask_nats, greet_nats
from anarchon_testbed.ports import HOST, free_port
from anarchon_testbed.server import Server
from anarchon_testbed.tls import Certificates, make_certificates

__all__ = ["NatsCluster", "NatsServer", "nats", "nats_cluster"]

_PROBE = "testbed-probe"


class NatsServer(Server):
    """
    One NATS server. `address` is for `request`, `certificates` the files of its TLS.

    Args:
        jetstream: Whether it stores anything.

        users: The passwords by name; nobody else gets in then.

        token: What everybody has to know instead.

        store_bytes_max: How much JetStream may put on disk.

        config: More settings, by their names in the server's configuration; those of JetStream
            are added to ours.

        greeted: Whether the server lets us in; False where it asks for more than a password, and
            listening has to do.
    """

    kind = "nats"

    def __init__(
        self,
        version: str | None = None,
        *,
        own: bool = False,
        jetstream: bool = True,
        users: Mapping[str, str] | None = None,
        token: str | None = None,
        tls: bool = False,
        store_bytes_max: int | None = None,
        config: Mapping[str, Any] | None = None,
        greeted: bool = True,
        environment: dict[str, str] | None = None,
    ) -> None:
        special = not jetstream or users or token or tls or store_bytes_max or config or environment
        super().__init__(version=version, own=own or bool(special), environment=environment)
        self._special = bool(special)
        self._jetstream = jetstream
        self._users = dict(users or {})
        self._login: tuple[str | None, str | None] = next(iter(self._users.items()), (None, None))
        self._token = token
        self._tls = tls
        self._store_bytes_max = store_bytes_max
        self._config = dict(config or {})
        self._greeted = greeted
        self.certificates: Certificates | None = None

    @property
    def address(self) -> NatsAddress:
        """
        Where and how to reach the server, as the first of its users.
        """
        return NatsAddress(
            host=self.host,
            port=self.port,
            user=self._login[0],
            password=self._login[1],
            token=self._token,
            ca=self.certificates.ca if self.certificates is not None else None,
        )

    def request(self, subject: str, body: object = None) -> Any:
        """
        Send one request over a new connection and give its answer, which is JSON, blocking.

        None says that nobody listens.
        """
        return ask_nats(self.address, subject, body)

    def _prepare(self) -> None:
        if self._tls and self.certificates is None:
            self.certificates = make_certificates(self.folder)
        text = json.dumps(self._settings(), indent=1)
        (self.folder / "server.conf").write_text(text, encoding="utf-8")

    def _settings(self) -> dict[str, Any]:
        settings: dict[str, Any] = {"host": self.host, "port": self.port}
        if self._jetstream:
            settings["jetstream"] = {"store_dir": str(self.folder / "store")}
            if self._store_bytes_max is not None:
                settings["jetstream"]["max_file_store"] = self._store_bytes_max
        if self._token is not None:
            settings["authorization"] = {"token": self._token}
        if self._users:
            users = [{"user": name, "password": word} for name, word in self._users.items()]
            settings["authorization"] = {"users": users}
        if self.certificates is not None:
            settings["tls"] = {
                "cert_file": str(self.certificates.certificate),
                "key_file": str(self.certificates.key),
            }
        for name, value in self._config.items():
            known = settings.get(name) if name == "jetstream" else None
            settings[name] = {**known, **value} if isinstance(known, dict) else value
        return settings

    def _command(self) -> list[str]:
        assert self._program is not None
        return [*self._program.command, "--config", str(self.folder / "server.conf")]

    def _container(self) -> ContainerPlan | None:
        if self._special:
            return None
        return ContainerPlan(port=4222, command=("--jetstream",), environment={})

    def _probe(self) -> str:
        return greet_nats(self.address, log_in=self._greeted)

    def _own_url(self) -> str:
        scheme = "tls" if self._tls else "nats"
        return f"{scheme}://{self._credentials()}{self.host}:{self.port}"

    def _credentials(self) -> str:
        user, password = self._login
        if user is not None:
            return f"{quote(user, safe='')}:{quote(password or '', safe='')}@"
        return f"{quote(self._token, safe='')}@" if self._token is not None else ""

    def _adopt(self, url: str) -> str:
        parts = urlsplit(url)
        if parts.scheme != "nats":
            raise ServerFailedError(f"{parts.scheme}:// is not asked about here, nats:// is.")
        self.host, self.port = parts.hostname or "localhost", parts.port or 4222
        if parts.password is not None:
            self._login = unquote(parts.username or ""), unquote(parts.password)
        elif parts.username:
            self._token = unquote(parts.username)
        return greet_nats(self.address)


class NatsCluster(ServerGroup):
    """
    A cluster whose nodes are connected by routes, and agree on a leader for each stream.

    Args:
        nodes: How many; three is the fewest that outlive one of them.

        config: More settings of every node.
    """

    def __init__(
        self, version: str | None = None, *, nodes: int = 3, config: Mapping[str, Any] | None = None
    ) -> None:
        ports = [free_port() for _ in range(nodes)]
        routes = [f"nats://{HOST}:{port}" for port in ports]
        self.nodes = [
            NatsServer(
                version,
                own=True,
                config={
                    "server_name": f"node-{number}",
                    "cluster": {"name": "testbed", "host": HOST, "port": port, "routes": routes},
                    **(config or {}),
                },
            )
            for number, port in enumerate(ports)
        ]
        super().__init__()

    @property
    def url(self) -> str:
        """
        The URLs of all nodes, separated by commas.
        """
        return ",".join(node.url for node in self.nodes)

    def leader_of(self, stream: str) -> NatsServer:
        """
        Name the node that leads a stream, waiting until the nodes that run agree on one, blocking.
        """
        found: list[NatsServer] = []

        def led() -> bool:
            name = self._leader(stream)
            found[:] = [node for number, node in enumerate(self.nodes) if f"node-{number}" == name]
            return bool(found) and found[0].pid is not None

        until(led, what=f"stream {stream} has no leader")
        return found[0]

    def _leader(self, stream: str) -> str | None:
        running = next(node for node in self.nodes if node.pid is not None)
        told = running.request(f"$JS.API.STREAM.INFO.{stream}")
        leader: str | None = (told or {}).get("cluster", {}).get("leader")
        return leader

    async def agree(self) -> None:
        """
        Wait until JetStream answers on every node that runs, and all of them take a part of a new stream.

        A node that has just come back answers for itself before the others count on it.
        """
        await in_thread(self.agree_now)

    def agree_now(self) -> None:
        """
        Wait as `agree` does, blocking.
        """
        for node in self.nodes:
            if node.pid is not None:
                until(partial(_stores, node), what=f"JetStream does not answer on port {node.port}")
        running = [node for node in self.nodes if node.pid is not None]
        until(
            partial(_take_a_stream, running), what=f"{len(running)} nodes share no stream of theirs"
        )

    @property
    def _members(self) -> Sequence[NatsServer]:
        return self.nodes

    def _join(self, stack: ExitStack) -> None:  # noqa: ARG002 - nothing else is to be started
        self.agree_now()


def _stores(node: NatsServer) -> bool:
    told = node.request("$JS.API.INFO")
    return told is not None and "error" not in told


def _take_a_stream(nodes: Sequence[NatsServer]) -> bool:
    probe = {"name": _PROBE, "subjects": [_PROBE], "storage": "memory", "num_replicas": len(nodes)}
    made = nodes[0].request(f"$JS.API.STREAM.CREATE.{_PROBE}", probe)
    nodes[0].request(f"$JS.API.STREAM.DELETE.{_PROBE}")
    return made is not None and "error" not in made


nats = NatsServer
"""
Ask for a NATS server: the version wanted (`"2.10"`, `"2"`; none takes the newest that is here) and options.
"""

nats_cluster = NatsCluster
"""
Ask for a cluster of NATS servers.
"""
