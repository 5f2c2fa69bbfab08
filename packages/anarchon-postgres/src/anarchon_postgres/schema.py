"""
The tables and functions, and how a database comes to have them: versioned steps under a lock.
"""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Final

from anarchon.backend import PROTOCOL_VERSION
from anarchon.errors import InvalidOptionError

__all__ = [
    "DEFAULT_SCHEMA",
    "NOW_SQL",
    "SCHEMA_VERSION",
    "channel_of",
    "check_schema",
    "migration_sql",
    "quoted",
    "statement_sql",
]

DEFAULT_SCHEMA: Final = "anarchon"

# Step n leads from version n to version n + 1. A step that a release has carried is never edited: a later one adds
# functions of a new name, so that instances of the older release go on while the fleet is renewed.
_STEPS: Final = (("tables", "guard", "claim", "closing", "register"), ("single",))

SCHEMA_VERSION: Final = len(_STEPS)
"""
The version of the tables and functions that this code calls.
"""

NOW_SQL: Final = "floor(date_part('epoch', clock_timestamp()) * 1000)::bigint"
"""
The server's wall clock in milliseconds since 1970, as every function reads it.
"""

_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,47}")

_FRAME = """\
BEGIN ISOLATION LEVEL READ COMMITTED;
-- Many instances may do this at once: the first one does, the others then find it done.
SELECT pg_advisory_xact_lock(hashtextextended('anarchon {name}', 0));
DO $migrate$
DECLARE
    v_version integer;
BEGIN
    IF to_regnamespace('{schema}') IS NULL THEN
        CREATE SCHEMA {schema};
    END IF;
    IF to_regclass('{schema}.meta') IS NULL THEN
        CREATE TABLE {schema}.meta (key text PRIMARY KEY, value bigint NOT NULL);
    END IF;
    SELECT value INTO v_version FROM {schema}.meta WHERE key = 'schema_version';
    v_version := coalesce(v_version, 0);
{steps}
END
$migrate$;
{grants}COMMIT;
"""

_STEP = """\
    IF v_version = {number} THEN
        EXECUTE $step$
{body}
        $step$;
        v_version := {next};
        INSERT INTO {schema}.meta VALUES ('schema_version', v_version), ('protocol_version', {protocol})
            ON CONFLICT (key) DO UPDATE SET value = excluded.value;
    END IF;"""

# What stands in several functions, written out in each: a call of one function by another costs as much as an index
# scan. Beginning a batch refuses a wrong isolation, and bounds the waits for locks. That setting ends with the
# transaction, so that nothing of it is left on a connection that others share.
_WORDS: Final = {
    "now": NOW_SQL,
    "begin": """\
IF current_setting('transaction_isolation') <> 'read committed'
        OR set_config('lock_timeout', p_lock_ms::text, true) IS NULL THEN
        PERFORM {schema}.refuse_v1();
    END IF;""",
}

_GRANTS = """\
GRANT USAGE ON SCHEMA {schema} TO {role};
GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {schema} TO {role};
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA {schema} TO {role};
"""


def check_schema(schema: str) -> str:
    """
    Refuse a schema's name that would need quoting, or leaves no room for the hints' channel.

    Raises:
        InvalidOptionError: With what is allowed.
    """
    text: object = schema  # callers without a type checker hand in anything
    if not isinstance(text, str) or _SCHEMA.fullmatch(text) is None or text.startswith("pg_"):
        msg = (
            "schema must be 1 to 48 lower-case ASCII letters, digits and underscores, without a digit or 'pg_' in"
            f" front, not {schema!r}"
        )
        raise InvalidOptionError(msg)
    return schema


def quoted(name: str) -> str:
    """
    Quote an identifier: a schema may be called like a keyword.
    """
    return '"' + name.replace('"', '""') + '"'


def channel_of(schema: str) -> str:
    """
    Name the channel on which changes of a schema's runs are told.
    """
    return f"anarchon:{schema}"


def migration_sql(schema: str = DEFAULT_SCHEMA, *, grant_to: str | None = None) -> str:
    """
    Return the SQL that makes or upgrades the tables, for somebody who may create them.

    It is one transaction, may be run again at any time, and changes nothing where
    there is nothing to do. A backend whose user may create tables runs it by itself.

    Args:
        schema: The schema that the backends are given.

        grant_to: A role that gets the rights which a backend needs.

    Raises:
        InvalidOptionError: The schema's name is not allowed.
    """
    name = quoted(check_schema(schema))
    steps = "\n".join(
        _STEP.format(
            number=number,
            next=number + 1,
            schema=name,
            protocol=PROTOCOL_VERSION,
            body="\n".join(_read(part, schema) for part in parts),
        )
        for number, parts in enumerate(_STEPS)
    )
    grants = "" if grant_to is None else _GRANTS.format(schema=name, role=quoted(grant_to))
    return _FRAME.format(name=schema, schema=name, steps=steps, grants=grants)


def statement_sql(part: str, schema: str) -> str:
    """
    Return a statement that is kept beside the functions, without its comments: some servers read it at each call.
    """
    lines = _read(part, schema).splitlines()
    return "\n".join(line for line in lines if not line.startswith("--"))


def _read(part: str, schema: str) -> str:
    text = files("anarchon_postgres").joinpath("sql", f"{part}.sql").read_text("utf-8")
    for name, words in _WORDS.items():
        text = text.replace(f"{{{name}}}", words)
    return text.replace("{schema}", quoted(schema)).replace("{channel}", channel_of(schema))
