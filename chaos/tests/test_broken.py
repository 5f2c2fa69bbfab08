"""
A product that is broken on purpose is found out, by the scenario and the rule that are there for it.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from anarchon_chaos.broken import BREAKAGES, Breakage, BreakageError, build
from anarchon_chaos.running import Case, Result, play_all
from anarchon_chaos.scenarios import scenario
from anarchon_chaos.stores import named


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Result]:
    """
    Play the scenario of every breakage on its broken copy, all at a time.
    """
    found: dict[str, Result] = {}
    played = [
        Case(
            scenario=scenario(breakage.scenario),
            store=named(breakage.store),
            product=build(breakage, tmp_path_factory.mktemp(breakage.name)),
        )
        for breakage in BREAKAGES
    ]
    # A standby that nobody has waited for, judged as one that everybody waits for.
    behind = replace(scenario("fail-over-behind"), expect=scenario("fail-over-standby").expect)
    played.append(Case(scenario=behind, store=named("postgres")))
    results = asyncio.run(play_all(played, at_once=len(played), done=lambda _: None))
    names = [*(breakage.name for breakage in BREAKAGES), "behind"]
    found.update(zip(names, results, strict=True))
    return found


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("breakage", BREAKAGES, ids=lambda breakage: breakage.name)
def test_a_broken_product_is_found_out(breakage: Breakage, results: dict[str, Result]) -> None:
    """
    The rules that name the broken promise speak, and the fault was really there.
    """
    result = results[breakage.name]
    spoken = {finding.rule for finding in result.findings}

    assert result.trouble is None
    assert breakage.rules <= spoken
    assert "faults_bit" not in spoken


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_fail_over_that_loses_answers_is_found_out(results: dict[str, Result]) -> None:
    """
    Runs that had ended run again, and records of others are gone.
    """
    result = results["behind"]
    spoken = {finding.rule for finding in result.findings}

    assert result.trouble is None
    assert {"finished_stays_finished", "history_true"} <= spoken
    assert "faults_bit" not in spoken


def test_every_breakage_still_fits_the_product(tmp_path: Path) -> None:
    """
    The text that is replaced is there, and the copy differs from the product in that file alone.
    """
    for breakage in BREAKAGES:
        copy = build(breakage, tmp_path / breakage.name)

        assert all(text not in (copy / breakage.file).read_text() for text in breakage.texts)


def test_a_breakage_that_fits_no_more_is_an_error(tmp_path: Path) -> None:
    """
    A product that has changed does not pass for a broken one.
    """
    gone = Breakage(
        name="gone",
        says="nothing",
        file="anarchon/scheduler/leases.py",
        texts={"no such line": ""},
        scenario="calm",
        store="sqlite",
        rules=frozenset(),
    )

    with pytest.raises(BreakageError, match="0 places"):
        build(gone, tmp_path / "copy")
