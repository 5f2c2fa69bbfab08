"""
The kit catches the faults that this backend can have, and passes it without them, on the oldest server too.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from anarchon_conformance import run_clause
from anarchon_conformance.loading import load_profile

pytestmark = pytest.mark.slow

CAUGHT = [
    ("deaf", "CLM-4"),
    ("forgetful", "CLO-5"),
    ("trusting", "FIN-4"),
    ("forgiving", "HIS-6"),
    ("scattered", "CLM-1"),
    ("boundless", "HIS-7"),
]


@pytest.fixture(autouse=True)
def _mutants(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parent / "mutants")


@pytest.mark.parametrize(("mutant", "clause"), CAUGHT)
def test_the_kit_catches_a_fault(mutant: str, clause: str) -> None:
    """
    Each fault fails the clause that names it.
    """
    run = run_clause(load_profile(f"nats_mutants:{mutant}"), clause)

    assert "failed" == run.outcome, run.reason


@pytest.mark.parametrize("clause", sorted({clause for _, clause in CAUGHT}))
def test_the_kit_passes_the_same_without_it(clause: str) -> None:
    """
    The same backend as it is passes what the faults fail.
    """
    run = run_clause(load_profile("nats_mutants:sound"), clause)

    assert "passed" == run.outcome, run.reason


@pytest.mark.parametrize("clause", ["LIF-5", "CLM-1", "CLM-4", "HIS-4", "HIS-7", "NAM-1", "CLO-5"])
def test_the_oldest_server_passes(clause: str) -> None:
    """
    NATS 2.10 can do all that is asked of it.
    """
    run = run_clause(load_profile("anarchon_nats.conformance:oldest"), clause)

    assert "passed" == run.outcome, run.reason


def test_lost_messages_are_played() -> None:
    """
    The profile offers what the clause on lost requests and replies needs, and passes it.
    """
    run = run_clause(load_profile("nats"), "CAN-5")

    assert "passed" == run.outcome, run.reason
