"""
One connection, and what was found out about the server behind it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from anarchon.backend import PROTOCOL_VERSION
from anarchon.errors import ProtocolVersionError, ServerTooOldError, StoreRefusedError
from anarchon_postgres.driver import Connection, Prepared, Row
from anarchon_postgres.schema import SCHEMA_VERSION, migration_sql, quoted
from anarchon_postgres.trouble import WRONG_ISOLATION, sqlstate_of

__all__ = ["SERVER_MIN", "Session", "prepare", "versions_of"]

SERVER_MIN = 15
"""
The oldest major version of PostgreSQL that the tests and the conformance kit have passed on.
"""

_LOOK = """\
SELECT current_setting('server_version') AS version, current_setting('server_version_num')::int AS number,
    pg_backend_pid() AS pid, current_setting('server_encoding') AS encoding,
    current_setting('default_transaction_isolation') AS isolation,
    current_setting('transaction_read_only') = 'on' AS read_only, pg_is_in_recovery() AS standby"""


@dataclass(slots=True, kw_only=True)
class Session:
    """
    A connection that is ready for use, until its time is over.

    Args:
        connection: The driver's connection.

        place: The server in words.

        version: The server's version, as it says it.

        direct: Whether the server that greeted us is the one that answers. Behind a
            pooler that hands each transaction to any server connection it is not;
            nothing may be left on a connection there, prepared statements neither.

        wraps: Whether each statement needs a transaction around it that sets the
            isolation, since it cannot be set for good.
    """

    connection: Connection
    place: str
    version: str = ""
    direct: bool = False
    wraps: bool = False
    expired: bool = False
    deadline_s: float = 0.0
    prepared: dict[str, Prepared]

    async def fetch(self, query: str, *args: object) -> Sequence[Row]:
        """
        Run one statement, which is one transaction.
        """
        if not self.wraps:
            try:
                return await self._fetch(query, *args)
            except Exception as error:
                if sqlstate_of(error) != WRONG_ISOLATION:
                    raise
                self.wraps = True
        async with self.connection.transaction(isolation="read_committed"):
            return await self._fetch(query, *args)

    async def _fetch(self, query: str, *args: object) -> Sequence[Row]:
        if not self.direct:
            return await self.connection.fetch(query, *args)
        statement = self.prepared.get(query)
        if statement is None:
            name = f"anarchon_{len(self.prepared)}"
            statement = self.prepared[query] = await self.connection.prepare(query, name=name)
        return await statement.fetch(*args)

    def left_ms(self) -> int:
        """
        Tell how much of the call's time is left, in milliseconds; at least 1.
        """
        return max(1, int((self.deadline_s - asyncio.get_running_loop().time()) * 1_000))

    def expire(self) -> None:
        """
        End the connection because the call's time is over; whatever waits on it hears so.
        """
        self.expired = True
        self.connection.terminate()


async def prepare(session: Session, schema: str, *, first: bool, migrates: bool = True) -> None:
    """
    Look whether the server is one that can be used, and give it what it lacks.

    Args:
        session: The new connection.

        schema: Where the tables are.

        first: Whether the backend is being opened. One that is open goes on after a
            newer release has upgraded the tables: what it calls is left in place.

        migrates: Whether to make the tables that are missing.

    Raises:
        ServerTooOldError: With the version that was found, and the one that is needed.

        StoreRefusedError: The server takes no writes, or cannot keep every text.

        ProtocolVersionError: The tables are of a newer release or another protocol.
    """
    (found,) = await session.connection.fetch(_LOOK)
    session.version = found["version"].split()[0]
    session.direct = found["pid"] == session.connection.get_server_pid()
    if found["number"] < SERVER_MIN * 10_000:
        msg = f"{session.place} is version {session.version}; PostgreSQL {SERVER_MIN} or newer is needed"
        raise ServerTooOldError(msg)
    if found["encoding"] != "UTF8":
        msg = (
            f"{session.place}: the database's encoding is {found['encoding']}, which cannot keep every name;"
            " name a database that was created with ENCODING 'UTF8'"
        )
        raise StoreRefusedError(msg)
    if found["read_only"] or found["standby"]:
        why = (
            "is a standby"
            if found["standby"]
            else "takes no writes (default_transaction_read_only)"
        )
        msg = f"{session.place} {why}; name the primary, or several hosts with target_session_attrs=read-write"
        raise StoreRefusedError(msg)
    if found["isolation"] != "read committed":
        # A connection of our own keeps the setting; one that others share must not.
        if session.direct:
            await session.connection.execute(
                "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED"
            )
        else:
            session.wraps = True
    version, protocol = await versions_of(session, schema)
    if version < SCHEMA_VERSION and migrates:
        await session.connection.execute(migration_sql(schema))
        version, protocol = await versions_of(session, schema)
    if first:
        _check_versions(session, schema, version, protocol)


async def versions_of(session: Session, schema: str) -> tuple[int, int]:
    """
    Tell the version of the tables, 0 where there are none, and that of the protocol.
    """
    meta = f"{quoted(schema)}.meta"
    (there,) = await session.connection.fetch("SELECT to_regclass($1) IS NOT NULL AS there", meta)
    if not there["there"]:
        return 0, PROTOCOL_VERSION
    rows = await session.connection.fetch(f"SELECT key, value FROM {meta}")
    values = {row["key"]: int(row["value"]) for row in rows}
    return values.get("schema_version", 0), values.get("protocol_version", PROTOCOL_VERSION)


def _check_versions(session: Session, schema: str, version: int, protocol: int) -> None:
    """
    Refuse what a newer release has made.
    """
    if version > SCHEMA_VERSION:
        msg = (
            f"{session.place}: the tables of schema {schema!r} are of version {version}, written by a newer"
            f" anarchon-postgres; this one knows versions up to {SCHEMA_VERSION}"
        )
        raise ProtocolVersionError(msg)
    if protocol != PROTOCOL_VERSION:
        msg = (
            f"{session.place}: the tables of schema {schema!r} speak protocol {protocol};"
            f" this anarchon-postgres speaks {PROTOCOL_VERSION}"
        )
        raise ProtocolVersionError(msg)
