"""
Two PostgreSQL servers that belong together: a primary, and a standby that can be promoted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from anarchon_testbed.context import in_thread
from anarchon_testbed.errors import ServerFailedError
from anarchon_testbed.groups import ServerGroup, until
from anarchon_testbed.postgres_server import PostgresServer

__all__ = ["PostgresPair", "postgres_pair"]

_PROMOTE_S_MAX = 30


class _StandbyServer(PostgresServer):
    """
    A server that begins as a copy of another one, and streams what that one commits.
    """

    def __init__(
        self, primary: PostgresServer, *, version: str | None, config: Mapping[str, str]
    ) -> None:
        super().__init__(version=version, own=True, config=config)
        self._primary = primary

    def _prepare(self) -> None:
        primary = self._primary
        self._config["primary_conninfo"] = (
            f"host={primary.host} port={primary.port} user={primary.user} application_name=standby"
        )
        super()._prepare()

    def _fill(self, folder: Path) -> None:
        primary = self._primary
        words = ["--host", primary.host, "--port", str(primary.port), "--username", primary.user]
        words += ["--pgdata", str(folder), "--checkpoint=fast", "--wal-method=stream", "--no-sync"]
        # It leaves the file by which a server knows that it is a standby.
        self._run_beside("pg_basebackup", *words, "--write-recovery-conf", "--no-password")


class PostgresPair(ServerGroup):
    """
    A primary and a standby. With `synchronous` a commit is answered once the standby has it too, however long it takes.

    Attributes:
        primary: The server that takes writes now.

        standby: The one that follows; after a fail-over both are the same.
    """

    def __init__(
        self,
        version: str | None = None,
        *,
        synchronous: bool = True,
        config: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__()
        self._follows = "sync" if synchronous else "async"
        settings = dict(config or {})
        names = {"synchronous_standby_names": "standby"} if synchronous else {}
        self.primary = PostgresServer(version=version, own=True, config={**settings, **names})
        # It waits for nobody once it is promoted.
        self.standby = _StandbyServer(self.primary, version=version, config=settings)
        self.servers: list[PostgresServer] = [self.primary, self.standby]

    @property
    def url(self) -> str:
        """
        The URL with both servers, of which a client takes the one that takes writes.
        """
        hosts = ",".join(f"{server.host}:{server.port}" for server in self.servers)
        first = self.servers[0]
        return f"postgresql://{first.user}@{hosts}/{first.database}?target_session_attrs=read-write"

    async def fail_over(self) -> PostgresServer:
        """
        Kill the primary and promote the standby; gives that one, which takes writes then.

        Do not start the killed server again: it would believe that it still is the primary.
        """
        return await in_thread(self.fail_over_now)

    def fail_over_now(self) -> PostgresServer:
        """
        Fail over as `fail_over` does, blocking.
        """
        self.primary.kill_now()
        promoted = self.standby.ask(
            f"SELECT pg_promote(true, {_PROMOTE_S_MAX})", timeout_ms=_PROMOTE_S_MAX * 1000 + 5000
        )
        if promoted != [["t"]]:
            raise ServerFailedError(f"The standby on port {self.standby.port} was not promoted.")
        self.primary = self.standby
        return self.primary

    @property
    def _members(self) -> Sequence[PostgresServer]:
        return self.servers

    def _join(self, stack: ExitStack) -> None:  # noqa: ARG002 - nothing else is to be started
        query = "SELECT state, sync_state FROM pg_stat_replication"
        until(
            lambda: self.primary.ask(query) == [["streaming", self._follows]],
            what=f"the standby on port {self.standby.port} does not follow its primary",
        )


postgres_pair = PostgresPair
"""
Ask for a primary and a standby: the version wanted (`"15"`, `"18"`; none takes the newest here) and options.
"""
