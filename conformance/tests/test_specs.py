"""
The specifications and the code say the same: clauses, states, and words.
"""

from __future__ import annotations

import re
from pathlib import Path

from anarchon.backend import AnswerReason, Verdict
from anarchon.records import Reason, Status
from anarchon_conformance.clauses import CLAUSES, NEEDS, family_of
from anarchon_conformance.running import clause_tests

SPECS = Path(__file__).resolve().parents[2] / "specs"
BACKEND = (SPECS / "backend.md").read_text(encoding="utf-8")
CLAUSE = re.compile(
    r"^\*\*([A-Z]{3}-\d+)\*\* \((MUST|SHOULD)(?:; ([a-z, -]+))?\) (.+)$", re.MULTILINE
)


def test_clauses_are_those_of_the_specification() -> None:
    """
    Id, level, needs and text of each clause stand in specs/backend.md, word for word and in order.
    """
    written = [
        (entry[1], entry[2], tuple((entry[3] or "").split(", ")) if entry[3] else (), entry[4])
        for entry in CLAUSE.finditer(BACKEND)
    ]

    assert written == [(each.id, each.level, each.needs, each.text) for each in CLAUSES.values()]


def test_clauses_are_numbered_without_gaps() -> None:
    """
    A family counts from one.
    """
    families: dict[str, list[int]] = {}
    for clause in CLAUSES:
        families.setdefault(family_of(clause), []).append(int(clause.partition("-")[2]))

    assert {name: list(range(1, len(ids) + 1)) for name, ids in families.items()} == {
        name: sorted(ids) for name, ids in families.items()
    }


def test_needs_are_explained() -> None:
    """
    Each need of a clause is in the specification's table, and the other way round.
    """
    table = re.findall(r"^\| `([a-z-]+)` \|", BACKEND, re.MULTILINE)

    assert sorted(NEEDS) == sorted(table)
    assert {need for clause in CLAUSES.values() for need in clause.needs} <= set(NEEDS)


def test_answers_are_all_in_the_table() -> None:
    """
    The table of answers names every verdict, and every reason.
    """
    missing = [
        verdict for verdict in Verdict if f"`{verdict}`" not in BACKEND.replace("taken", "`taken`")
    ]
    words = {reason: reason.replace("_", " ") for reason in AnswerReason}

    assert [] == missing
    assert [] == [reason for reason, text in words.items() if f"({text})" not in BACKEND]


def test_tests_stand_with_their_family() -> None:
    """
    A clause's tests have one docstring each, which says the rule.
    """
    bare = [
        test.__name__
        for tests in clause_tests().values()
        for test in tests
        if not (test.__doc__ or "").strip()
    ]

    assert [] == bare


def _rows(page: str, heading: str) -> list[list[str]]:
    """
    Read the table below a heading.
    """
    text = (SPECS / page).read_text(encoding="utf-8").split(f"## {heading}\n", 1)[1]
    lines = [line for line in text.split("\n## ", 1)[0].splitlines() if line.startswith("|")]
    return [[cell.strip().strip("`") for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_states_are_those_of_the_code() -> None:
    """
    Each status of a record is a row of specs/lifecycle.md, and only one of them ever changes.
    """
    rows = _rows("lifecycle.md", "States")

    assert list(Status) == [row[0] for row in rows]
    assert [Status.RUNNING] == [row[0] for row in rows if row[1] == "no"]


def test_moves_name_every_reason() -> None:
    """
    Each reason of a record belongs to a move of specs/lifecycle.md, with the status that it ends in.
    """
    rows = _rows("lifecycle.md", "Moves")
    reasons = {row[2] for row in rows if row[2] != "none"}
    states = {row[0] for row in rows} | {row[1] for row in rows}

    assert set(Reason) == reasons
    assert {*Status, "due", "not run"} == states
