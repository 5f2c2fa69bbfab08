"""
The formal model of the store protocol holds, and each of its broken variants is refuted.
"""

from __future__ import annotations

import re

import check_model
import pytest
import repository
import spin

from anarchon_testbed.errors import ServerUnavailableError

MODELS = sorted(path.stem for path in check_model.MODELS.glob("*.pml"))
README = check_model.MODELS / "README.md"
CASES = check_model.read_cases()


@pytest.mark.slow
@pytest.mark.timeout(1_500)
def test_model_holds_and_every_broken_variant_is_refuted() -> None:
    """
    Every search is a full one, and every refutation is by the property that the variant breaks.
    """
    results = check_model.check_all(CASES)
    wrong = [f"{result.case.name}: {result.wrong}" for result in results if result.wrong]

    assert [] == wrong, check_model.table(results)


def test_sound_search_that_was_cut_short_is_no_proof() -> None:
    """
    A search without an error says nothing when its depth or its memory was too small.
    """
    case = CASES[0]
    full = "Full statespace search for:\nerrors: 0\n"

    assert None is check_model.judge(case, full, None)
    for words in check_model.CUT_SHORT:
        assert f"the search was cut short: {words}" == check_model.judge(
            case, f"{full}{words}", None
        )
    assert "violated: fencing" == check_model.judge(case, full, "fencing")


def test_broken_variant_has_to_break_its_own_property() -> None:
    """
    A variant that is not refuted is a failure, and so is one that another property refutes.
    """
    case = next(case for case in CASES if case.kind == "broken")
    full = "Full statespace search for:\nerrors: 1\n"

    assert "not refuted" == check_model.judge(case, full, None)
    assert "refuted by another one: luck" == check_model.judge(case, full, "luck")
    assert None is check_model.judge(case, full, case.property)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.kind}: {case.name}")
def test_case_names_a_model_and_a_property_of_it(case: check_model.Case) -> None:
    """
    The words of a property stand behind the assertion that states it.
    """
    known = (
        [check_model.NOBODY_MOVES] if case.model == "locks" else check_model.properties(case.model)
    )

    assert case.model in MODELS
    assert case.kind == "sound" or any(words.startswith(case.property or "-") for words in known)


@pytest.mark.parametrize("model", MODELS)
def test_every_switch_of_a_model_is_tried(model: str) -> None:
    """
    A variant that no case names is never refuted.
    """
    text = (check_model.MODELS / f"{model}.pml").read_text(encoding="utf-8")
    switches = set(re.findall(r"^#if(?:n?def|) (?:!?defined\()?(\w+)", text, re.MULTILINE))
    switches |= set(re.findall(r"defined\((\w+)\)", text))
    bounds = set(re.findall(r"^#ifndef (\w+)\n#define \1 ", text, re.MULTILINE))
    tried = {
        define.split("=")[0] for case in CASES if case.model == model for define in case.defines
    }

    assert switches
    assert set() == switches - bounds - tried


def test_readme_lists_every_case_with_its_trap() -> None:
    """
    The page names each broken variant beside the trap that it stands for.
    """
    text = README.read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("|")]
    missing = [
        case.name
        for case in CASES
        if case.kind != "sound"
        and not any(f"| {case.name} |" in row and case.trap in row for row in rows)
    ]

    assert [] == missing


def test_readme_names_clauses_and_functions_that_exist() -> None:
    """
    A clause or a function that was renamed leaves no trace behind on the page.
    """
    text = README.read_text(encoding="utf-8")
    clauses = set(re.findall(r"\b[A-Z]{3}-\d+\b", text))
    stated = {
        clause
        for name in ("backend.md", "leases.md")
        for clause in re.findall(
            r"^\*\*([A-Z]{3}-\d+)\*\*",
            (repository.ROOT / "specs" / name).read_text(encoding="utf-8"),
            re.MULTILINE,
        )
    }
    core = repository.ROOT / "packages/anarchon/src/anarchon"
    gone = [
        f"{module}.{name}"
        for module, name in re.findall(r"`((?:protocol|scheduler)/\w+)\.py:(\w+)`", text)
        if not (core / f"{module}.py").is_file()
        or not re.search(rf"\bdef {name}\b", (core / f"{module}.py").read_text(encoding="utf-8"))
    ]

    assert clauses
    assert set() == clauses - stated
    assert [] == gone


def test_mutants_and_tests_that_the_pages_name_exist() -> None:
    """
    A broken backend, a planted bug or a test that was renamed leaves no trace behind.
    """
    text = "\n".join(path.read_text(encoding="utf-8") for path in repository.files(".py"))
    defined = set(re.findall(r"^\s*(?:async )?(?:def|class) (\w+)", text, re.MULTILINE))
    leases = (repository.ROOT / "specs/leases.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(test_\w+)`", leases))
    named |= {name for case in CASES for name in re.findall(r"\w+", case.mutant)}

    assert named
    assert set() == named - defined


def test_missing_spin_is_said_with_the_way_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    """
    A machine without the checker, and without a way to get it, hears what to install.
    """
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("ANARCHON_TESTBED_CACHE", str(tmp_path))
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.delenv("ANARCHON_TESTBED", raising=False)
    with pytest.raises(ServerUnavailableError, match=r"install spin` gets it\.$"):
        spin.obtain_spin()
