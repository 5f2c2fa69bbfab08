"""
From the outcomes of tests to a verdict; pure.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from importlib.metadata import version
from typing import Any

from anarchon_conformance.clauses import CLAUSES, Clause, Level
from anarchon_conformance.harness import Bench

__all__ = ["Certificate", "ClauseResult", "Outcome", "TestOutcome", "judge"]


class Outcome(StrEnum):
    """
    What a certificate says of one clause.

    STALE is a waiver that is no longer needed; MISSING is a clause that should have
    been run and was not.
    """

    PASS = "pass"  # noqa: S105 - no password: the word of the certificate
    FAIL = "FAIL"
    NOT_APPLICABLE = "n/a"
    WAIVED = "waived"
    STALE = "STALE"
    NOTE = "note"
    MISSING = "missing"


_AGAINST = (Outcome.FAIL, Outcome.STALE)


@dataclass(frozen=True, slots=True, kw_only=True)
class TestOutcome:
    """
    What became of one phase of one test.
    """

    __test__ = False  # pytest collects what is called Test…

    backend: str
    clause: str
    outcome: Outcome
    duration_ms: int = 0
    reason: str = ""
    figures: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClauseResult:
    """
    One row of a certificate.
    """

    clause: Clause
    outcome: Outcome
    duration_ms: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """
    What the kit found out about one backend.
    """

    backend: str
    service: str
    distribution: str
    versions: Mapping[str, str]
    capabilities: Mapping[str, Any]
    results: Sequence[ClauseResult]
    figures: Mapping[str, Any]
    verdict: str
    conforms: bool

    @property
    def failed(self) -> list[str]:
        """
        The clauses that count against the backend.
        """
        return [result.clause.id for result in self.results if result.outcome in _AGAINST]

    @property
    def line(self) -> str:
        """
        The verdict in one line.
        """
        kind = "lease" if self.capabilities["leases"] else "claim-only"
        count = dict.fromkeys(Outcome, 0)
        for result in self.results:
            count[result.outcome] += 1
        applicable = len(self.results) - count[Outcome.NOT_APPLICABLE]
        parts = [
            f"{count[Outcome.PASS]} of {applicable} clauses",
            f"{count[Outcome.NOT_APPLICABLE]} n/a",
        ]
        if count[Outcome.NOTE]:
            parts.append(f"{count[Outcome.NOTE]} noted")
        if count[Outcome.MISSING]:
            parts.append(f"{count[Outcome.MISSING]} not run")
        if self.failed:
            parts = [f"{', '.join(self.failed)}; {parts[0]}", *parts[1:]]
        return f"{self.backend}: {self.verdict} ({kind}) — {', '.join(parts)}"


def judge(
    bench: Bench, outcomes: Sequence[TestOutcome], *, expected: Mapping[str, int], strict: bool
) -> Certificate:
    """
    Judge one backend.

    Args:
        bench: The backend.

        outcomes: What became of the tests, of every backend.

        expected: How many tests each clause has; with fewer outcomes it is missing.

        strict: Whether a SHOULD decides.
    """
    profile = bench.profile
    own = [outcome for outcome in outcomes if outcome.backend == profile.name]
    results = []
    figures: dict[str, Any] = {}
    for clause in CLAUSES.values():
        mine = [outcome for outcome in own if outcome.clause == clause.id]
        outcome = _of_clause(
            mine, expected=expected.get(clause.id, 0), waived=clause.id in profile.waivers
        )
        lacking = None if mine else bench.missing(clause.id)
        if lacking is not None and outcome is Outcome.MISSING:
            outcome = Outcome.NOT_APPLICABLE
        reasons = [each.reason for each in mine if each.reason]
        if outcome is Outcome.STALE:
            reasons = [f"passes now; the waiver is no longer needed: {profile.waivers[clause.id]}"]
        results.append(
            ClauseResult(
                clause=clause,
                outcome=outcome,
                duration_ms=sum(each.duration_ms for each in mine),
                reason=reasons[-1] if reasons else "",
            )
        )
        for each in mine:
            figures.update(each.figures)
    verdict, conforms = _verdict(results, strict=strict)
    return Certificate(
        backend=profile.name,
        service=bench.service,
        distribution=bench.distribution,
        versions={
            "anarchon": version("anarchon"),
            "anarchon-conformance": version("anarchon-conformance"),
            "python": platform.python_version(),
        },
        capabilities=asdict(bench.capabilities),
        results=tuple(results),
        figures=figures,
        verdict=verdict,
        conforms=conforms,
    )


def _of_clause(outcomes: Sequence[TestOutcome], *, expected: int, waived: bool) -> Outcome:
    """
    Sum up the tests of one clause; the worst of them decides.
    """
    seen = [each.outcome for each in outcomes]
    for decisive in (Outcome.FAIL, Outcome.WAIVED):
        if decisive in seen:
            return decisive
    not_applicable = Outcome.NOT_APPLICABLE in seen  # One test of the clause speaks for all.
    if not not_applicable and (Outcome.MISSING in seen or len(seen) < max(expected, 1)):
        return Outcome.MISSING
    if Outcome.NOTE in seen:
        return Outcome.NOTE
    if waived:
        return Outcome.STALE
    return Outcome.NOT_APPLICABLE if not_applicable else Outcome.PASS


def _verdict(results: Sequence[ClauseResult], *, strict: bool) -> tuple[str, bool]:
    """
    Say the verdict, and whether the backend conforms. Nothing run is never a pass.
    """
    deciding = [result for result in results if strict or result.clause.level is Level.MUST]
    if any(result.outcome in _AGAINST for result in results):
        return "FAILS", False
    passed = any(result.outcome is Outcome.PASS for result in deciding)
    if not passed or any(result.outcome is Outcome.MISSING for result in deciding):
        return "INCOMPLETE", False
    waived = sum(result.outcome is Outcome.WAIVED for result in results)
    if waived:
        return f"CONFORMS WITH {waived} WAIVER{'S' if waived > 1 else ''}", True
    return "CONFORMS", True
