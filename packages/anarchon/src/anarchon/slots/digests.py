"""
Digests of what a time zone does in a year.

Two instances whose rules differ where it matters see it by these, and those
whose rules merely have different version numbers are not alarmed.
"""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime
from typing import Final

from anarchon.slots.segments import Zone
from anarchon.slots.zones import UTC_KEYS

__all__ = ["zone_digest", "zone_digests"]

_YEAR_MAX: Final = 9999


def zone_digests(key: str, zone: Zone, now_ms: int) -> dict[str, str]:
    """
    Digest a zone's rules for the UTC calendar year of an instant and the next.
    """
    if key in UTC_KEYS:
        return {}
    year = datetime.fromtimestamp(max(0, now_ms // 1000), UTC).year
    return {str(each): zone_digest(zone, each) for each in (year, year + 1) if each <= _YEAR_MAX}


def zone_digest(zone: Zone, year: int) -> str:
    """
    Digest the offset at a year's start and every change within the year.
    """
    start = _year_start(year)
    end = _year_start(year + 1) if year < _YEAR_MAX else start + 365 * 86_400
    facts = {
        "year": year,
        "offset": zone.at(start).offset,
        "changes": list(zone.changes(start + 1, end)),
    }
    text = json.dumps(facts, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def _year_start(year: int) -> int:
    return int(datetime(year, 1, 1, tzinfo=UTC).timestamp())
