"""
What a user writes to set a backend up, checked before anything is opened.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args
from urllib.parse import urlunsplit

from anarchon.errors import InvalidOptionError
from anarchon.records import Retention
from anarchon.registry import split_url, url_options

__all__ = ["DEFAULT_PREFIX", "IDMP_GRACE_MS", "Options", "Strategy", "read_url"]

Strategy = Literal["lease", "stream-id", "idmp", "script"]

DEFAULT_PREFIX: Final = "anarchon"

IDMP_GRACE_MS: Final = 60_000
"""
How much longer the server remembers an id than a slot is granted, in milliseconds.
"""

_IDMP_MEMORY_MS_MAX: Final = 86_400_000 - IDMP_GRACE_MS
_DURATION_MS_MAX: Final = 10**13
_PREFIX = re.compile(r"[A-Za-z0-9_.:/-]{1,64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """
    All options but the address.

    Args:
        strategy: How a claim is made; "lease" alone keeps leases.

        prefix: The front of every key. Services that share a server use different ones.

        retention: How long records are kept.

        claim_memory_ms: How long a claim is remembered by the strategies that keep no
            leases; a slot that is older is refused. In milliseconds.

        wait_replicas: How many replicas must have a claim before it counts.

        wait_timeout_ms: How long to wait for them, in milliseconds.

        cluster: The server is a node of a Redis Cluster.

        sentinel: The hosts are Sentinels; this is the name of the service they watch.

        sentinel_username, sentinel_password: The login at the Sentinels.

        ca_file, certificate_file, key_file, verify: TLS: whom to trust, who to be, and
            whether to look at the server's certificate at all.

    Raises:
        InvalidOptionError: One of them cannot be meant.
    """

    strategy: Strategy = "lease"
    prefix: str = DEFAULT_PREFIX
    retention: Retention = field(default_factory=Retention)
    claim_memory_ms: int = 3_600_000
    wait_replicas: int | None = None
    wait_timeout_ms: int = 500
    cluster: bool = False
    sentinel: str | None = None
    sentinel_username: str | None = None
    sentinel_password: str | None = field(default=None, repr=False)
    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    verify: bool = True

    def __post_init__(self) -> None:
        _check_strategy(self.strategy)
        _check_prefix(self.prefix)
        _check_integer("retention.records_per_job", self.retention.records_per_job, 1, 10**9)
        if self.retention.age_ms is not None:
            _check_integer("retention.age_ms", self.retention.age_ms, 1, _DURATION_MS_MAX)
        _check_memory(self.strategy, self.claim_memory_ms)
        if self.wait_replicas is not None:
            _check_integer("wait_replicas", self.wait_replicas, 1, 100)
        _check_integer("wait_timeout_ms", self.wait_timeout_ms, 1, 60_000)
        if self.cluster and (self.sentinel is not None or self.wait_replicas is not None):
            msg = (
                "cluster goes together neither with sentinel (a Cluster fails over by itself) nor with"
                " wait_replicas (WAIT counts the replicas of one node alone)"
            )
            raise InvalidOptionError(msg)
        if (self.certificate_file is None) is not (self.key_file is None):
            msg = "certificate_file and key_file are given together"
            raise InvalidOptionError(msg)

    @property
    def leases(self) -> bool:
        """
        Whether the strategy keeps leases.
        """
        return self.strategy == "lease"


def read_url(url: str) -> tuple[str, dict[str, Any]]:
    """
    Take the parameters off a backend URL.

    Returns:
        The URL without them, and the constructor's keyword arguments.

    Raises:
        InvalidOptionError: A parameter is unknown or unreadable.
    """
    readers: dict[str, Callable[[str], Any]] = {
        **dict.fromkeys(("strategy", "prefix", "sentinel", "ca_file"), str),
        **dict.fromkeys(("sentinel_username", "sentinel_password"), str),
        **dict.fromkeys(("certificate_file", "key_file"), str),
        **dict.fromkeys(("claim_memory_ms", "wait_replicas", "wait_timeout_ms", "db"), int),
        **dict.fromkeys(("cluster", "verify"), _switch),
        "retention_age_ms": lambda text: None if text == "none" else int(text),
        "retention_records_per_job": int,
    }
    options = url_options(url, readers)
    if {"retention_age_ms", "retention_records_per_job"} & options.keys():
        usual = Retention()
        options["retention"] = Retention(
            age_ms=options.pop("retention_age_ms", usual.age_ms),
            records_per_job=options.pop("retention_records_per_job", usual.records_per_job),
        )
    parts = split_url(url)
    return urlunsplit(parts._replace(query="")), options


def _switch(text: str) -> bool:
    if text not in ("true", "false"):
        msg = "it must be true or false"
        raise ValueError(msg)
    return text == "true"


def _check_strategy(strategy: object) -> None:
    allowed = get_args(Strategy)
    if strategy not in allowed:
        names = ", ".join(repr(each) for each in allowed)
        msg = f"strategy must be one of {names}, not {strategy!r}"
        raise InvalidOptionError(msg)


def _check_prefix(prefix: object) -> None:
    if not isinstance(prefix, str) or _PREFIX.fullmatch(prefix) is None:
        msg = (
            "prefix must be 1 to 64 ASCII letters, digits and '_.:/-' (a brace would change where Cluster"
            f" keeps the keys), not {prefix!r}"
        )
        raise InvalidOptionError(msg)


def _check_memory(strategy: Strategy, memory_ms: int) -> None:
    most = _IDMP_MEMORY_MS_MAX if strategy == "idmp" else _DURATION_MS_MAX
    _check_integer("claim_memory_ms", memory_ms, 1_000, most)


def _check_integer(name: str, value: object, least: int, most: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        msg = f"{name} must be an integer from {least} to {most}, not {value!r}"
        raise InvalidOptionError(msg)
