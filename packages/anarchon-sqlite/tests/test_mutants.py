"""
The kit catches the faults that a backend on a file can have, and no sound backend.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from anarchon_conformance import run_clause
from anarchon_conformance.loading import load_profile

pytestmark = pytest.mark.slow

CAUGHT = [("split", "CLM-1"), ("split", "CLM-3"), ("deferred", "CLM-1"), ("callers_clock", "LAT-6")]


def test_lost_messages_are_played() -> None:
    """
    The profile offers what the clause on lost requests and replies needs, and passes it.
    """
    run = run_clause(load_profile("sqlite"), "CAN-5")

    assert "passed" == run.outcome, run.reason


@pytest.mark.parametrize(
    ("mutant", "clause", "outcome"),
    [
        *((mutant, clause, "failed") for mutant, clause in CAUGHT),
        *(("sound", clause, "passed") for clause in sorted({clause for _, clause in CAUGHT})),
    ],
)
def test_the_kit_tells_a_fault_from_none(
    mutant: str, clause: str, outcome: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Each fault fails the clause that names it; the same backend without it passes.
    """
    monkeypatch.syspath_prepend(Path(__file__).parent / "mutants")
    run = run_clause(load_profile(f"sqlite_mutants:{mutant}"), clause)

    assert outcome == run.outcome, run.reason
