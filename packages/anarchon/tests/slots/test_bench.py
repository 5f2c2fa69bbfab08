"""
The benchmark's comparison, in a small form.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

BENCH = Path(__file__).parents[4] / "bench" / "slots.py"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """
    Import the benchmark from where it lies.
    """
    spec = importlib.util.spec_from_file_location("bench_slots", BENCH)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "bench_slots", module)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_next_slot_costs_a_fraction_of_the_parsers_search(bench: ModuleType) -> None:
    """
    Both run in turns, so that only their ratio counts; the bound leaves room for a noisy machine.
    """
    comparisons = bench.compare_all(instants=40, rounds=3)

    assert 7 == len(comparisons)
    assert bench.median_ratio(comparisons) <= 0.25
