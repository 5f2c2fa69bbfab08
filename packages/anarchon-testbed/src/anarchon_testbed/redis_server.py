"""
Redis and Valkey, which start and speak alike.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from anarchon_testbed.containers import ContainerPlan
from anarchon_testbed.errors import ServerFailedError
from anarchon_testbed.resp import Address, RespError, ask
from anarchon_testbed.server import Server
from anarchon_testbed.tls import Certificates, make_certificates

__all__ = ["RedisServer", "ValkeyServer", "redis", "valkey"]


class RedisServer(Server):
    """
    One Redis server. `address` is for `command`, `unix_path` its socket, `certificates` the files of its TLS.
    """

    kind = "redis"

    def __init__(
        self,
        version: str | None = None,
        *,
        own: bool = False,
        appendonly: bool = False,
        appendfsync: str = "everysec",
        password: str | None = None,
        users: Mapping[str, str] | None = None,
        tls: bool = False,
        unix_socket: bool = False,
        config: Mapping[str, str] | None = None,
        environment: dict[str, str] | None = None,
    ) -> None:
        special = appendonly or password or users or tls or unix_socket or config or environment
        super().__init__(version=version, own=own or bool(special), environment=environment)
        self._appendonly = appendonly
        self._appendfsync = appendfsync
        self._user: str | None = None
        self._password = password
        self._users = dict(users or {})
        self._tls = tls
        self._unix_socket = unix_socket
        self._config = dict(config or {})
        self.certificates: Certificates | None = None
        self.unix_path: Path | None = None

    @property
    def address(self) -> Address:
        """
        Where and how to reach the server.
        """
        return Address(
            host=self.host,
            port=self.port,
            user=self._user,
            password=self._password,
            ca=self.certificates.ca if self.certificates is not None else None,
        )

    @property
    def unix_url(self) -> str:
        """
        The URL of its Unix socket, where it was asked for.
        """
        if self.unix_path is None:
            raise ServerFailedError(f"{self.name} has no Unix socket: ask for `unix_socket=True`.")
        return f"unix://{self._credentials()}{self.unix_path}"

    def command(self, *words: str) -> Any:
        """
        Send one command over a new connection and give its answer (bytes, integer, None, list), blocking.
        """
        return ask(self.address, words)[0]

    def _prepare(self) -> None:
        folder = self.folder
        if self._unix_socket:
            self.unix_path = folder / "s"
        if self._tls:
            self.certificates = make_certificates(folder)
        lines = [f"{name} {value}\n" for name, value in self._settings().items()]
        lines += [f"user {user} {rules}\n" for user, rules in self._users.items()]
        (folder / "server.conf").write_text("".join(lines), encoding="utf-8")

    def _settings(self) -> dict[str, str]:
        settings = {
            "bind": self.host,
            "port": "0" if self._tls else str(self.port),
            "dir": f'"{self.folder}"',
            "save": '""',
            "appendonly": "yes" if self._appendonly else "no",
            "appendfsync": self._appendfsync,
            "enable-debug-command": "local",
        }
        if self._password is not None:
            quoted = json.dumps(self._password)
            settings |= {"requirepass": quoted, "masterauth": quoted}
        if self.unix_path is not None:
            settings |= {"unixsocket": str(self.unix_path)}
        if self.certificates is not None:
            settings |= {
                "tls-port": str(self.port),
                "tls-cert-file": str(self.certificates.certificate),
                "tls-key-file": str(self.certificates.key),
                "tls-ca-cert-file": str(self.certificates.ca),
                "tls-auth-clients": "no",
            }
        return settings | self._config

    def _command(self) -> list[str]:
        assert self._program is not None
        return [*self._program.command, str(self.folder / "server.conf")]

    def _container(self) -> ContainerPlan | None:
        if self._tls or self._unix_socket or self._config or self._users or self._extra_environment:
            return None
        words = ["--save", "", "--appendonly", "yes" if self._appendonly else "no"]
        words += ["--appendfsync", self._appendfsync, "--protected-mode", "no"]
        if self._password is not None:
            words += ["--requirepass", self._password]
        return ContainerPlan(port=6379, command=tuple(words), environment={})

    def _probe(self) -> str:
        fields = self._info(self.address)
        if fields.get("loading", "0") != "0":
            raise ServerFailedError("the server still reads its data")
        return _version(fields)

    def _info(self, address: Address) -> dict[str, str]:
        try:
            text = ask(address, ("INFO",))[0].decode(errors="replace")
        except RespError as error:
            raise ServerFailedError(str(error)) from error
        return dict(line.split(":", 1) for line in text.splitlines() if ":" in line)

    def _own_url(self) -> str:
        scheme = "rediss" if self._tls else "redis"
        return f"{scheme}://{self._credentials()}{self.host}:{self.port}/0"

    def _credentials(self) -> str:
        return f":{quote(self._password, safe='')}@" if self._password is not None else ""

    def _adopt(self, url: str) -> str:
        parts = urlsplit(url)
        if parts.scheme not in ("redis", "valkey"):
            raise ServerFailedError(f"{parts.scheme}:// is not asked about here, redis:// is.")
        self.host, self.port = parts.hostname or "localhost", parts.port or 6379
        self._password = unquote(parts.password) if parts.password else None
        self._user = unquote(parts.username) if parts.username else None
        return _version(self._info(self.address))


class ValkeyServer(RedisServer):
    """
    One Valkey server, with all that a Redis server has here.
    """

    kind = "valkey"


def _version(fields: Mapping[str, str]) -> str:
    # Valkey gives the version of the Redis that it can stand in for beside its own.
    version = fields.get("valkey_version") or fields.get("redis_version")
    if version is None:
        raise ServerFailedError("the server tells no version")
    return version


redis = RedisServer
"""
Ask for a Redis server: the version wanted (`"7.0"`, `"8.6"`; none takes the newest that is here) and options.
"""

valkey = ValkeyServer
"""
Ask for a Valkey server (`"9"`), with the options of `redis`.
"""
