"""
The kit finds every broken backend out, on the clause that names its fault, and passes the sound ones.
"""

from __future__ import annotations

import pytest
from kit_mutants import (
    FAMILIES,
    MUTANTS,
    LosesHints,
    Mutant,
    Sound,
    SoundClaimOnly,
    SoundForgetful,
    profile_of,
)
from kit_mutants.lives import ReachesTooFar, reaches_too_far

from anarchon_conformance import BackendProfile, run_clause
from anarchon_conformance.clauses import CLAUSES, Level, family_of
from anarchon_conformance.running import clause_tests, expected_tests

PAIRS = [(mutant, clause) for mutant in MUTANTS for clause in mutant.clauses]
FAMILY_NAMES = list(dict.fromkeys(family_of(clause) for clause in CLAUSES))


def _id(value: object) -> str:
    return value.name if isinstance(value, Mutant) else str(value)


@pytest.mark.parametrize(("mutant", "clause"), PAIRS, ids=_id)
def test_mutant_fails_the_clause_that_names_its_fault(mutant: Mutant, clause: str) -> None:
    """
    One fault, one clause that trips over it.
    """
    profile = profile_of(mutant.backend, time_scale=mutant.time_scale)
    if mutant.backend is ReachesTooFar:
        profile = reaches_too_far
    run = run_clause(profile, clause)

    assert "failed" == run.outcome, f"{clause} does not see it: {mutant.backend.__doc__}"


def _outcomes(profile: BackendProfile, family: str) -> dict[str, str]:
    """
    Run every MUST of a family, and show what went wrong.

    A SHOULD may compare times, which a busy machine decides.
    """
    return {
        clause: run.reason or run.outcome
        for clause in CLAUSES
        if family_of(clause) == family and CLAUSES[clause].level is Level.MUST
        for run in [run_clause(profile, clause)]
        if run.outcome == "failed"
    }


@pytest.mark.parametrize("backend", [Sound, SoundClaimOnly, SoundForgetful])
@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_sound_backend_passes(backend: type[Sound | SoundClaimOnly], family: str) -> None:
    """
    What the mutants are made of has no fault of its own.
    """
    assert {} == _outcomes(profile_of(backend), family)


@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_losing_every_hint_costs_only_time(family: str) -> None:
    """
    Whoever loses all hints fails the clauses that promise them, and nothing else.
    """
    profile = profile_of(LosesHints, time_scale=0.1)
    promised = {"HNT-1", "HNT-2", "HNT-3"} if family == "HNT" else set()

    assert promised == _outcomes(profile, family).keys()


def test_each_clause_has_a_mutant() -> None:
    """
    A clause that no broken backend trips over is not yet a check.
    """
    tripped = {clause for mutant in MUTANTS for clause in mutant.clauses}

    assert [] == [clause for clause in CLAUSES if clause not in tripped]
    assert len(MUTANTS) >= len(FAMILIES)


def test_each_clause_has_a_test() -> None:
    """
    A clause without a test is a promise that nobody keeps.
    """
    counts = {clause: len(tests) for clause, tests in clause_tests().items()}

    assert [] == [clause for clause, count in counts.items() if not count]
    assert counts == dict(expected_tests())


def test_only_few_clauses_are_shoulds() -> None:
    """
    What a scheduler relies on is a MUST; a SHOULD is about cost alone.
    """
    shoulds = [clause.id for clause in CLAUSES.values() if clause.level is Level.SHOULD]

    assert ["BAT-6"] == shoulds
