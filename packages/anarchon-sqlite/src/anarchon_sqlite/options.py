"""
What a user writes to name a file: the path, the prefix, the URL.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any, Final, Literal, cast
from urllib.parse import unquote

from anarchon.errors import InvalidOptionError
from anarchon.records import Retention
from anarchon.registry import split_url, url_options

__all__ = [
    "DEFAULT_PREFIX",
    "Synchronous",
    "absolute_path",
    "check_prefix",
    "check_retention",
    "check_synchronous",
    "read_url",
]

Synchronous = Literal["full", "normal"]

DEFAULT_PREFIX: Final = "anarchon"

_PREFIX = re.compile(r"[a-z_][a-z0-9_]{0,30}")


def absolute_path(path: str | os.PathLike[str]) -> str:
    """
    Fix the file's place now, so that a later change of directory does not move it.

    Raises:
        InvalidOptionError: The path names no file that two processes can share.
    """
    given: object = os.fspath(path) if isinstance(path, os.PathLike) else path
    if not isinstance(given, str):
        msg = f"the path of the SQLite file must be a str or a path, not {given!r}"
        raise InvalidOptionError(msg)
    if given in ("", ":memory:"):
        msg = (
            f"{given!r} is a database of one connection alone, and every instance needs its own connection;"
            " for one process, use the memory backend: the URL is 'memory:'"
        )
        raise InvalidOptionError(msg)
    if given.startswith("file:"):
        msg = f"{given!r} is an SQLite URI; give the plain path of the file"
        raise InvalidOptionError(msg)
    if "\x00" in given:
        msg = f"the path {given!r} contains NUL, which no file name can"
        raise InvalidOptionError(msg)
    return os.path.abspath(given)  # noqa: PTH100 - resolve() would follow links, and the file may not exist yet


def check_prefix(prefix: str) -> str:
    """
    Refuse a prefix that could meet another one.

    Raises:
        InvalidOptionError: SQLite compares the names of tables without regard to
            case, so "Jobs" and "jobs" would be one; "sqlite_" is its own.
    """
    text: object = prefix  # callers without a type checker hand in anything
    if not isinstance(text, str) or _PREFIX.fullmatch(text) is None or text.startswith("sqlite"):
        msg = (
            f"prefix must be 1 to 31 lower-case ASCII letters, digits and underscores, without a digit in front and"
            f" without 'sqlite' in front (SQLite ignores the case of a table's name), not {prefix!r}"
        )
        raise InvalidOptionError(msg)
    return prefix


def check_synchronous(text: str) -> Synchronous:
    """
    Read how hard a commit is pushed to the disk.

    Raises:
        InvalidOptionError: It is neither "full" nor "normal".
    """
    if text not in ("full", "normal"):
        msg = f"synchronous must be 'full' or 'normal', not {text!r}"
        raise InvalidOptionError(msg)
    return cast("Synchronous", text)


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
    Read ``sqlite:///relative.db`` or ``sqlite:////absolute.db`` and its parameters.

    Returns:
        The path, and the constructor's keyword arguments.

    Raises:
        InvalidOptionError: The URL names a host or no file, or has a parameter
            that is unknown or unreadable.
    """
    readers: dict[str, Callable[[str], Any]] = {
        "prefix": check_prefix,
        "synchronous": check_synchronous,
        "retention_age_ms": _age_ms,
        "retention_records_per_job": _positive,
    }
    options = url_options(url, readers)
    parts = split_url(url)
    if parts.netloc or parts.fragment or not parts.path.startswith("/"):
        msg = (
            f"backend URL {url!r} names no file: write sqlite:///relative/jobs.db (three slashes) or"
            " sqlite:////absolute/jobs.db (four); a '?' or '#' in a file's name is written %3F or %23"
        )
        raise InvalidOptionError(msg)
    retention = Retention(
        age_ms=options.pop("retention_age_ms", Retention().age_ms),
        records_per_job=options.pop("retention_records_per_job", Retention().records_per_job),
    )
    return unquote(parts.path[1:]), {**options, "retention": retention}


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        msg = f"it must be at least 1, not {number}"
        raise ValueError(msg)
    return number


def _age_ms(text: str) -> int | None:
    return None if text == "none" else _positive(text)
