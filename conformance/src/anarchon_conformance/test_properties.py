"""
The table as a whole: any sequence of requests is answered as the core's pure functions answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anarchon_conformance.harness import Bench
from anarchon_conformance.marking import clause
from anarchon_conformance.model import ClaimOnlyModel, LeaseModel, Step, replay

kit_settings = settings(
    deadline=None,
    derandomize=True,
    database=None,
    max_examples=60,
    suppress_health_check=list(HealthCheck),
)
"""
The settings of every property of the kit: nothing of the caller's profile gets in.
"""

_SLOTS = st.integers(0, 5)
_ATTEMPTS = st.sampled_from((1, 1, 1, 2, 2, 3))
_LETTERS = st.sampled_from("xxxyz")
_FINGERPRINTS = st.sampled_from((None, "one", "two"))
_STATUSES = st.sampled_from(("success", "success", "failed", "interrupted", "skipped", "running"))


def _step(kind: str, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Step]:
    return st.builds(
        Step,
        kind=st.just(kind),
        job=st.sampled_from("ab"),
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
    expired=st.sampled_from((False, False, False, False, True)),
    too_old=st.sampled_from((False, False, False, False, True)),
    ahead=st.sampled_from((False, False, False, False, True)),
    fingerprint=_FINGERPRINTS,
    zone_digests=_FINGERPRINTS,
)
_FINISH = _step("finish", status=_STATUSES, error=st.sampled_from((None, "boom")))
_LEASE_STEPS = st.one_of(
    _CLAIM,
    _CLAIM,
    _FINISH,
    _step("renew"),
    _step("release", takeover=st.sampled_from((True, True, False))),
    _step(
        "register",
        empty=st.booleans(),
        ahead=st.sampled_from((False, False, False, True)),
        fingerprint=_FINGERPRINTS,
        zone_digests=_FINGERPRINTS,
    ),
)


def _follows(steps: st.SearchStrategy[Step], model: Callable[[], Any], bench: Bench) -> None:
    """
    Compare a backend with a model over many sequences of steps.
    """

    @kit_settings
    @given(plan=st.lists(steps, min_size=1, max_size=30))
    def follows(plan: list[Step]) -> None:
        asyncio.run(replay(bench, model(), plan))

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
    _follows(st.one_of(_CLAIM, _FINISH), ClaimOnlyModel, bench)
