"""
The command says what there is, refuses what there is not, and plays what was asked for.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from anarchon_chaos.cli import choose, longest_first, main
from anarchon_chaos.mixing import draw
from anarchon_chaos.plans import JobPlan, WorkerPlan
from anarchon_chaos.scenarios import SCENARIOS, cases
from anarchon_chaos.stores import STORES


def test_the_list_names_every_scenario(capsys: pytest.CaptureFixture[str]) -> None:
    """
    Each with what must hold.
    """
    assert 0 == main(["list"])
    said = capsys.readouterr().out

    assert [] == [one.name for one in SCENARIOS if f"{one.name}" not in said]


@pytest.mark.parametrize(
    "arguments",
    [
        ["--store", "cassandra"],
        ["--scenario", "earthquake"],
        ["--store", "sqlite", "--scenario", "cut-silent"],
    ],
    ids=["no such store", "no such scenario", "no fit"],
)
def test_what_cannot_be_played_is_refused(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """
    A wrong name is an error of use, and so is a selection that would play nothing.
    """
    with pytest.raises(SystemExit) as ended:
        main(["run", *arguments])

    assert 2 == ended.value.code
    assert "error: " in capsys.readouterr().err


def test_the_longest_are_begun_first() -> None:
    """
    What takes twenty minutes begins before everything else, and what takes equally long keeps its order.
    """
    names = ["crash", "mixed", "mixed-20min", "cut-reset", "cut-down"]
    chosen = choose(["redis-lease"], names, bounded=False, seed=1)

    assert ["mixed-20min", "mixed", "cut-reset", "cut-down", "crash"] == [
        case.scenario.name for case in longest_first(chosen)
    ]


def test_a_choice_is_every_pair_that_fits() -> None:
    """
    Without names it is the whole table; with them the scenarios named on the stores where they fit.
    """
    everything = choose([], [], bounded=False, seed=1)
    some = choose(["sqlite", "redis-lease"], ["crash", "cut-silent"], bounded=False, seed=1)

    assert len(cases(bounded=False)) == len(everything)
    assert ["crash-sqlite", "crash-redis-lease", "cut-silent-redis-lease"] == [
        case.name for case in some
    ]


def test_names_are_unique_and_every_store_has_scenarios() -> None:
    """
    A name means one scenario, and every scenario fits some store of each set that it belongs to.
    """
    names = [one.name for one in SCENARIOS]
    bounded = cases(bounded=True)

    assert sorted(set(names)) == sorted(names)
    assert {store.name for store in STORES} == {store.name for _, store in bounded}
    assert {one.name for one in SCENARIOS if one.bounded} == {one.name for one, _ in bounded}
    assert {one.name for one in SCENARIOS} == {one.name for one, _ in cases(bounded=False)}


def test_a_seed_draws_the_same_faults_again() -> None:
    """
    Two generators of one seed draw alike, another seed does not, and a file's store has no network.
    """

    def drawn(seed: int, *, network: bool = True) -> list[str]:
        rng = random.Random(seed)
        return [str(draw(rng, "a", network=network, server=network)) for _ in range(40)]

    assert drawn(1) == drawn(1)
    assert drawn(1) != drawn(2)
    assert not [step for step in drawn(1, network=False) if "Cut" in step or "Server" in step]


def test_a_plan_survives_its_pipe() -> None:
    """
    What an instance reads is what was written.
    """
    job = JobPlan(name="job", every_ms=1_000, work_ms=(1, 2), options={"jitter": 0})
    plan = WorkerPlan(url="memory:", jobs=(job,), options={"lease": 3})

    assert plan == WorkerPlan.load(plan.dump())
    assert [0.001, 0.002, 0.002] == [job.work_s(attempt) for attempt in (1, 2, 3)]


@pytest.mark.slow
def test_a_scenario_is_played_and_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    One of the shortest, on a file: it holds, both reports are written, and the exit status is 0.
    """
    status = main(
        ["run", "--store", "sqlite", "--scenario", "nap", "--report", str(tmp_path / "out")]
    )
    data = json.loads((tmp_path / "out/report.json").read_text(encoding="utf-8"))

    assert 0 == status
    assert "HOLDS: 1 scenarios" in capsys.readouterr().out
    assert ["nap"] == [each["scenario"] for each in data["scenarios"]]
    assert "<svg" in (tmp_path / "out/report.html").read_text(encoding="utf-8")
