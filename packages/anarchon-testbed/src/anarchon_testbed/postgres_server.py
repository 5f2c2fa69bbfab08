"""
PostgreSQL, which runs as an ordinary user, and starts from a cluster that initdb made.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from anarchon_testbed.containers import ContainerPlan
from anarchon_testbed.errors import ServerFailedError, ServerUnavailableError
from anarchon_testbed.kept import ordinary_user
from anarchon_testbed.pgwire import NotReadyError, ask, ask_ready
from anarchon_testbed.programs import Program
from anarchon_testbed.server import Server

__all__ = ["PostgresServer", "postgres"]

_ASK_MS_MAX = 20_000
_PROGRAM_SECONDS_MAX = 300
_SUPERUSER = "postgres"


class PostgresServer(Server):
    """
    One PostgreSQL server with the user and the database `postgres`.
    """

    kind = "postgres"
    refuses_root = True
    stop_signal = signal.SIGINT  # The fast shutdown: sessions are ended, not awaited.

    def __init__(
        self,
        version: str | None = None,
        *,
        own: bool = False,
        durable: bool = False,
        password: str | None = None,
        config: Mapping[str, str] | None = None,
        environment: dict[str, str] | None = None,
    ) -> None:
        special = durable or password or config or environment
        super().__init__(version=version, own=own or bool(special), environment=environment)
        self._durable = durable
        self._password = password
        self._config = dict(config or {})
        self.user = _SUPERUSER
        self.database = "postgres"

    def url_of(self, database: str, *, user: str | None = None, password: str | None = None) -> str:
        """
        Give the URL of another database of the server, or for another user.
        """
        name = quote(user or self.user, safe="")
        secret = password if user is not None else self._password
        word = f":{quote(secret, safe='')}" if secret is not None else ""
        return f"postgresql://{name}{word}@{self.host}:{self.port}/{quote(database, safe='')}"

    def ask(self, query: str, *, timeout_ms: int = _ASK_MS_MAX) -> list[list[str | None]]:
        """
        Run one statement in a session of its own and give its rows as text, blocking.

        Raises:
            ServerFailedError: The server refuses it, in its own words.

            OSError: It cannot be reached, or does not answer in time.
        """
        try:
            return ask(
                self.host,
                self.port,
                query,
                user=self.user,
                database=self.database,
                timeout_ms=timeout_ms,
            )
        except NotReadyError as error:
            raise ServerFailedError(f"{self.name} refused {query!r}: {error}") from error

    def _prepare(self) -> None:
        folder = self.folder / "db"
        if not folder.exists():
            self._fill(folder)
        settings = {
            "listen_addresses": self.host,
            "port": str(self.port),
            "unix_socket_directories": "",
            # A kill loses nothing without it: only the machine's own crash would.
            "fsync": "on" if self._durable else "off",
            "shared_buffers": "16MB",
            "max_connections": "200",
            "log_line_prefix": "%m [%p] %q%u@%d ",
            "timezone": "UTC",
            "log_timezone": "UTC",
            **self._config,
        }
        lines = [
            f"{name} = '{value.replace(chr(39), chr(39) * 2)}'\n"
            for name, value in settings.items()
        ]
        # It is read after postgresql.conf, and the server never writes it of itself.
        (folder / "postgresql.auto.conf").write_text("".join(lines), encoding="utf-8")

    def _fill(self, folder: Path) -> None:
        """
        Make the cluster that the server starts from.
        """
        words = ["--pgdata", str(folder), "--username", _SUPERUSER, "--no-sync"]
        words += ["--encoding=UTF8", "--locale=C", "--no-instructions"]
        if self._password is None:
            words += ["--auth=trust"]
        else:
            secret = self.folder / "password"
            secret.write_text(self._password + "\n", encoding="utf-8")
            words += ["--auth=scram-sha-256", f"--pwfile={secret}"]
        self._run_beside("initdb", *words)

    def _run_beside(self, name: str, *words: str) -> None:
        """
        Run one of the programs that PostgreSQL brings beside its server, as the server's own user, to its end.
        """
        program, user = self._program, ordinary_user()
        assert program is not None
        command = _beside(program, name)
        if not Path(command[-1]).exists():
            raise ServerUnavailableError(
                f"{self.name} has no {name} beside {program.path}: install the package of its clients, or remove the"
                f" cached folder and run `python -m anarchon_testbed obtain {self.name}`."
            )
        result = subprocess.run(  # noqa: S603 - The program was found beside the server's own.
            [*command, *words],
            cwd=self.folder,
            env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_PROGRAM_SECONDS_MAX,
            user=user,
            group=user,
            extra_groups=[] if user is not None else None,
            check=False,
        )
        if result.returncode:
            raise ServerFailedError(
                f"{name} of {self.name} failed:\n{result.stdout}{result.stderr}"
            )

    def _command(self) -> list[str]:
        assert self._program is not None
        return [*_beside(self._program, "postgres"), "-D", str(self.folder / "db")]

    def _container(self) -> ContainerPlan | None:
        if self._extra_environment:
            return None
        settings = {
            "fsync": "on" if self._durable else "off",
            "max_connections": "200",
            **self._config,
        }
        words = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        secret = {"POSTGRES_PASSWORD": self._password} if self._password is not None else {}
        trust = {} if secret else {"POSTGRES_HOST_AUTH_METHOD": "trust"}
        return ContainerPlan(
            port=5432, command=("postgres", *words), environment={**secret, **trust}
        )

    def _probe(self) -> str:
        try:
            return ask_ready(self.host, self.port, user=self.user, database=self.database)
        except NotReadyError as error:
            raise ServerFailedError(str(error)) from error

    def _own_url(self) -> str:
        return self.url_of(self.database)

    def _adopt(self, url: str) -> str:
        parts = urlsplit(url)
        self.host, self.port = parts.hostname or "localhost", parts.port or 5432
        self.user = unquote(parts.username or _SUPERUSER)
        self._password = unquote(parts.password) if parts.password else None
        self.database = unquote(parts.path.lstrip("/")) or self.user
        return self._probe()


def _beside(program: Program, name: str) -> list[str]:
    # The server finds its other files from where it lies, so a link from elsewhere is followed.
    return [*program.command[:-1], str(program.path.resolve().parent / name)]


postgres = PostgresServer
"""
Ask for a PostgreSQL server: the version wanted (`"15"`, `"18"`; none takes the newest here) and options.
"""
