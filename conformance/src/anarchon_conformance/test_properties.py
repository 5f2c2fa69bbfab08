"""
The table as a whole: any sequence of requests is answered as the core's pure functions answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from anarchon_conformance.harness import Bench
from anarchon_conformance.marking import clause
from anarchon_conformance.model import ClaimOnlyModel, LeaseModel, Model, Step, replay

kit_settings = settings(
    deadline=None,
    derandomize=True,
    database=None,
    max_examples=100,
    phases=(Phase.generate,),
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)
"""
The settings of every property of the kit: nothing of the caller's profile gets in.
"""

_AIMS = st.sampled_from(("own",) * 5 + ("next",) * 2 + ("later",) * 3 + ("any",))
_SLOTS = st.integers(0, 5)
_ATTEMPTS = st.sampled_from((1, 1, 1, 2, 2, 3))
_LETTERS = st.sampled_from("xxxyz")
_FINGERPRINTS = st.sampled_from((None, "one", "two"))
_STATUSES = st.sampled_from(("success",) * 4 + ("failed", "interrupted", "skipped", "running"))
_RARELY = st.sampled_from((False,) * 11 + (True,))


def _step(kind: str, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Step]:
    return st.builds(
        Step,
        kind=st.just(kind),
        job=st.sampled_from("aaaab"),
        aim=_AIMS,
        slot=_SLOTS,
        attempt=_ATTEMPTS,
        letter=_LETTERS,
        options=st.fixed_dictionaries(fields),
    )


_CLAIM = _step(
    "claim",
    overlap=st.sampled_from(("skip", "skip", "wait")),
    takeover=st.sampled_from((True, True, True, False)),
    max_crashes=st.integers(1, 3),
    expired=_RARELY,
    too_old=_RARELY,
    ahead=_RARELY,
    fingerprint=_FINGERPRINTS,
    zone_digests=_FINGERPRINTS,
)
_FINISH = _step("finish", status=_STATUSES, error=st.sampled_from((None, "boom")))
_RENEW = _step("renew")
_RELEASE = _step("release", takeover=st.sampled_from((True, True, False)))
_REGISTER = _step(
    "register",
    empty=st.booleans(),
    ahead=_RARELY,
    fingerprint=_FINGERPRINTS,
    zone_digests=_FINGERPRINTS,
)


def _weighted(*steps: tuple[int, st.SearchStrategy[Step]]) -> st.SearchStrategy[Step]:
    """
    Draw one kind of step by weight; `one_of` takes each kind once, however often it is named.
    """
    places = [place for place, (weight, _) in enumerate(steps) for _ in range(weight)]
    return st.sampled_from(places).flatmap(lambda place: steps[place][1])


_LEASE_STEPS = _weighted((7, _CLAIM), (2, _FINISH), (1, _RENEW), (2, _RELEASE), (1, _REGISTER))
_CLAIM_ONLY_STEPS = _weighted((2, _CLAIM), (1, _FINISH))


def _exactly(size: int, steps: st.SearchStrategy[Step]) -> st.SearchStrategy[list[Step]]:
    """
    Draw a list of that size; left to itself Hypothesis makes most lists short.
    """
    return st.lists(steps, min_size=size, max_size=size)


def _shortest(bench: Bench, model: Callable[[], Model], plan: list[Step]) -> list[Step]:
    """
    Leave out every step without which the backend still differs from the table.

    Hypothesis would shrink further, and take minutes for it on a real store.
    """
    for place in reversed(range(len(plan))):
        shorter = plan[:place] + plan[place + 1 :]
        try:
            asyncio.run(replay(bench, model(), shorter))
        except AssertionError:
            plan = shorter
    return plan


def _follows(steps: st.SearchStrategy[Step], model: Callable[[], Model], bench: Bench) -> None:
    """
    Compare a backend with a model over many sequences of steps.
    """

    @kit_settings
    @given(plan=st.integers(1, 40).flatmap(lambda size: _exactly(size, steps)))
    def follows(plan: list[Step]) -> None:
        try:
            asyncio.run(replay(bench, model(), plan))
        except AssertionError:
            asyncio.run(replay(bench, model(), _shortest(bench, model, plan)))
            raise

    follows()


@clause("TBL-1")
def test_lease_answers_are_the_tables(bench: Bench) -> None:
    """
    Claims, takeovers, renewals, finishes, releases and registrations in any order, stale ones too.
    """
    _follows(_LEASE_STEPS, LeaseModel, bench)


@clause("TBL-2")
def test_claim_only_answers_are_the_rules(bench: Bench) -> None:
    """
    Claims and finishes in any order, repeated and stale ones too.
    """
    rising = bench.capabilities.rising_slots
    _follows(_CLAIM_ONLY_STEPS, lambda: ClaimOnlyModel(rising=rising), bench)
