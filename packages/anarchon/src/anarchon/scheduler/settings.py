"""
A scheduler's own options, checked once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from anarchon.backend import PROTOCOL_VERSION, Backend, LeaseBackend
from anarchon.durations import Duration, duration_ms, format_ms
from anarchon.errors import InvalidOptionError, ProtocolVersionError
from anarchon.registry import backend_from_url
from anarchon.slots.zones import check_key

__all__ = ["Settings", "backend_of", "settings_of"]

_HEARTBEATS_PER_LEASE = 3
_CALL_MS_MIN = 1_000
_CALL_MS_MAX = 5_000
_OPEN_MS_MAX = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """
    The options as the parts use them. Durations are milliseconds.
    """

    instance_id: str | None
    heartbeat_ms: int
    lease_ms: int
    jitter: Duration | None
    timezone: str
    state: Any
    start_timeout_ms: int | None
    stop_timeout_ms: int

    @property
    def call_timeout_ms(self) -> int:
        """
        The deadline of a call to the store, but for renewals: half a heartbeat, within reason.
        """
        return min(max(self.heartbeat_ms // 2, _CALL_MS_MIN), _CALL_MS_MAX)

    @property
    def open_timeout_ms(self) -> int:
        """
        The deadline of opening the store at start: several round trips, to a machine that may be busy with a deploy.

        A third of the start timeout, within reason, so that there is time for another try.
        """
        if self.start_timeout_ms is None:
            return _OPEN_MS_MAX
        return max(self.call_timeout_ms, min(self.start_timeout_ms // 3, _OPEN_MS_MAX))


def settings_of(
    *,
    instance_id: str | None,
    heartbeat: Duration,
    lease: Duration | None,
    jitter: Duration | None,
    timezone: str,
    state: Any,
    start_timeout: Duration | None,
    stop_timeout: Duration,
) -> Settings:
    """
    Check a scheduler's options and apply the defaults.

    Raises:
        DefinitionError: An option is wrong; the message names it and what is allowed.
    """
    label: object = instance_id  # callers without a type checker hand in anything
    if label is not None and (not isinstance(label, str) or not label):
        msg = (
            f"instance_id is a text of at least one character, shown to people; got {instance_id!r}"
        )
        raise InvalidOptionError(msg)
    heartbeat_ms = duration_ms(heartbeat, what="heartbeat")
    lease_ms = (
        _HEARTBEATS_PER_LEASE * heartbeat_ms if lease is None else duration_ms(lease, what="lease")
    )
    if lease_ms < _HEARTBEATS_PER_LEASE * heartbeat_ms:
        msg = (
            f"a lease of {format_ms(lease_ms)} is shorter than three heartbeats of {format_ms(heartbeat_ms)}:"
            " one slow renewal would lose a healthy run. Allowed: a lease of at least"
            f" {format_ms(_HEARTBEATS_PER_LEASE * heartbeat_ms)}, or a shorter heartbeat"
        )
        raise InvalidOptionError(msg)
    if jitter is not None:
        duration_ms(jitter, what="jitter", minimum_ms=0)
    check_key(timezone)
    return Settings(
        instance_id=instance_id,
        heartbeat_ms=heartbeat_ms,
        lease_ms=lease_ms,
        jitter=jitter,
        timezone=timezone,
        state=state,
        start_timeout_ms=None
        if start_timeout is None
        else duration_ms(start_timeout, what="start_timeout"),
        stop_timeout_ms=duration_ms(stop_timeout, what="stop_timeout", minimum_ms=0),
    )


def backend_of(backend_or_url: object, settings: Settings) -> Backend:
    """
    Return the backend that a user named, checked.

    Raises:
        DefinitionError: It is no backend, or cannot keep so short a lease.

        ProtocolVersionError: It speaks another version of the protocol.
    """
    backend = (
        backend_from_url(backend_or_url) if isinstance(backend_or_url, str) else backend_or_url
    )
    version = getattr(backend, "protocol_version", None)
    name = type(backend).__name__
    if (
        isinstance(backend, type)
        or version is None
        or not callable(getattr(backend, "claim", None))
    ):
        msg = f"a scheduler takes a backend or its URL; got {backend_or_url!r}"
        raise InvalidOptionError(msg)
    if version != PROTOCOL_VERSION:
        msg = (
            f"{name} speaks version {version} of the store protocol; this anarchon speaks version"
            f" {PROTOCOL_VERSION}. Install versions of both that go together"
        )
        raise ProtocolVersionError(msg)
    if not isinstance(backend, Backend):
        msg = f"{name} lacks members of the protocol Backend: {_missing(backend, Backend)}"
        raise InvalidOptionError(msg)
    capabilities = backend.capabilities
    if capabilities.leases and not isinstance(backend, LeaseBackend):
        msg = f"{name} declares leases but lacks members of LeaseBackend: {_missing(backend, LeaseBackend)}"
        raise InvalidOptionError(msg)
    if capabilities.leases and settings.lease_ms < capabilities.lease_ms_min:
        msg = (
            f"a lease of {format_ms(settings.lease_ms)} is shorter than {name} can keep:"
            f" at least {format_ms(capabilities.lease_ms_min)}"
        )
        raise InvalidOptionError(msg)
    return backend


def _missing(backend: object, protocol: type) -> str:
    wanted = [name for base in protocol.__mro__ for name in vars(base) if not name.startswith("_")]
    wanted += [name for base in protocol.__mro__ for name in getattr(base, "__annotations__", {})]
    return ", ".join(sorted({name for name in wanted if not hasattr(backend, name)}))
