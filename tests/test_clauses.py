"""
Each clause of specs/ has a test that shows it, and something broken that trips it.
"""

from __future__ import annotations

import copy
import json
import re
import tomllib
from collections.abc import Iterator
from typing import Any

import check_model
import planted
import pytest
import repository

from anarchon.errors import AnarchonError
from anarchon.slots import Cron, Every, Once

SPECS = repository.ROOT / "specs"
TABLE: dict[str, Any] = tomllib.loads(planted.TABLE.read_text(encoding="utf-8"))
CLAUSES: dict[str, dict[str, Any]] = TABLE["clause"]
FAULTS = planted.read_faults()
TESTS = planted.tests_by_name()
VECTORS = SPECS / "vectors/slot-vectors.json"
LIMITS = "## What cannot be promised"
KINDS = ("fault", "simulation", "kit", "model", "test")


def page(name: str) -> str:
    """
    Read a page of specs/.
    """
    return (SPECS / name).read_text(encoding="utf-8")


def stated(name: str) -> dict[str, str]:
    """
    Find the numbered clauses of a page, each with its text.
    """
    found = re.findall(
        r"^\*\*([A-Z]{3}-\d+)\*\* (.+?)(?=\n\n|\Z)", page(name), re.MULTILINE | re.DOTALL
    )
    assert len(found) == len(dict(found)), f"{name} states a clause twice"
    return dict(found)


def moves() -> Iterator[str]:
    """
    Name the rows of the moves in lifecycle.md.
    """
    text = page("lifecycle.md").split("## Moves\n", 1)[1]
    for line in [line for line in text.splitlines() if line.startswith("|")][2:]:
        came, went, reason, *_ = (cell.strip().strip("`") for cell in line.strip("|").split("|"))
        yield f"{came} -> {went}" + ("" if reason == "none" else f": {reason}")


def clauses() -> dict[str, str]:
    """
    Give every clause that the table has to have, with its text.
    """
    return {**stated("slots.md"), **stated("leases.md"), **{move: move for move in moves()}}


def shown_by(clause: str) -> list[str]:
    """
    Name the tests that show a clause: in the table, or on the page itself.
    """
    return [*CLAUSES[clause].get("tests", ()), *re.findall(r"`(test_\w+)`", clauses()[clause])]


def names_of(text: str, pattern: str) -> set[str]:
    """
    Find the names that a file defines.
    """
    return set(re.findall(pattern, text, re.MULTILINE))


def broken_things() -> dict[str, set[str]]:
    """
    Name everything broken that there is, by kind.
    """
    bugs = repository.ROOT / "packages/anarchon-simulation/tests/test_planted_bugs.py"
    listed = bugs.read_text(encoding="utf-8").split("\nBUGS = [", 1)[1].split("]", 1)[0]
    mutants = repository.ROOT / "conformance/tests/lib/kit_mutants"
    return {
        "fault": {fault.name for fault in FAULTS},
        "simulation": names_of(listed, r"(\w+),"),
        "kit": names_of(
            "\n".join(path.read_text(encoding="utf-8") for path in mutants.glob("*.py")),
            r"^class (\w+)",
        ),
        "model": {case.name for case in check_model.read_cases() if case.kind == "broken"},
        "test": set(TESTS),
    }


def test_every_clause_is_in_the_table_and_nothing_else() -> None:
    """
    A new clause needs its test and its broken variant, and one that has gone takes them along.
    """
    assert set() == set(clauses()) ^ set(CLAUSES)


def test_every_numbered_page_is_known() -> None:
    """
    A page that begins to number its clauses is looked at: here, or by the kit for backend.md.
    """
    numbered = {path.name for path in SPECS.glob("*.md") if stated(path.name)}

    assert {"backend.md", "leases.md", "slots.md"} == numbered


def test_every_clause_is_shown_by_tests_that_exist() -> None:
    """
    Each names at least one test, and each name means exactly one.
    """
    wrong = {
        clause: [name for name in shown_by(clause) if len(TESTS.get(name, ())) != 1]
        for clause in CLAUSES
    }

    assert {} == {clause: names for clause, names in wrong.items() if names}
    assert [] == [clause for clause in CLAUSES if not shown_by(clause)]


