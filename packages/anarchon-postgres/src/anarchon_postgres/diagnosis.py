"""
Which settings and circumstances of a server endanger claims, and which jobs a schema knows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from anarchon.backend import RunView
from anarchon.operating import Finding, KnownJob, Severity
from anarchon_postgres.driver import Row
from anarchon_postgres.schema import NOW_SQL, SCHEMA_VERSION, quoted
from anarchon_postgres.session import Session, versions_of

__all__ = ["Facts", "ask_for_facts", "judge", "read_known_jobs"]

_FULL: Final = 0.9
_STATEMENT_TIMEOUT_MS_MIN: Final = 1_000

_SETTINGS = """\
SELECT name, setting FROM pg_settings WHERE name = ANY ($1::text[])"""

_NAMES: Final = (
    "autovacuum",
    "fsync",
    "full_page_writes",
    "max_connections",
    "statement_timeout",
    "synchronous_commit",
    "synchronous_standby_names",
)

_STATE = """\
SELECT (SELECT sum(numbackends) FROM pg_stat_database)::bigint AS connections,
    (SELECT count(*) FROM pg_stat_replication) AS standbys,
    ARRAY(SELECT relname::text FROM pg_class WHERE relnamespace = to_regnamespace($1) AND relkind = 'r'
        AND relpersistence = 'u' ORDER BY relname) AS unlogged"""

_JOBS = """\
SELECT job, high, since_ms, fingerprint, zone_digests, live_slot, live_attempt, live_instance_id,
    CASE WHEN live_token IS NULL THEN 0 ELSE greatest(0, live_lease_until_ms - {now}) END AS remaining_ms
