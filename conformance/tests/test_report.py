"""
Verdicts and certificates: what is said about which outcomes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

import pytest

from anarchon.capabilities import Capabilities
from anarchon.testing import open_memory
from anarchon_conformance import BackendProfile
from anarchon_conformance.clauses import CLAUSES
from anarchon_conformance.harness import Bench
from anarchon_conformance.report import as_json, as_markdown, as_text
from anarchon_conformance.running import prepare
from anarchon_conformance.verdict import Certificate, Outcome, TestOutcome, judge

EXPECTED = dict.fromkeys(CLAUSES, 1)
ALL = len(CLAUSES)
HINTS = [clause for clause in CLAUSES if clause.startswith("HNT")]


def bench_of(waived: Iterable[str] = ()) -> Bench:
    """
    Describe a backend that nobody opens.
    """
    waivers = dict.fromkeys(waived, "issue 12")
    return Bench(
        profile=BackendProfile(name="acme", open=open_memory, waivers=waivers),
        capabilities=Capabilities(leases=True, store_clock=True),
        service="acme 3.2",
        distribution="acme-anarchon 1.0",
    )


def outcomes(changed: dict[str, Outcome], *, without: Iterable[str] = ()) -> list[TestOutcome]:
    """
    Let every clause pass, but for some.
    """
    return [
        TestOutcome(
            backend="acme",
            clause=clause,
            outcome=changed.get(clause, Outcome.PASS),
            duration_ms=3,
            reason="because" if clause in changed else "",
        )
        for clause in CLAUSES
        if clause not in without
    ]


def judged(
    changed: dict[str, Outcome] | None = None,
    *,
    without: Iterable[str] = (),
    strict: bool = False,
    waived: Iterable[str] = (),
) -> Certificate:
    """
    Judge these outcomes.
    """
    told = outcomes(changed or {}, without=without)
    return judge(bench_of(waived), told, expected=EXPECTED, strict=strict)


def test_all_passed_conforms() -> None:
    """
    Every clause that applies has passed, and the line counts them.
    """
    certificate = judged(dict.fromkeys(HINTS, Outcome.NOT_APPLICABLE))

    assert certificate.conforms
    assert f"acme: CONFORMS (lease) — {ALL - 4} of {ALL - 4} clauses, 4 n/a" == certificate.line


def test_failed_must_fails() -> None:
    """
    The verdict names the clauses that failed.
    """
    certificate = judged({"CLM-1": Outcome.FAIL, "TKO-3": Outcome.FAIL})

    assert not certificate.conforms
    assert (
        f"acme: FAILS (lease) — CLM-1, TKO-3; {ALL - 2} of {ALL} clauses, 0 n/a" == certificate.line
    )


def test_missing_must_is_incomplete() -> None:
    """
    A MUST without an outcome is no pass.
    """
    certificate = judged(without=["CLM-1"])

    assert not certificate.conforms
    assert (
        f"acme: INCOMPLETE (lease) — {ALL - 1} of {ALL} clauses, 0 n/a, 1 not run"
        == certificate.line
    )


def test_missing_should_is_no_matter_unless_strict() -> None:
    """
    What only costs time decides only for who asks.
    """
    assert judged(without=["BAT-6"]).conforms
    assert not judged(without=["BAT-6"], strict=True).conforms


def test_fewer_tests_than_the_clause_has_is_incomplete() -> None:
    """
    A clause of two tests of which one ran has not passed.
    """
    expected = EXPECTED | {"CLM-1": 2}
    certificate = judge(bench_of(), outcomes({}), expected=expected, strict=False)

    assert "INCOMPLETE" == certificate.verdict


def test_nothing_run_is_never_a_pass() -> None:
    """
    Zero clauses, or none that applies, prove nothing.
    """
    nothing = judged(without=CLAUSES)
    not_applicable = judged(dict.fromkeys(CLAUSES, Outcome.NOT_APPLICABLE))

    assert ["INCOMPLETE"] * 2 == [nothing.verdict, not_applicable.verdict]


@pytest.mark.parametrize(
    ("count", "verdict"), [(1, "CONFORMS WITH 1 WAIVER"), (2, "CONFORMS WITH 2 WAIVERS")]
)
def test_waivers_are_counted(count: int, verdict: str) -> None:
    """
    Whoever waives something conforms with a word on it.
    """
    waived = ["HIS-4", "HIS-5"][:count]
    certificate = judged(dict.fromkeys(waived, Outcome.WAIVED), waived=waived)

    assert certificate.conforms
    assert verdict == certificate.verdict


def test_stale_waiver_fails() -> None:
    """
    A waiver that is no longer needed has to go, also when the clause does not apply.
    """
    passed = judged(waived=["HIS-4"])
    not_applicable = judged({"HIS-4": Outcome.NOT_APPLICABLE}, waived=["HIS-4"])

    assert (["HIS-4"], ["HIS-4"]) == (passed.failed, not_applicable.failed)


def test_note_is_told_and_does_not_decide() -> None:
    """
    A SHOULD that failed stands in the certificate.
    """
    certificate = judged({"BAT-6": Outcome.NOTE})

    assert certificate.conforms
    assert (
        f"acme: CONFORMS (lease) — {ALL - 1} of {ALL} clauses, 0 n/a, 1 noted" == certificate.line
    )


def test_worst_outcome_of_a_clause_decides() -> None:
    """
    One failure among passes is a failure.
    """
    told = [*outcomes({}), TestOutcome(backend="acme", clause="CLM-1", outcome=Outcome.FAIL)]
    certificate = judge(bench_of(), told, expected=EXPECTED, strict=False)

    assert ["CLM-1"] == certificate.failed


def test_clause_that_cannot_apply_is_not_missing() -> None:
    """
    What a selection leaves out counts as not run only where it would have run.
    """
    certificate = judged(without=CLAUSES)
    told = {each.clause.id: each.outcome for each in certificate.results}

    assert (Outcome.NOT_APPLICABLE, Outcome.MISSING) == (told["CLO-1"], told["CLM-1"])


def test_what_was_not_run_is_listed() -> None:
    """
    A selection names what it has left out, family by family.
    """
    lines = list(as_text(judged(without=["CLM-1", "CLM-2", "FIN-3"])))

    assert "not run       CLM 1 2, FIN 3" in lines


def test_other_backends_outcomes_are_not_mixed_in() -> None:
    """
    Two backends in one run have two certificates.
    """
    told = [*outcomes({}), TestOutcome(backend="other", clause="CLM-1", outcome=Outcome.FAIL)]
    certificate = judge(bench_of(), told, expected=EXPECTED, strict=False)

    assert certificate.conforms


def test_every_clause_is_in_every_report() -> None:
    """
    No clause gets lost between the run and the reader.
    """
    certificate = judged({"CLM-1": Outcome.FAIL})
    text = "\n".join(as_text(certificate))
    page = as_markdown([certificate])
    (plain,) = json.loads(as_json([certificate]))

    assert [] == [clause for clause in CLAUSES if f"\n{clause:7} " not in f"\n{text}"]
    assert [] == [clause for clause in CLAUSES if f"| {clause} |" not in page]
    assert list(CLAUSES) == list(plain["clauses"])
    assert "because" == plain["clauses"]["CLM-1"]["reason"]
    assert certificate.line == text.splitlines()[-1]


def test_brief_text_shows_what_went_wrong() -> None:
    """
    Quiet runs still name failures and their reasons.
    """
    lines = list(as_text(judged({"CLM-1": Outcome.FAIL}), brief=True))

    assert 1 == sum(line.startswith("CLM-") for line in lines)
    assert any("because" in line for line in lines)


def test_service_and_distribution_are_looked_up() -> None:
    """
    The certificate names the server in the backend's words, or the profile's, and what was installed.
    """
    own = prepare(BackendProfile(name="acme", open=open_memory))
    told = prepare(BackendProfile(name="acme", open=open_memory, service="acme 3.2"))
    asked = prepare(BackendProfile(name="acme", open=open_memory, service=lambda: "acme 4"))

    assert ["memory of this process", "acme 3.2", "acme 4"] == [
        own.service,
        told.service,
        asked.service,
    ]
    assert own.distribution.startswith("anarchon ")


def test_one_test_that_does_not_apply_speaks_for_its_clause() -> None:
    """
    A selection of a clause's tests says no less that the backend has not what they need.
    """
    told = [each for each in outcomes({"CLM-1": Outcome.NOT_APPLICABLE}) if each.backend == "acme"]
    certificate = judge(bench_of(), told, expected=EXPECTED | {"CLM-1": 2}, strict=False)

    assert certificate.conforms
