"""
Slot math: which slots a schedule has, the same on every instance.

The rules are in specs/slots.md. Everything here is a pure function of its
arguments and the rules of the time zones.
"""

from __future__ import annotations

from anarchon.slots.cron import Cron
from anarchon.slots.every import Every
from anarchon.slots.facts import (
    check_schedule,
    count_between,
    describe,
    fingerprint_of,
    shortest_gap_of,
    zone_digests_of,
)
from anarchon.slots.once import Once
from anarchon.slots.schedule import Schedule

__all__ = [
    "Cron",
    "Every",
    "Once",
    "Schedule",
    "check_schedule",
    "count_between",
    "describe",
    "fingerprint_of",
    "shortest_gap_of",
    "zone_digests_of",
]
