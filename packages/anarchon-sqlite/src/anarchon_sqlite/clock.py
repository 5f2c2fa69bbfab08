"""
The clock that judges leases: this machine's, counted since its boot.

Wall time comes from SQLite itself, inside the transaction (`statements`), and only
dates records. No step of it touches a lease.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

# Bound at import: whatever is done to the module `time` later changes nothing here.
from time import monotonic_ns

from anarchon.clock import SystemClock

__all__ = ["LeaseClock", "host_clock", "monotonic_s"]

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_TIME_NAMESPACE = Path("/proc/self/ns/time")


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseClock:
    """
    A clock for leases, and the name that says which one it is.

    Args:
        clock_id: Two instants are compared only under the same name.

        read_ms: Read the clock, in milliseconds.
    """

    clock_id: str
    read_ms: Callable[[], int]


def host_clock() -> LeaseClock:
    """
    Return this machine's clock, named after its boot and its time namespace.

    CLOCK_BOOTTIME starts anew with each boot, and a time namespace shifts it, so
    that neither may be compared with another.
    """
    return LeaseClock(
        clock_id=f"{_boot_id()}/{_time_namespace()}", read_ms=SystemClock().suspend_ms
    )


def monotonic_s() -> float:
    """
    Read the clock that deadlines of calls are counted on, in seconds.
    """
    return monotonic_ns() / 1_000_000_000


def _boot_id() -> str:
    """
    Name this boot of the machine.
    """
    try:
        return _BOOT_ID.read_text(encoding="utf-8").strip()
    except OSError:
        pass
    if sys.platform == "darwin":
        return _sysctl_text(b"kern.bootsessionuuid")
    # Without a name for the boot, a reboot makes old instants look like ones of today:
    # leases of before it would seem to hold for as long as the machine had been up.
    return "unknown"


def _time_namespace() -> str:
    try:
        return str(_TIME_NAMESPACE.readlink())
    except OSError:
        return "none"  # Kernels before 5.6, and macOS, have but one.


def _sysctl_text(name: bytes) -> str:
    """
    Read a text from the macOS kernel's table.
    """
    libc = ctypes.CDLL(None)
    length = ctypes.c_size_t(128)
    buffer = ctypes.create_string_buffer(length.value)
    if libc.sysctlbyname(name, buffer, ctypes.byref(length), None, ctypes.c_size_t(0)) != 0:
        return "unknown"
    return buffer.value.decode("ascii", "replace")
