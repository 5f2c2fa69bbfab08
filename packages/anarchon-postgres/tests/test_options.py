"""
What may be written to name a server, and what each mistake is told.
"""

from __future__ import annotations

from typing import Any

import pytest

from anarchon import backend_from_url
from anarchon.errors import InvalidOptionError
from anarchon.records import Retention
from anarchon_postgres import PostgresBackend, migration_sql


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, "needs a DSN such as postgresql://user@host/database, or a connect function"),
        ({"dsn": 5}, "dsn must be a text"),
        ({"dsn": "host=db dbname=x"}, "dsn must begin with postgresql://"),
        ({"dsn": "mysql://x"}, "dsn must begin with postgresql://"),
        ({"dsn": "postgresql://h/d", "schema": "Mixed"}, "lower-case ASCII letters"),
        ({"dsn": "postgresql://h/d", "schema": 'a"; drop'}, "lower-case ASCII letters"),
        ({"dsn": "postgresql://h/d", "schema": "pg_own"}, "'pg_' in front"),
        ({"dsn": "postgresql://h/d", "schema": "x" * 49}, "1 to 48"),
        ({"dsn": "postgresql://h/d", "connect": object()}, "a pool belongs to one event loop"),
        ({"dsn": "postgresql://h/d", "hints_dsn": "h:5432"}, "hints_dsn must begin with"),
        ({"dsn": "postgresql://h/d", "retention": Retention(age_ms=0)}, "for at least 1 ms"),
        ({"dsn": "postgresql://h/d", "retention": Retention(records_per_job=0)}, "at least one"),
    ],
)
def test_a_wrong_option_is_told_at_once(options: dict[str, Any], told: str) -> None:
    """
    The constructor refuses what cannot be meant, and says what is allowed.
    """
    with pytest.raises(InvalidOptionError, match=told):
        PostgresBackend(**options)


def test_a_refusal_shows_no_password() -> None:
    """
    A DSN is never shown: it holds a password.
    """
    with pytest.raises(InvalidOptionError) as caught:
        PostgresBackend("postgres+driver://me:secret@h/d")

    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("scheme", ["postgresql", "postgres"])
def test_a_url_names_everything(scheme: str) -> None:
    """
    Our options and the driver's stand side by side; neither password nor user is shown.
    """
    backend = backend_from_url(
        f"{scheme}://me:secret@db-1:5433,db-2:5434/app?schema=jobs&target_session_attrs=read-write"
        "&retention_age_ms=none&retention_records_per_job=7&hints_dsn=postgresql%3A%2F%2Fdb-3%2Fapp"
    )

    assert isinstance(backend, PostgresBackend)
    assert "PostgreSQL at db-1:5433,db-2:5434/app, schema jobs" == backend.service
    assert backend._dsn == (
        f"{scheme}://me:secret@db-1:5433,db-2:5434/app?target_session_attrs=read-write"
    )
    assert "postgresql://db-3/app" == backend._hints_dsn
    assert Retention(age_ms=None, records_per_job=7) == backend._retention


@pytest.mark.parametrize("place", ["/app?host=%2Frun%2Fpg", "[::1]:1,db,[::2]:2/app", "/app", ""])
def test_a_url_reaches_the_driver_as_it_stands(place: str) -> None:
    """
    A server on a Unix socket is named by the query, and several hosts may be IPv6 addresses.
    """
    backend = backend_from_url(f"postgresql://{place}")

    assert isinstance(backend, PostgresBackend)
    assert f"postgresql://{place}" == backend._dsn


@pytest.mark.parametrize(
    ("query", "told"),
    [
        ("shema=jobs", "unknown parameter 'shema'"),
        ("retention_records_per_job=0", "at least 1"),
        ("retention_age_ms=soon", "cannot be 'soon'"),
        ("schema=Jobs", "lower-case"),
        ("schema=a&schema=b", "given twice"),
    ],
)
def test_a_wrong_parameter_is_told(query: str, told: str) -> None:
    """
    The server would take an unknown parameter for a setting of its own; it is refused before.
    """
    with pytest.raises(InvalidOptionError, match=told) as caught:
        backend_from_url(f"postgresql://me:secret@h/d?{query}")

    assert "secret" not in str(caught.value)


def test_migration_sql_names_the_schema_and_the_role() -> None:
    """
    The script is for one schema, quoted, and grants what a backend needs to a role.
    """
    sql = migration_sql("jobs", grant_to='the "app"')

    assert 'CREATE TABLE "jobs".runs' in sql
    assert 'TO "the ""app""";' in sql
    assert "{" not in sql
    assert "GRANT" not in migration_sql("jobs")
    with pytest.raises(InvalidOptionError):
        migration_sql("Jobs")
