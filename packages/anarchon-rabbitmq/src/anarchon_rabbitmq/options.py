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

__all__ = [
    "CLOCK_TOLERANCE_MS",
    "DEFAULT_CLAIM_MEMORY_MS",
    "DEFAULT_LOG_BYTES",
    "DEFAULT_PREFIX",
    "Options",
    "read_url",
]

DEFAULT_PREFIX: Final = "anarchon"

DEFAULT_CLAIM_MEMORY_MS: Final = 600_000

DEFAULT_LOG_BYTES: Final = 1_000_000_000

CLOCK_TOLERANCE_MS: Final = 60_000
"""
How far the clocks of two instances may be apart, in milliseconds.
"""

_DURATION_MS_MAX: Final = 10**13
_SEGMENTS_MIN: Final = 4
_SEGMENT_BYTES_MAX: Final = 16_000_000
_PREFIX = re.compile(r"[A-Za-z0-9_.:/-]{1,64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """
    All options but the address.

    Args:
        prefix: The front of the stream's name. Services that share a broker use different ones.

        retention: How long records are kept.

        claim_memory_ms: How long a claim is remembered; an older slot is refused. In
            milliseconds.

        log_bytes_max: How large the stream may become before its oldest part goes.

        replicas: How many nodes of a cluster keep the stream; None: all that there are
            when it is made.

        ca_file, certificate_file, key_file, verify: TLS: whom to trust, who to be, and
            whether to look at the broker's certificate at all.

    Raises:
        InvalidOptionError: One of them cannot be meant.
    """

    prefix: str = DEFAULT_PREFIX
    retention: Retention = field(default_factory=Retention)
    claim_memory_ms: int = DEFAULT_CLAIM_MEMORY_MS
    log_bytes_max: int = DEFAULT_LOG_BYTES
    replicas: int | None = None
    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    verify: bool = True

    def __post_init__(self) -> None:
        prefix: object = self.prefix
        if not isinstance(prefix, str) or _PREFIX.fullmatch(prefix) is None:
            msg = f"prefix must be 1 to 64 ASCII letters, digits and '_.:/-', not {prefix!r}"
            raise InvalidOptionError(msg)
        _check_integer("retention.records_per_job", self.retention.records_per_job, 1, 10**9)
        if self.retention.age_ms is not None:
            _check_integer("retention.age_ms", self.retention.age_ms, 1, _DURATION_MS_MAX)
        # A claim is asked for again within seconds; below a minute a stumble would cost slots.
        _check_integer("claim_memory_ms", self.claim_memory_ms, 60_000, _DURATION_MS_MAX)
        # A segment, of which there are several, has to hold several of the largest messages.
        _check_integer("log_bytes_max", self.log_bytes_max, 10_000_000, 10**15)
        if self.replicas is not None:
            _check_integer("replicas", self.replicas, 1, 100)
        if (self.certificate_file is None) is not (self.key_file is None):
            msg = "certificate_file and key_file are given together"
            raise InvalidOptionError(msg)

    @property
    def stream(self) -> str:
        """
        The name of the stream that is the log.
        """
        return f"{self.prefix}.runs"

    @property
    def window_ms(self) -> int:
        """
        How much of the log an instance reads when it joins, and keeps in mind, in milliseconds.
        """
        return self.claim_memory_ms + 2 * CLOCK_TOLERANCE_MS

    @property
    def stream_arguments(self) -> dict[str, Any]:
        """
        What the stream is declared with, where nobody has made it yet.
        """
        # Whole segments go, never a part of one.
        segment_bytes = min(_SEGMENT_BYTES_MAX, self.log_bytes_max // _SEGMENTS_MIN)
        arguments: dict[str, Any] = {
            "x-queue-type": "stream",
            "x-max-length-bytes": self.log_bytes_max,
            "x-stream-max-segment-size-bytes": segment_bytes,
        }
        if self.retention.age_ms is not None:
            age_ms = max(self.retention.age_ms, 2 * self.window_ms)
            arguments["x-max-age"] = f"{age_ms // 1_000}s"
        if self.replicas is not None:
            arguments["x-initial-cluster-size"] = self.replicas
        return arguments


def read_url(url: str) -> tuple[str, dict[str, Any]]:
    """
    Take the parameters off a backend URL.

    Returns:
        The URL without them, and the constructor's keyword arguments.

    Raises:
        InvalidOptionError: A parameter is unknown or unreadable.
    """
    readers: dict[str, Callable[[str], Any]] = {
        **dict.fromkeys(("prefix", "ca_file", "certificate_file", "key_file"), str),
        **dict.fromkeys(("claim_memory_ms", "log_bytes_max", "replicas"), int),
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
    parts = split_url(url)
    return urlunsplit(parts._replace(query="")), options


def _switch(text: str) -> bool:
    if text not in ("true", "false"):
        msg = "it must be true or false"
        raise ValueError(msg)
    return text == "true"


def _check_integer(name: str, value: object, least: int, most: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        msg = f"{name} must be an integer from {least} to {most}, not {value!r}"
        raise InvalidOptionError(msg)