def test_every_clause_is_broken_by_something_that_exists() -> None:
    """
    A clause that nothing breaks is not yet a check; a limit says why nothing can.
    """
    there = broken_things()
    limits = set(re.findall(r"\*\*([A-Z]{3}-\d+)\*\*", page("leases.md").split(LIMITS, 1)[1]))
    gone = [
        f"{clause}: {entry}"
        for clause, shown in CLAUSES.items()
        for entry in shown.get("broken", ())
        if entry.partition(": ")[2] not in there.get(entry.partition(": ")[0], ())
    ]
    bare = [
        clause
        for clause, shown in CLAUSES.items()
        if not shown.get("broken") and not (shown.get("limit") and clause in limits)
    ]

    assert set(KINDS) == set(there)
    assert [] == gone
    assert [] == bare


def test_every_fault_breaks_a_clause_by_a_test_of_it() -> None:
    """
    A planted fault is seen by a test that is said to show the clause, and stands there for a clause.
    """
    astray = []
    for fault in FAULTS:
        broken = [
            clause
            for clause in CLAUSES
            if f"fault: {fault.name}" in CLAUSES[clause].get("broken", ())
        ]
        astray += [
            f"{fault.name}: {clause}"
            for clause in broken or ["no clause"]
            if not broken or not set(fault.seen_by) & set(shown_by(clause))
        ]

    assert [] == astray


def test_every_fault_has_its_place_and_its_name() -> None:
    """
    The text that a fault replaces is there, once; two faults have two names.
    """
    for fault in FAULTS:
        assert fault.old != fault.new
        compile(fault.planted(), str(fault.path), "exec")

    assert len(FAULTS) == len({fault.name for fault in FAULTS})


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_planted_fault_is_seen() -> None:
    """
    Each fault makes one of the tests fail that are said to show its clause.
    """
    results = planted.check_all(FAULTS)

    assert [] == [f"{each.fault.name}: {each.wrong}" for each in results if each.wrong]


# The form of the vectors (SLT-50 and after).


def make(schedule: dict[str, Any]) -> object:
    """
    Make the schedule that a vector describes.
    """
    match schedule:
        case {"kind": "every", "every": str(interval), **more} if more.keys() <= {"offset"}:
            return Every(interval, offset=more.get("offset", 0))
        case {"kind": "once", "at": int(at), **more} if not more:
            return Once(at)
        case {"kind": "cron", "expr": str(expression), "timezone": str(zone), **more} if not more:
            return Cron(expression, zone)
    msg = f"no schedule: {schedule}"
    raise ValueError(msg)


def form_errors(document: dict[str, Any]) -> list[str]:
    """
    Say where a document of vectors has not the form that slots.md gives it.
    """
    errors = []
    needed = {"id", "schedule", "from_ms", "slots_ms", "note"}
    for vector in document["vectors"]:
        name = vector.get("id", vector)
        if not needed <= vector.keys() <= needed | {"policy"}:
            errors.append(f"{name}: has {sorted(vector)}")
            continue
        slots = vector["slots_ms"]
        if slots != sorted(set(slots)) or any(slot <= vector["from_ms"] for slot in slots):
            errors.append(f"{name}: its slots do not rise from {vector['from_ms']}")
        try:
            make(vector["schedule"])
        except (AnarchonError, ValueError) as error:
            errors.append(f"{name}: {error}")
    names = [vector.get("id") for vector in document["vectors"]]
    if len(names) != len(set(names)):
        errors.append("two vectors have one id")
    return errors


def vectors() -> dict[str, Any]:
    """
    Read the vectors.
    """
    document: dict[str, Any] = json.loads(VECTORS.read_text(encoding="utf-8"))
    return document


def test_vectors_have_their_form() -> None:
    """
    Each has an id of its own, a schedule, an instant, its slots in order, and a note.
    """
    assert [] == form_errors(vectors())


def test_policies_are_vectors_like_others() -> None:
    """
    There are vectors where libraries differ, each with a slot that decides.
    """
    marked = [vector for vector in vectors()["vectors"] if vector.get("policy")]

    assert marked
    assert any(vector["slots_ms"] for vector in marked)


@pytest.mark.parametrize(
    "break_it",
    [
        lambda vector: vector.pop("note"),
        lambda vector: vector.update(more=1),
        lambda vector: vector["slots_ms"].reverse(),
        lambda vector: vector.update(from_ms=vector["slots_ms"][0]),
        lambda vector: vector["schedule"].update(kind="never"),
    ],
    ids=["no note", "something more", "backwards", "not after from_ms", "no schedule"],
)
def test_vector_without_its_form_is_found(break_it: Any) -> None:
    """
    The check of the form sees each way of missing it.
    """
    document = copy.deepcopy(vectors())
    chosen = next(vector for vector in document["vectors"] if len(vector["slots_ms"]) > 1)
    break_it(chosen)

    assert 1 == len(form_errors(document))
