"""
What a user writes to name a server: the DSN, the options, the URL.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote, urlencode

from anarchon.errors import InvalidOptionError
from anarchon.records import Retention
from anarchon.registry import split_url, url_options
from anarchon_postgres.schema import check_schema

__all__ = ["check_dsn", "check_retention", "place_of", "read_url"]

_SCHEMES = ("postgresql", "postgres")

# What asyncpg reads from a DSN. It hands everything else to the server as a setting, which an option written wrongly
# would become; the one setting that is common in a DSN is let through.
_DRIVERS_OWN = (
    "application_name",
    "database",
    "dbname",
    "gsslib",
    "host",
    "krbsrvname",
    "passfile",
    "password",
    "port",
    "service",
    "servicefile",
    "ssl_max_protocol_version",
    "ssl_min_protocol_version",
    "sslcert",
    "sslcrl",
    "sslkey",
    "sslmode",
    "sslnegotiation",
    "sslpassword",
    "sslrootcert",
    "target_session_attrs",
    "user",
)


def check_dsn(name: str, dsn: str) -> str:
    """
    Refuse what is no DSN of PostgreSQL. The password is never shown.

    Raises:
        InvalidOptionError: It is not.
    """
    text: object = dsn  # callers without a type checker hand in anything
    if not isinstance(text, str):
        msg = f"{name} must be a text such as postgresql://user@host/database, not {dsn!r}"
        raise InvalidOptionError(msg)
    scheme = text.partition(":")[0]
    if scheme not in _SCHEMES or not text.startswith(f"{scheme}://"):
        msg = f"{name} must begin with postgresql:// or postgres://, as in postgresql://user@host/database"
        raise InvalidOptionError(msg)
    return text


def place_of(dsn: str | None) -> str:
    """
    Say in words where the server is, without user and password.
    """
    if dsn is None:
        return "PostgreSQL"
    parts = split_url(dsn)
    host = parts.netloc.rpartition("@")[2] or "the default address"
    return f"PostgreSQL at {host}{parts.path}"


def check_retention(retention: Retention) -> Retention:
    """
    Refuse a retention that would forget a record before anybody can ask for it.

    Raises:
        InvalidOptionError: One of its numbers is not positive.
    """
    if retention.records_per_job < 1 or (retention.age_ms is not None and retention.age_ms < 1):
        msg = f"retention must keep at least one record a job, for at least 1 ms, not {retention}"
        raise InvalidOptionError(msg)
    return retention


def read_url(url: str) -> tuple[str, dict[str, Any]]:
    """
    Part a backend URL into the driver's DSN and our options.

    Returns:
        The DSN, and the constructor's keyword arguments.

    Raises:
        InvalidOptionError: A parameter is unknown or unreadable.
    """
    ours: dict[str, Callable[[str], Any]] = {
        "schema": check_schema,
        "hints_dsn": lambda text: check_dsn("hints_dsn", text),
        "retention_age_ms": _age_ms,
        "retention_records_per_job": _positive,
    }
    check_dsn("the backend URL", url)
    options = url_options(url, {**ours, **dict.fromkeys(_DRIVERS_OWN, str)})
    kept = {name: value for name, value in options.items() if name not in ours}
    options = {name: value for name, value in options.items() if name in ours}
    retention = Retention(
        age_ms=options.pop("retention_age_ms", Retention().age_ms),
        records_per_job=options.pop("retention_records_per_job", Retention().records_per_job),
    )
    parts = split_url(url)
    # geturl() leaves the slashes out where no host follows: the server is on a Unix socket then.
    dsn = f"{parts.scheme}://{parts.netloc}{parts.path}"
    if kept:
        dsn += f"?{urlencode(kept, quote_via=quote)}"
    return dsn, {**options, "retention": retention}


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        msg = f"it must be at least 1, not {number}"
        raise ValueError(msg)
    return number


def _age_ms(text: str) -> int | None:
    return None if text == "none" else _positive(text)
