"""
The kit catches the faults that scripts in a server can have, and no sound backend.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anarchon.backend import Verdict
from anarchon.protocol import Now, decide_claim_only
from anarchon_conformance import run_clause
from anarchon_conformance.loading import load_profile
from anarchon_conformance.model import ClaimOnlyModel, Step, replay
from anarchon_conformance.running import prepare
from anarchon_conformance.test_properties import kit_settings

pytestmark = pytest.mark.slow

CAUGHT = [
    ("no_token", "CLM-5", "sound"),
    ("no_token", "FIN-4", "sound"),
    ("no_token", "RNW-3", "sound"),
    ("no_high", "CLM-6", "sound"),
    ("no_high", "LAT-1", "sound"),
    ("kept_token", "REL-2", "sound"),
    ("no_overlap", "OVL-1", "sound"),
    ("no_hint", "HNT-1", "sound"),
    ("split_steps", "CLM-1", "sound"),
    ("split_steps", "CLM-3", "sound"),
    ("rounded_slots", "FIN-1", "sound"),
    ("never_early", "LAT-5", "sound"),
    ("any_attempt", "TBL-1", "sound"),
    ("forgetful_script", "CLM-1", "sound_script"),
    ("blind_stream", "CLM-1", "sound_stream"),
    ("blind_ids", "CLM-1", "sound_ids"),
    ("early_script", "LAT-5", "sound_script"),
]


def load(name: str) -> Any:
    """
    Find a broken backend's profile, by the name that the kit's processes find it by, too.
    """
    return load_profile(f"redis_mutants:{name}")


@pytest.fixture(autouse=True)
def _mutants(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parent / "mutants")


@pytest.mark.parametrize(("mutant", "clause", "sound"), CAUGHT)
def test_the_kit_catches_a_fault(mutant: str, clause: str, sound: str) -> None:
    """
    Each fault fails the clause that names it.
    """
    run = run_clause(load(mutant), clause)

    assert "failed" == run.outcome, run.reason


@pytest.mark.parametrize(
    ("sound", "clause"), sorted({(sound, clause) for _, clause, sound in CAUGHT})
)
def test_the_kit_passes_the_same_without_it(sound: str, clause: str) -> None:
    """
    The same backend with its scripts as they are passes what the faults fail.
    """
    run = run_clause(load(sound), clause)

    assert "passed" == run.outcome, run.reason


def test_lost_messages_are_played() -> None:
    """
    The profile offers what the clause on lost requests and replies needs, and passes it.
    """
    run = run_clause(load_profile("redis-lease"), "CAN-5")

    assert "passed" == run.outcome, run.reason


class InOrder(ClaimOnlyModel):
    """
    The claim-only rules of a store whose memory is one mark: all up to the newest claimed slot is forgotten.
    """

    __slots__ = ()

    def answer(self, kind: str, request: Any, now: Now) -> Any:
        """
        Decide a claim with the mark, and everything else as ever.
        """
        if kind == "claim":
            held = self.rows.get((request.job, request.slot, 1))
            mark = max((slot for job, slot, _ in self.rows if job == request.job), default=None)
            answer = decide_claim_only(held.token if held else None, mark, request, now.wall_ms)
            if answer.verdict is not Verdict.WON or held is not None:
                return answer
        return super().answer(kind, request, now)


STEPS = st.builds(
    Step,
    kind=st.sampled_from(("claim", "claim", "finish")),
    job=st.sampled_from("aab"),
    aim=st.sampled_from(("own", "own", "later", "any")),
    slot=st.integers(0, 5),
    attempt=st.sampled_from((1, 1, 1, 2)),
    letter=st.sampled_from("xxy"),
    options=st.just({}),
)


@pytest.mark.parametrize("name", ["sound_stream", "blind_stream"])
def test_a_stream_follows_the_rules_with_a_mark(name: str) -> None:
    """
    What the kit's own clause cannot ask of a stream: its answers are the rules' where all older slots are forgotten.
    """
    bench = prepare(load(name))

    @kit_settings
    @given(plan=st.lists(STEPS, min_size=20, max_size=40))
    def follows(plan: list[Step]) -> None:
        steps = [
            replace(
                step,
                options={"status": "success"}
                if step.kind == "finish"
                else {"ahead": False, "expired": False, "too_old": False},
            )
            for step in plan
        ]
        asyncio.run(replay(bench, InOrder(), steps))

    if name == "sound_stream":
        follows()
    else:
        with pytest.raises(AssertionError):
            follows()
