"""
What a user writes to set a backend up, checked before anything is opened.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlunsplit

from anarchon.errors import InvalidOptionError
from anarchon.records import Retention
from anarchon.registry import split_url, url_options

__all__ = ["CLOCK_GRACE_MS", "DEFAULT_MEMORY_MS", "DEFAULT_PREFIX", "Options", "read_url"]

DEFAULT_PREFIX: Final = "anarchon"

DEFAULT_MEMORY_MS: Final = 7_200_000
"""
For how long a claim is remembered, unless somebody says otherwise: two hours.
"""

CLOCK_GRACE_MS: Final = 900_000
"""
For how much longer a claim stays than a slot is granted, so that the clocks of a cluster's nodes may differ.
"""

_DURATION_MS_MAX: Final = 10**13
_PREFIX = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
_PREFIX_CHARACTERS_MAX: Final = 64
_DOMAIN = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """
    All options but the servers.

    Args:
        prefix: The front of every subject. Services that share a server use different ones.

        retention: How long records are kept.

        claim_memory_ms: For how long a claim is remembered; a slot that is older is refused.

        replicas: How many nodes of a cluster keep everything; None takes what is there.

        max_age_ms: The stream's own limit: the server drops what is older, whatever it is.

        domain: The JetStream domain, where the server is a leaf node.

        credentials_file: A file with a user's JWT and seed.

        nkey_file: A file with an nkey's seed.

        ca_file, certificate_file, key_file, verify: TLS: whom to trust, who to be, and
            whether to look at the server's certificate at all.

    Raises:
        InvalidOptionError: One of them cannot be meant.
    """

    prefix: str = DEFAULT_PREFIX
    retention: Retention = field(default_factory=Retention)
    claim_memory_ms: int = DEFAULT_MEMORY_MS
    replicas: int | None = None
    max_age_ms: int | None = None
    domain: str | None = None
    credentials_file: str | None = None
    nkey_file: str | None = None
    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    verify: bool = True

    def __post_init__(self) -> None:
        _check_prefix(self.prefix)
        _check_integer("retention.records_per_job", self.retention.records_per_job, 1, 10**9)
        if self.retention.age_ms is not None:
            _check_integer("retention.age_ms", self.retention.age_ms, 1, _DURATION_MS_MAX)
        _check_integer("claim_memory_ms", self.claim_memory_ms, 1_000, _DURATION_MS_MAX)
        if self.replicas is not None:
            _check_integer("replicas", self.replicas, 1, 5)
        if self.max_age_ms is not None:
            _check_integer("max_age_ms", self.max_age_ms, 1, _DURATION_MS_MAX)
            if self.max_age_ms < self.kept_ms:
                msg = (
                    f"max_age_ms={self.max_age_ms} drops claims that claim_memory_ms={self.claim_memory_ms} promises"
                    f" to remember: it must be at least {self.kept_ms} (the memory and {CLOCK_GRACE_MS} ms, in which"
                    " clocks may differ), or claim_memory_ms shorter"
                )
                raise InvalidOptionError(msg)
        if self.domain is not None and _DOMAIN.fullmatch(self.domain) is None:
            msg = f"domain must be 1 to 64 ASCII letters, digits and '_-', not {self.domain!r}"
            raise InvalidOptionError(msg)
        if self.credentials_file is not None and self.nkey_file is not None:
            msg = "credentials_file and nkey_file are two ways to log in: give one of them"
            raise InvalidOptionError(msg)
        if (self.certificate_file is None) is not (self.key_file is None):
            msg = "certificate_file and key_file are given together"
            raise InvalidOptionError(msg)

    @property
    def kept_ms(self) -> int:
        """
        How long a claim stays at the least, in milliseconds.
        """
        return self.claim_memory_ms + CLOCK_GRACE_MS


def read_url(url: str) -> tuple[str, dict[str, Any]]:
    """
    Take the parameters off a backend URL.

    Returns:
        The URL without them, and the constructor's keyword arguments.

    Raises:
        InvalidOptionError: A parameter is unknown or unreadable.
    """
    readers: dict[str, Callable[[str], Any]] = {
        **dict.fromkeys(("prefix", "domain", "credentials_file", "nkey_file"), str),
        **dict.fromkeys(("ca_file", "certificate_file", "key_file"), str),
        **dict.fromkeys(("claim_memory_ms", "replicas", "max_age_ms"), int),
        "verify": _switch,
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
    return urlunsplit(split_url(url)._replace(query="")), options


def _switch(text: str) -> bool:
    if text not in ("true", "false"):
        msg = "it must be true or false"
        raise ValueError(msg)
    return text == "true"


def _check_prefix(prefix: object) -> None:
    if (
        not isinstance(prefix, str)
        or len(prefix) > _PREFIX_CHARACTERS_MAX
        or _PREFIX.fullmatch(prefix) is None
    ):
        msg = (
            f"prefix must be 1 to {_PREFIX_CHARACTERS_MAX} ASCII letters, digits, '_' and '-', in parts that dots"
            f" separate ('billing', 'acme.billing'), not {prefix!r}"
        )
        raise InvalidOptionError(msg)


def _check_integer(name: str, value: object, least: int, most: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        msg = f"{name} must be an integer from {least} to {most}, not {value!r}"
        raise InvalidOptionError(msg)
