"""
PgBouncer before a PostgreSQL server.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

from anarchon_testbed.errors import ServerFailedError
from anarchon_testbed.pgwire import NotReadyError, ask_ready
from anarchon_testbed.postgres_server import PostgresServer
from anarchon_testbed.server import Server

__all__ = ["PgBouncerServer", "pgbouncer"]


class PgBouncerServer(Server):
    """
    One PgBouncer that passes every database of `target` on, for the target's user and without a password.
    """

    kind = "pgbouncer"
    refuses_root = True

    def __init__(
        self,
        target: PostgresServer,
        *,
        pool_mode: str = "transaction",
        pool_size: int = 8,
        config: Mapping[str, str] | None = None,
        environment: dict[str, str] | None = None,
    ) -> None:
        super().__init__(version=None, own=True, environment=environment)
        self.target = target
        self._pool_mode = pool_mode
        self._pool_size = pool_size
        self._config = dict(config or {})

    def url_of(self, database: str) -> str:
        """
        Give the URL of a database of the target, through the bouncer.
        """
        user = quote(self.target.user, safe="")
        return f"postgresql://{user}@{self.host}:{self.port}/{quote(database, safe='')}"

    def _prepare(self) -> None:
        users = self.folder / "users.txt"
        users.write_text(f'"{self.target.user}" ""\n', encoding="utf-8")
        settings = {
            "listen_addr": self.host,
            "listen_port": str(self.port),
            "unix_socket_dir": "",
            "auth_type": "trust",
            "auth_file": str(users),
            "admin_users": self.target.user,
            "pool_mode": self._pool_mode,
            "default_pool_size": str(self._pool_size),
            "max_client_conn": "500",
            "server_login_retry": "1",
            **self._config,
        }
        lines = ["[databases]\n", f"* = host={self.target.host} port={self.target.port}\n"]
        lines += ["[pgbouncer]\n", *(f"{name} = {value}\n" for name, value in settings.items())]
        (self.folder / "pgbouncer.ini").write_text("".join(lines), encoding="utf-8")

    def _command(self) -> list[str]:
        assert self._program is not None
        return [*self._program.command, str(self.folder / "pgbouncer.ini")]

    def _probe(self) -> str:
        try:
            # The bouncer's own console answers whether or not the target does.
            ask_ready(self.host, self.port, user=self.target.user, database="pgbouncer")
        except NotReadyError as error:
            raise ServerFailedError(str(error)) from error
        return self.version

    def _own_url(self) -> str:
        return self.url_of(self.target.database)

    def _adopt(self, url: str) -> str:
        raise ServerFailedError(f"A PgBouncer is always started for its own target, not at {url}.")


pgbouncer = PgBouncerServer
"""
Ask for a PgBouncer before a PostgreSQL server that runs and asks for no password.
"""
