"""
A certificate as text for the terminal, as JSON, and as Markdown; pure.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from anarchon_conformance.clauses import family_of
from anarchon_conformance.verdict import Certificate, Outcome

__all__ = ["as_json", "as_markdown", "as_text"]

_QUIET = (Outcome.PASS, Outcome.NOT_APPLICABLE)


def as_text(certificate: Certificate, *, brief: bool = False) -> Iterator[str]:
    """
    Write a certificate line by line; *brief* leaves out what went well.
    """
    yield f"service       {certificate.service}"
    yield f"distribution  {certificate.distribution}"
    yield f"versions      {_pairs(certificate.versions)}"
    yield f"capabilities  {_pairs(certificate.capabilities)}"
    for name, value in certificate.figures.items():
        yield f"{'figure':13} {name}: {value}"
    yield ""
    not_run = [
        result.clause.id
        for result in certificate.results
        if result.outcome is Outcome.MISSING and not result.reason
    ]
    for result in certificate.results:
        if result.clause.id in not_run or (brief and result.outcome in _QUIET):
            continue
        clause = result.clause
        yield f"{clause.id:7} {clause.level:6} {result.outcome:7} {result.duration_ms:6} ms  {clause.text}"
        if result.reason and result.outcome not in _QUIET:
            yield f"{'':34}{result.reason}"
    if not_run:
        yield f"not run       {_by_family(not_run)}"
    yield ""
    yield certificate.line


def as_json(certificates: Sequence[Certificate]) -> str:
    """
    Write certificates for machines.
    """
    return (
        json.dumps(
            [_plain(certificate) for certificate in certificates], indent=2, ensure_ascii=False
        )
        + "\n"
    )


def as_markdown(certificates: Sequence[Certificate]) -> str:
    """
    Write certificates for people who read them in a repository.
    """
    lines = ["# Conformance", ""]
    for certificate in certificates:
        lines += [f"## {certificate.backend}", "", f"**{certificate.line}**", ""]
        lines += [
            f"- service: {certificate.service}",
            f"- distribution: {certificate.distribution}",
        ]
        lines += [
            f"- versions: {_pairs(certificate.versions)}",
            f"- capabilities: {_pairs(certificate.capabilities)}",
        ]
        lines += [f"- {name}: {value}" for name, value in certificate.figures.items()]
        lines += ["", "| clause | level | outcome | ms | text |", "|---|---|---|---|---|"]
        for result in certificate.results:
            text = result.clause.text
            if result.reason and result.outcome not in _QUIET:
                text += f" ({result.reason})"
            cells = (
                result.clause.id,
                result.clause.level,
                result.outcome,
                str(result.duration_ms),
                _cell(text),
            )
            lines.append(f"| {' | '.join(cells)} |")
        lines.append("")
    return "\n".join(lines)


def _plain(certificate: Certificate) -> dict[str, Any]:
    return {
        "backend": certificate.backend,
        "verdict": certificate.verdict,
        "conforms": certificate.conforms,
        "line": certificate.line,
        "service": certificate.service,
        "distribution": certificate.distribution,
        "versions": dict(certificate.versions),
        "capabilities": dict(certificate.capabilities),
        "figures": dict(certificate.figures),
        "seed": "derandomized",
        "clauses": {
            result.clause.id: {
                "level": result.clause.level,
                "needs": list(result.clause.needs),
                "text": result.clause.text,
                "outcome": result.outcome,
                "duration_ms": result.duration_ms,
                "reason": result.reason,
            }
            for result in certificate.results
        },
    }


def _by_family(clauses: Sequence[str]) -> str:
    """
    Write many clause ids briefly: CLM 1 2 3, LAT 5.
    """
    families: dict[str, list[str]] = {}
    for clause in clauses:
        families.setdefault(family_of(clause), []).append(clause.partition("-")[2])
    return ", ".join(f"{family} {' '.join(numbers)}" for family, numbers in families.items())


def _pairs(values: Any) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
