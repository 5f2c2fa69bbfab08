"""
Paths, prefixes and URLs: what is understood, and what is refused with a way out.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from anarchon import registry
from anarchon.errors import InvalidOptionError
from anarchon.records import Retention
from anarchon_sqlite import SqliteBackend


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:////var/lib/jobs.db", "/var/lib/jobs.db"),
        ("sqlite:////a%20b/%3F%23.db", "/a b/?#.db"),
        ("SQLITE:////jobs.db", "/jobs.db"),
    ],
)
def test_four_slashes_are_absolute(url: str, path: str) -> None:
    """
    A path after four slashes begins at the root.
    """
    assert f" {path}," in SqliteBackend.from_url(url).service


def test_three_slashes_are_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A path after three slashes begins where the process stands.
    """
    monkeypatch.chdir(tmp_path)

    assert f" {tmp_path}/data/jobs.db," in SqliteBackend.from_url("sqlite:///data/jobs.db").service


def test_the_scheme_is_registered() -> None:
    """
    The core finds the backend by the scheme of a URL.
    """
    backend = registry.backend_from_url("sqlite:////jobs.db?prefix=mine&synchronous=normal")

    assert isinstance(backend, SqliteBackend)
    assert "prefix mine, synchronous normal" in backend.service


def test_retention_is_a_parameter() -> None:
    """
    Each number of the retention has its own parameter; "none" keeps records of any age.
    """
    both = SqliteBackend.from_url(
        "sqlite:////jobs.db?retention_age_ms=1000&retention_records_per_job=7"
    )
    ageless = SqliteBackend.from_url("sqlite:////jobs.db?retention_age_ms=none").clone()

    assert Retention(age_ms=1_000, records_per_job=7) == both._retention
    assert Retention(age_ms=None) == ageless._retention


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("sqlite://jobs.db", "names no file: write sqlite:///relative"),
        ("sqlite:jobs.db", "names no file"),
        ("sqlite:///jobs.db#here", "%3F or %23"),
        ("sqlite:///", "'' is a database of one connection alone"),
        ("sqlite:///:memory:", "use the memory backend: the URL is 'memory:'"),
        (
            "sqlite:///jobs.db?prefx=a",
            "unknown parameter 'prefx'; allowed: prefix, retention_age_ms",
        ),
        ("sqlite:///jobs.db?prefix=a&prefix=b", "given twice"),
        ("sqlite:///jobs.db?synchronous=off", "must be 'full' or 'normal', not 'off'"),
        ("sqlite:///jobs.db?retention_age_ms=0", "at least 1"),
        ("sqlite:///jobs.db?retention_records_per_job=many", "cannot be 'many'"),
    ],
)
def test_a_url_that_cannot_be_meant_is_refused(url: str, message: str) -> None:
    """
    The message names the URL's fault, and what is allowed.
    """
    with pytest.raises(InvalidOptionError, match=message):
        SqliteBackend.from_url(url)


@pytest.mark.parametrize(
    "path", ["", ":memory:", "file:jobs.db?mode=ro", "a\x00b", b"jobs.db", 7, None]
)
def test_a_path_that_is_no_file_is_refused(path: Any) -> None:
    """
    What two processes could not share is refused by the constructor.
    """
    with pytest.raises(InvalidOptionError):
        SqliteBackend(path)


@pytest.mark.parametrize(
    "prefix", ["", "9a", "a-b", "Jobs", "a" * 32, "sqlite", "sqlite_a", "ä", "a\n", None]
)
def test_a_prefix_that_could_meet_another_is_refused(prefix: Any) -> None:
    """
    SQLite ignores the case of a table's name, so a prefix has none.
    """
    with pytest.raises(InvalidOptionError, match="prefix must be 1 to 31 lower-case"):
        SqliteBackend("jobs.db", prefix=prefix)


@pytest.mark.parametrize("prefix", ["a", "_", "a9_b", "a" * 31])
def test_a_plain_prefix_is_taken(prefix: str) -> None:
    """
    Letters, digits and underscores serve.
    """
    assert f"prefix {prefix}," in SqliteBackend("jobs.db", prefix=prefix).service


@pytest.mark.parametrize("retention", [Retention(records_per_job=0), Retention(age_ms=0)])
def test_a_retention_of_nothing_is_refused(retention: Retention) -> None:
    """
    A record has to last until somebody can ask for it.
    """
    with pytest.raises(InvalidOptionError, match="at least one record"):
        SqliteBackend("jobs.db", retention=retention)
