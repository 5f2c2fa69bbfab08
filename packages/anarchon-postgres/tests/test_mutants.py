"""
The kit catches the faults that functions in a server can have, and no sound backend.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from anarchon_conformance import run_clause
from anarchon_conformance.loading import load_profile

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

CAUGHT = [
    ("no_token", "FIN-4"),
    ("no_token", "RNW-3"),
    ("no_token", "REL-5"),
    ("no_repeat", "CLM-4"),
    ("no_attempt", "TKO-3"),
    ("no_high", "CLM-6"),
    ("no_high", "LAT-1"),
    ("split", "CLM-1"),
    ("split", "OVL-7"),
    ("no_not_after", "LAT-3"),
    ("kept_token", "REL-2"),
    ("prunes_running", "HIS-8"),
    ("looks_past_token", "CLM-4"),
    ("looks_past_lease", "TKO-5"),
    ("looks_past_skip", "OVL-2"),
    ("mute", "HNT-2"),
]


@pytest.mark.parametrize("name", ["postgres", "postgres-pooled"])
def test_lost_messages_are_played(name: str) -> None:
    """
    The profiles offer what the clause on lost requests and replies needs, and pass it.
    """
    run = run_clause(load_profile(name), "CAN-5")

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
    run = run_clause(load_profile(f"postgres_mutants:{mutant}"), clause)

    assert outcome == run.outcome, run.reason
