"""
RabbitMQ: one node, or several that form a cluster on this machine.

A node is started without the package's own scripts, which expect to be installed: the words
that they would say are said here. Each single node has a port mapper (epmd) of its own, so
that a broker which runs on this machine already is not touched.
"""

from __future__ import annotations

import secrets
import subprocess
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

from anarchon_testbed.amqp import ask_greeting
from anarchon_testbed.containers import ContainerPlan
from anarchon_testbed.errors import ServerFailedError
from anarchon_testbed.ports import HOST, free_port
from anarchon_testbed.server import Server
from anarchon_testbed.tls import Certificates, make_certificates

__all__ = ["RabbitMQServer", "rabbitmq"]

_USER = "guest"
_COOKIE = "anarchon"
_READY_MS_MAX = 240_000
_CALL_SECONDS_MAX = 120
_STARTED = "Server startup complete"

# No busy waiting: the machine is shared with the tests. What is not a test's business stays off.
_RUNTIME = (
    *("+W", "w", "+S", "2:2", "+P", "65536", "+pc", "unicode"),
    *("+sbwt", "none", "+sbwtdcpu", "none", "+sbwtdio", "none"),
    *("-kernel", "inet_dist_use_interface", "{127,0,0,1}"),
    *("-kernel", "prevent_overlapping_partitions", "false"),
    *("-syslog", "logger", "[]", "-syslog", "syslog_error_logger", "false"),
)


class RabbitMQServer(Server):
    """
    One RabbitMQ node. `certificates` are the files of its TLS, where that was asked for.

    `config` are lines of its configuration. `node`, `peers` and `mapper_port` are what a
    cluster tells each of its nodes: its own name, those of all, and their common port mapper.
    """

    kind = "rabbitmq"
    ready_ms_max = _READY_MS_MAX

    def __init__(
        self,
        version: str | None = None,
        *,
        own: bool = False,
        tls: bool = False,
        config: Mapping[str, str] | None = None,
        environment: dict[str, str] | None = None,
        node: str | None = None,
        peers: tuple[str, ...] = (),
        mapper_port: int | None = None,
    ) -> None:
        special = tls or config or environment or peers
        super().__init__(version=version, own=own or bool(special), environment=environment)
        self.node = node or f"n{secrets.token_hex(4)}@localhost"
        self._tls = tls
        self._config = dict(config or {})
        self._peers = peers
        self._given_mapper_port = mapper_port
        self._mapper_port = 0
        self._meeting_port = 0
        self._said = 0
        self.certificates: Certificates | None = None

    def evaluate(self, expression: str) -> str:
        """
        Evaluate an Erlang expression in the node and give the value as Erlang writes it, blocking.
        """
        if self._program is None:
            raise ServerFailedError(f"{self.name} does not run from a program here.")
        result = subprocess.run(  # noqa: S603 - The program is one that the testbed found.
            [
                *self._program.command,
                *("--call", "-c", _COOKIE, "-sname", self.node, "-timeout", "100", "-e"),
            ],
            input=f"{expression}.\n",
            env={**self._surroundings(), "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            timeout=_CALL_SECONDS_MAX,
            check=False,
        )
        answer = result.stdout.strip()
        if result.returncode or not answer.startswith("{ok, "):
            said = answer or result.stderr.strip()
            raise ServerFailedError(f"{self.name} could not evaluate {expression!r}: {said}")
        return answer.removeprefix("{ok, ").removesuffix("}")

    def _prepare(self) -> None:
        folder = self.folder
        if self._tls:
            self.certificates = make_certificates(folder)
        lines = [f"{name} = {value}\n" for name, value in self._settings().items()]
        (folder / "rabbitmq.conf").write_text("".join(lines), encoding="utf-8")
        (folder / "enabled_plugins").write_text("[].\n", encoding="utf-8")

    def _settings(self) -> dict[str, str]:
        settings = {
            "loopback_users": "none",
            "log.console": "true",
            "log.console.level": "info",
            "log.file": "false",
            "disk_free_limit.absolute": "1MB",
        }
        if self.certificates is None:
            settings["listeners.tcp.1"] = f"{self.host}:{self.port}"
        else:
            settings |= {
                "listeners.tcp": "none",
                "listeners.ssl.1": f"{self.host}:{self.port}",
                "ssl_options.cacertfile": str(self.certificates.ca),
                "ssl_options.certfile": str(self.certificates.certificate),
                "ssl_options.keyfile": str(self.certificates.key),
                "ssl_options.verify": "verify_none",
                "ssl_options.fail_if_no_peer_cert": "false",
            }
        if self._peers:
            prefix = "cluster_formation"
            settings[f"{prefix}.peer_discovery_backend"] = "classic_config"
            for number, peer in enumerate(self._peers, 1):
                settings[f"{prefix}.classic_config.nodes.{number}"] = peer
        return settings | self._config

    def _surroundings(self) -> dict[str, str]:
        folder = str(self.folder)
        return {
            "HOME": folder,
            "ERL_EPMD_ADDRESS": HOST,
            "ERL_EPMD_PORT": str(self._mapper_port),
            "ERL_CRASH_DUMP_SECONDS": "0",
            "RABBITMQ_NODENAME": self.node,
            "RABBITMQ_DIST_PORT": str(self._meeting_port),
            "RABBITMQ_MNESIA_BASE": f"{folder}/mnesia",
            "RABBITMQ_LOG_BASE": f"{folder}/log",
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_CONFIG_FILE": f"{folder}/rabbitmq",
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{folder}/enabled_plugins",
            "RABBITMQ_PLUGINS_EXPAND_DIR": f"{folder}/plugins",
        }

    def _start_environment(self) -> dict[str, str]:
        # Clients do not know these ports, so that each start takes ones that are free at that moment.
        self._mapper_port = self._given_mapper_port or free_port()
        self._meeting_port = free_port()
        return self._surroundings()

    def _command(self) -> list[str]:
        assert self._program is not None
        self._said = len(self.log)
        words = ["-noinput", "-s", "rabbit", "boot", "-boot", "start_sasl", "-setcookie", _COOKIE]
        return [*self._program.command, *words, *_RUNTIME]

    def _container(self) -> ContainerPlan | None:
        if self._tls or self._config or self._peers or self._extra_environment:
            return None
        # The user of the first start is only let in from within the container.
        login = {"RABBITMQ_DEFAULT_USER": "anarchon", "RABBITMQ_DEFAULT_PASS": "anarchon"}
        return ContainerPlan(port=5672, command=(), environment=login)

    def _probe(self) -> str:
        # It listens before it can do all that it is asked.
        if self._program is not None and _STARTED not in self.log[self._said :]:
            raise ServerFailedError("the broker still starts")
        # With TLS the greeting would need a handshake first.
        return "" if self._tls else ask_greeting(self.host, self.port)

    def _own_url(self) -> str:
        user = _USER if self._program is not None else "anarchon"
        return f"{'amqps' if self._tls else 'amqp'}://{user}:{user}@{self.host}:{self.port}"

    def _adopt(self, url: str) -> str:
        parts = urlsplit(url)
        if parts.scheme != "amqp":
            raise ServerFailedError(f"{parts.scheme}:// is not asked about here, amqp:// is.")
        self.host, self.port = unquote(parts.hostname or "localhost"), parts.port or 5672
        return ask_greeting(self.host, self.port)


rabbitmq = RabbitMQServer
"""
Ask for a RabbitMQ node: the version wanted (`"3.10"`, `"4"`; none takes the newest that is here) and options.
"""
