"""
What a scenario is made of.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from anarchon_chaos.history import Expectation
from anarchon_chaos.steps import Step
from anarchon_chaos.stores import StoreKind

__all__ = [
    "ALIKE",
    "HEARTBEAT_MS",
    "LEASE_MS",
    "PAST_LEASE_MS",
    "STOP_TIMEOUT_MS",
    "THREE",
    "TICKS",
    "Instance",
    "Load",
    "Scenario",
]

HEARTBEAT_MS = 1_000
LEASE_MS = 3_000
STOP_TIMEOUT_MS = 4_000

PAST_LEASE_MS = LEASE_MS + 2 * HEARTBEAT_MS + 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """
    Jobs of one kind: one slot each where ``every_ms`` is None, all at the same instant.
    """

    name: str
    count: int = 1
    every_ms: int | None = None
    handler: str = "step"
    work_ms: tuple[int, ...] = (100,)
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """
    One process: its name, how wrong its wall clock is, and options of its scheduler.
    """

    name: str
    clock_ms: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)


# The first asks at once and so wins; the others are its backups.
THREE = (
    Instance(name="a", options={"jitter": 0}),
    Instance(name="b", options={"jitter": 0.4}),
    Instance(name="c", options={"jitter": 0.4}),
)
ALIKE = tuple(Instance(name=name) for name in "abc")
TICKS = (Load(name="tick", count=4, every_ms=1_000, work_ms=(50,)),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """
    One scenario.

    Args:
        says: What has to hold, for people.

        needs: What a store has to offer.

        place: What it asks of the store's server, one of `places.PLACES`.

        counts: The calls that reach the store's server are counted, where it does that.

        bounded: It belongs to the set that continuous integration runs.
    """

    name: str
    says: str
    steps: tuple[Step, ...]
    loads: tuple[Load, ...]
    instances: tuple[Instance, ...] = THREE
    needs: frozenset[str] = frozenset()
    expect: Expectation = field(default_factory=Expectation)
    place: str = "shared"
    counts: bool = False
    bounded: bool = True

    def fits(self, store: StoreKind) -> bool:
        """
        Say whether a store offers what the scenario needs.
        """
        return self.needs <= store.offers
