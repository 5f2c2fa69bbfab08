"""
Several schedulers on one store in one event loop, on a time that costs nothing.
"""

from __future__ import annotations

from virtual.clock import START_MS, VirtualClock
from virtual.faults import (
    Action,
    Faults,
    FaultyBackend,
    Served,
    answer_late,
    arrive_late,
    fail,
    fail_items,
    hang,
    lose_answer,
)
from virtual.loop import Latch, StuckError, VirtualLoop
from virtual.thief import steal
from virtual.world import Node, World

__all__ = [
    "START_MS",
    "Action",
    "Faults",
    "FaultyBackend",
    "Latch",
    "Node",
    "Served",
    "StuckError",
    "VirtualClock",
    "VirtualLoop",
    "World",
    "answer_late",
    "arrive_late",
    "fail",
    "fail_items",
    "hang",
    "lose_answer",
    "steal",
]
