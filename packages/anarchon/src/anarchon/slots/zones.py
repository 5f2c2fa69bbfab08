"""
Time zones by their IANA keys, from the tzdata distribution.

The rules of all zones are then part of an application's lock file, and every
instance of one build agrees on them. A system's own files are as old as its
image, so that two instances might compute two different slots for one run.
The environment variable ANARCHON_TZ=system chooses them all the same, for
those who keep them alike on all machines: then zones are found as the module
zoneinfo finds them, on PYTHONTZPATH first. It is read once a process.
"""

from __future__ import annotations

import importlib.metadata
import importlib.resources
import os
from datetime import datetime
from difflib import get_close_matches
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

from anarchon.errors import InvalidScheduleError
from anarchon.slots.segments import DAY_S, Zone
from anarchon.slots.span import SECOND_END

__all__ = ["UTC_KEYS", "check_key", "zone", "zone_keys", "zone_rules"]

UTC_KEYS: Final = frozenset(
    {"Etc/UCT", "Etc/UTC", "Etc/Universal", "Etc/Zulu", "UCT", "UTC", "Universal", "Zulu"},
)
"""
The keys that mean UTC, whatever rules are installed.
"""

# These mean something else on every machine, or nothing at all.
_NO_PLACES: Final = frozenset({"Factory", "localtime", "posixrules"})

_SWITCH: Final = "ANARCHON_TZ"


@lru_cache(maxsize=1)
def zone_keys() -> frozenset[str]:
    """
    Return the keys that a schedule may name, spelled exactly so.
    """
    listed = importlib.resources.files("tzdata").joinpath("zones").read_text(encoding="utf-8")
    return frozenset(listed.split()) - _NO_PLACES


def check_key(key: object) -> str:
    """
    Return the key of a time zone, if it means the same on every machine.

    Raises:
        InvalidScheduleError: It is no key of the IANA database as the tzdata
            distribution lists them.
    """
    if isinstance(key, str) and key in zone_keys():
        return key
    shown = repr(key) if len(repr(key)) <= 80 else f"{repr(key)[:77]}..."
    near = _near(key) if isinstance(key, str) else ()
    hint = f" Did you mean {' or '.join(repr(name) for name in near)}?" if near else ""
    raise InvalidScheduleError(
        f"The time zone must be the key of a place in the IANA database, spelled exactly, not {shown}.{hint} "
        "Allowed are the keys that the tzdata distribution lists, such as 'UTC' or 'Europe/Berlin'.",
    )


@lru_cache(maxsize=1_024)
def zone(key: str) -> Zone:
    """
    Return the zone of a key that check_key() has allowed.

    Raises:
        InvalidScheduleError: ANARCHON_TZ has an unknown value.
    """
    from_system = _from_system()
    if key in UTC_KEYS:
        return Zone(lambda _: 0)
    rules = ZoneInfo(key) if from_system else _packaged_rules(key)

    def offset_at(instant: int) -> int:
        # Two days before the end of time is early enough for every local reading to be a date.
        known = min(instant, SECOND_END - 2 * DAY_S)
        offset = datetime.fromtimestamp(known, rules).utcoffset()
        assert offset is not None
        return offset.days * DAY_S + offset.seconds

    return Zone(offset_at)


def zone_rules() -> str:
    """
    Say which rules are in use: "tzdata 2026.6", or "system".
    """
    return "system" if _from_system() else f"tzdata {importlib.metadata.version('tzdata')}"


@lru_cache(maxsize=1)
def _from_system() -> bool:
    choice = os.environ.get(_SWITCH, "package")
    if choice not in {"package", "system"}:
        raise InvalidScheduleError(
            f"The environment variable {_SWITCH} must be 'package' (time zones from the tzdata distribution, "
            f"the default) or 'system' (from the system's files), not {choice!r}.",
        )
    return choice == "system"


def _packaged_rules(key: str) -> ZoneInfo:
    resource = importlib.resources.files("tzdata").joinpath("zoneinfo", *key.split("/"))
    with resource.open("rb") as file:
        return ZoneInfo.from_file(file, key=key)


def _near(key: str) -> list[str]:
    lowered = {name.lower(): name for name in zone_keys()}
    found = get_close_matches(key[:80].lower(), lowered, n=2, cutoff=0.8)
    return [lowered[name] for name in found]