FROM {schema}.jobs ORDER BY job"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """
    What a server says.

    Args:
        version: The server's version.

        schema: The schema that was looked at.

        schema_version: The version of its tables; 0 where there are none.

        settings: The server's settings, as they hold for our connection.

        connections: How many connections it has.

        standbys: How many standbys follow it.

        unlogged: The tables of the schema that a crash empties.

        hints: Whether notifications can arrive: not where a pooler hands our
            transactions to connections that others share.
    """

    version: str
    schema: str
    schema_version: int
    settings: Mapping[str, str]
    connections: int = 0
    standbys: int = 0
    unlogged: tuple[str, ...] = ()
    hints: bool = True


async def ask_for_facts(session: Session, schema: str, *, hints_elsewhere: bool) -> Facts:
    """
    Ask the server. *hints_elsewhere* says that hints come over a connection of their own.
    """
    version, _ = await versions_of(session, schema)
    settings = await session.fetch(_SETTINGS, list(_NAMES))
    (state,) = await session.fetch(_STATE, quoted(schema))
    return Facts(
        version=session.version,
        schema=schema,
        schema_version=version,
        settings={row["name"]: row["setting"] for row in settings},
        connections=state["connections"] or 0,
        standbys=state["standbys"],
        unlogged=tuple(state["unlogged"]),
        hints=session.direct or hints_elsewhere,
    )


async def read_known_jobs(session: Session, schema: str) -> list[KnownJob]:
    """
    Read every job, by name; none where there are no tables yet.
    """
    version, _ = await versions_of(session, schema)
    if not version:
        return []
    rows = await session.fetch(_JOBS.format(now=NOW_SQL, schema=quoted(schema)))
    return [_known_job(row) for row in rows]


def judge(facts: Facts) -> Iterator[Finding]:
    """
    Say what each fact means for claims.
    """
    yield Finding(check="server", severity=Severity.FINE, message=f"PostgreSQL {facts.version}.")
    yield _tables(facts)
    yield from _durability(facts)
    yield from _standbys(facts)
    yield from _connections(facts)
    yield from _obstacles(facts)


def _tables(facts: Facts) -> Finding:
    if facts.unlogged:
        return Finding(
            check="tables",
            severity=Severity.WARNING,
            message=f"Tables of schema {facts.schema!r} are unlogged ({', '.join(facts.unlogged)}): a crash of the"
            " server empties them, and slots may run again.",
            advice="ALTER TABLE … SET LOGGED for each of them.",
        )
    if facts.schema_version < SCHEMA_VERSION:
        there = "has no tables" if not facts.schema_version else "has tables of an older version"
        return Finding(
            check="tables",
            severity=Severity.NOTE,
            message=f"Schema {facts.schema!r} {there}.",
            advice="A scheduler makes them when it starts, if its user may create tables; `anarchon migrate --sql`"
            " prints the statements for somebody who may.",
        )
    return Finding(
        check="tables",
        severity=Severity.FINE,
        message=f"Schema {facts.schema!r} has tables of version {facts.schema_version}.",
    )


def _durability(facts: Facts) -> Iterator[Finding]:
    weak = []
    if facts.settings.get("fsync") == "off":
        weak.append(
            "fsync is off: when the machine fails, the database may be damaged, and claims forgotten"
        )
    if facts.settings.get("full_page_writes") == "off":
        weak.append("full_page_writes is off: when the machine fails, pages may be damaged")
    if facts.settings.get("synchronous_commit") == "off":
        weak.append(
            "synchronous_commit is off: a crash of the server forgets claims of the last second, and their slots may"
            " run again"
        )
    if weak:
        yield Finding(
            check="durability",
            severity=Severity.WARNING,
            message=f"{'; '.join(weak)}.",
            advice="Set them to on: in postgresql.conf, and look at ALTER ROLE and ALTER DATABASE … SET, which come"
            " before it.",
        )
    else:
        yield Finding(
            check="durability",
            severity=Severity.FINE,
            message="Claims are on the disk before they are answered"
            f" (fsync on, synchronous_commit {facts.settings.get('synchronous_commit')}).",
        )


def _standbys(facts: Facts) -> Iterator[Finding]:
    if facts.standbys and not facts.settings.get("synchronous_standby_names"):
        yield Finding(
            check="standbys",
            severity=Severity.NOTE,
            message=f"Standbys ({facts.standbys}) get claims a moment later: a fail-over may lose the last ones, and"
            " their slots may run again.",
            advice="synchronous_standby_names lets a claim wait until a standby has it.",
        )


def _connections(facts: Facts) -> Iterator[Finding]:
    most = int(facts.settings.get("max_connections", "0"))
    if most and facts.connections > _FULL * most:
        yield Finding(
            check="connections",
            severity=Severity.WARNING,
            message=f"{facts.connections} of {most} connections are in use; an instance that finds none cannot claim.",
            advice="Raise max_connections, or put a pooler between; a scheduler holds three connections.",
        )


def _obstacles(facts: Facts) -> Iterator[Finding]:
    timeout_ms = int(facts.settings.get("statement_timeout", "0"))
    if 0 < timeout_ms < _STATEMENT_TIMEOUT_MS_MIN:
        yield Finding(
            check="timeout",
            severity=Severity.WARNING,
            message=f"statement_timeout is {timeout_ms} ms: a claim that waits for a row is cut off, and asked again.",
            advice="Let it be 0 for this user, or at least some seconds; every call has a deadline of its own.",
        )
    if facts.settings.get("autovacuum") == "off":
        yield Finding(
            check="vacuum",
            severity=Severity.WARNING,
            message="autovacuum is off: each renewal leaves a dead row, and claims become slower and slower.",
            advice="Turn autovacuum on.",
        )
    if not facts.hints:
        yield Finding(
            check="hints",
            severity=Severity.NOTE,
            message="A pooler hands our transactions to connections that others share, where no notification"
            " arrives: a run that is handed over starts elsewhere at the next heartbeat, not at once.",
            advice="hints_dsn names the server's own address.",
        )


def _known_job(row: Row) -> KnownJob:
    run = None
    if row["live_slot"] is not None:
        run = RunView(
            slot=row["live_slot"],
            attempt=row["live_attempt"],
            remaining_ms=row["remaining_ms"],
            instance_id=row["live_instance_id"],
        )
    return KnownJob(
        job=row["job"],
        high=row["high"],
        since_ms=row["since_ms"],
        fingerprint=row["fingerprint"],
        zone_digests=row["zone_digests"],
        run=run,
    )
