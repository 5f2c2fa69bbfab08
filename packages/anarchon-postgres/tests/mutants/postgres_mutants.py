"""
Backends whose functions in the server have one fault each.

A module of its own, so that the processes which the kit starts find them by name.
"""

from __future__ import annotations

from typing import ClassVar

from anarchon_conformance.profile import BackendProfile
from anarchon_postgres import PostgresBackend, migration_sql
from anarchon_postgres.conformance import opener_for
from anarchon_postgres.driver import connect
from anarchon_postgres.schema import channel_of, quoted, statement_sql

# The own rows of an update, as each function finds them.
_OWN = "AND t.live_attempt = p_attempt[i]\n                AND t.live_token = p_token[i]"

FAULTS: dict[str, list[tuple[str, str]]] = {
    "sound": [],
    # Whoever finishes, renews or releases with any token is believed.
    "no_token": [(_OWN, "AND t.live_attempt = p_attempt[i]")],
    # A claim that is repeated is not known by its token.
    "no_repeat": [("AND j.live_token = v_token THEN", "AND false THEN")],
    # Whoever claims an expired run wins it, whatever attempt they had in mind.
    "no_attempt": [
        ("IF v_attempt <> j.live_attempt + 1 OR NOT (", "IF NOT ("),
        ("t.live_attempt + 1 = $3::bigint", "true"),
    ],
    # The newest slot is forgotten once nothing is live.
    "no_high": [
        ("AND (t.high < v_slot OR t.high IS NULL)", ""),
        ("ELSIF v_slot < j.high THEN", "ELSIF v_slot < j.live_slot THEN"),
        ("ELSIF v_slot = j.high THEN", "ELSIF v_slot = j.live_slot THEN"),
    ],
    # The check and the write are two steps, without a lock between.
    "split": [
        (
            "SELECT * INTO j FROM {schema}.jobs t WHERE t.job = v_job FOR NO KEY UPDATE;",
            "SELECT * INTO j FROM {schema}.jobs t WHERE t.job = v_job; PERFORM pg_sleep(0.003);",
        ),
        ("WHERE t.job = v_job AND t.live_slot IS NULL AND (", "WHERE false AND ("),
    ],
    # A claim that its sender has given up is granted when it arrives.
    "no_not_after": [
        ("now_ms > p_not_after_ms[i]", "false"),
        ("now_ms <= p_not_after_ms[i]", "true"),
    ],
    # A release leaves the token in place.
    "kept_token": [("SET live_token = NULL, live_lease_until_ms", "SET live_lease_until_ms")],
    # Pruning takes what is running as well.
    "prunes_running": [(" AND r.status <> 'running'", "")],
    # The look without a lock answers what is not its to answer: a repeat, a takeover, a skip that is told again.
    "looks_past_token": [
        (
            "OR NOT (t.live_attempt = $3::bigint AND t.live_token IS NOT DISTINCT FROM $4::text)",
            "OR true",
        )
    ],
    "looks_past_lease": [("OR t.live_lease_until_ms <= n.now_ms", "")],
    "looks_past_skip": [("AND t.skip_slot IS DISTINCT FROM $2::bigint", "")],
    # Nobody is told of a finish.
    "mute": [("PERFORM pg_notify('{channel}', p_job[i]);", "")],
}


def spoiled(schema: str, fault: str) -> tuple[str, str]:
    """
    Write the migration and the look with a fault in them; each of the fault's edits must find what it changes.
    """
    sql, look = migration_sql(schema), statement_sql("look", schema)
    names = {"{schema}": quoted(schema), "{channel}": channel_of(schema)}
    for edit in FAULTS[fault]:
        old, new = edit
        for name, word in names.items():
            old, new = old.replace(name, word), new.replace(name, word)
        assert old in sql or old in look, f"{fault}: {old!r} is in no function and not in the look"
        sql, look = sql.replace(old, new), look.replace(old, new)
    return sql, look


class Mutant(PostgresBackend):
    """
    A backend that makes its tables with a fault in the functions.
    """

    fault: ClassVar[str] = "sound"

    async def open(self, *, timeout_ms: int) -> None:
        """
        Make the schema with the fault before the sound code would make it, then open.
        """
        sql, look = spoiled(self._schema, self.fault)
        self._batch._statements["look"] = look
        connection = await connect(self._dsn, timeout=20, statement_cache_size=0)
        try:
            await connection.execute(sql)
        finally:
            await connection.close(timeout=5)
        await super().open(timeout_ms=timeout_ms)


def _profile(fault: str) -> BackendProfile:
    kind = type(fault, (Mutant,), {"fault": fault})
    return BackendProfile(name=fault.replace("_", "-"), open=opener_for(kind))


sound = _profile("sound")
no_token = _profile("no_token")
no_repeat = _profile("no_repeat")
no_attempt = _profile("no_attempt")
no_high = _profile("no_high")
split = _profile("split")
no_not_after = _profile("no_not_after")
kept_token = _profile("kept_token")
prunes_running = _profile("prunes_running")
looks_past_token = _profile("looks_past_token")
looks_past_lease = _profile("looks_past_lease")
looks_past_skip = _profile("looks_past_skip")
mute = _profile("mute")
