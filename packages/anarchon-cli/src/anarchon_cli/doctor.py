"""
What endangers an installation, and what to do about it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Final

from anarchon.backend import Backend
from anarchon.clock import Clock, SystemClock
from anarchon.durations import duration_ms
from anarchon.errors import BackendError, DefinitionError, StoreUnavailableError
from anarchon.job import Job
from anarchon.operating import Diagnosable, Finding, JobLister, KnownJob, Severity
from anarchon.registry import backend_from_url
from anarchon.slots.zones import zone_rules
from anarchon_cli.checks import ClockSample, check_clock, check_jobs, check_runs, check_zones
from anarchon_cli.failing import UsageError
from anarchon_cli.loading import load_scheduler
from anarchon_cli.reading import opened_to_read
from anarchon_cli.screen import print_json_lines
from anarchon_cli.text import printable

__all__ = ["examine", "show_findings"]

_SAMPLES: Final = 5
_ORDER: Final = list(Severity)


def show_findings(
    target: str | None, *, url: str | None, timeout: str, strict: bool, as_json: bool
) -> bool:
    """
    Print what was found, the worst last, and say whether all is well.

    Args:
        target: The scheduler whose jobs are compared with the store's.

        url: The store; None takes the scheduler's own.

        timeout: How long the store may take for an answer, as a duration.

        strict: A warning is not well either.

        as_json: Print one JSON object a line.

    Raises:
        UsageError: Neither names a store, or *target* names no scheduler.

        AnarchonError: The URL or the duration cannot be read.
    """
    timeout_ms = duration_ms(timeout, what="--timeout")
    jobs: Sequence[Job] | None = None
    findings: list[Finding] = []
    if target is not None:
        scheduler = load_scheduler(target)
        backend = scheduler.backend.clone() if url is None else backend_from_url(url)
        try:
            scheduler.use(backend.clone())
        except DefinitionError as error:
            findings.append(
                Finding(
                    check="options",
                    severity=Severity.PROBLEM,
                    message=str(error),
                    advice="A scheduler with this store does not start: change the option, or take another store.",
                )
            )
        else:
            jobs = scheduler.jobs
    elif url is not None:
        backend = backend_from_url(url)
    else:
        msg = "doctor needs a store: --backend URL, for example --backend sqlite:///jobs.db, or MODULE:SCHEDULER."
        raise UsageError(msg)
    findings += asyncio.run(examine(backend, jobs, clock=SystemClock(), timeout_ms=timeout_ms))
    findings.sort(key=lambda finding: _ORDER.index(finding.severity))
    if as_json:
        print_json_lines(asdict(finding) for finding in findings)
    else:
        _print(findings)
    bad = {Severity.PROBLEM, Severity.WARNING} if strict else {Severity.PROBLEM}
    return not any(finding.severity in bad for finding in findings)


async def examine(
    backend: Backend, jobs: Sequence[Job] | None, *, clock: Clock, timeout_ms: int
) -> list[Finding]:
    """
    Look at a store, and compare it with the jobs of the code if there are any.

    A store that does not answer is a finding like any other.
    """
    findings = [_zone_rules()]
    try:
        async with opened_to_read(backend, timeout_ms=timeout_ms) as reader:
            findings.append(
                Finding(check="store", severity=Severity.FINE, message=f"{reader.service} answers.")
            )
            await _look(reader, jobs, findings, clock=clock, timeout_ms=timeout_ms)
    except BackendError as error:
        findings.append(
            Finding(
                check="store",
                severity=Severity.PROBLEM,
                message=f"{error}.".replace("..", "."),
                advice="Look whether the store runs, and can be reached from here."
                if isinstance(error, StoreUnavailableError)
                else "Do what the message says, or look whether the URL names the right store.",
            )
        )
    return findings


async def _look(
    reader: Backend,
    jobs: Sequence[Job] | None,
    findings: list[Finding],
    *,
    clock: Clock,
    timeout_ms: int,
) -> None:
    """
    Add what is found, so that what was seen before an error is told as well.
    """
    samples = await _clock_samples(reader, clock, timeout_ms)
    findings += check_clock(samples)
    now_ms = samples[-1].store_ms if samples else clock.wall_ms()
    if isinstance(reader, Diagnosable):
        findings += await reader.diagnose(timeout_ms=timeout_ms)
    else:
        findings.append(_unknown("settings", "what its settings endanger"))
    if not isinstance(reader, JobLister):
        findings.append(_unknown("jobs", "which jobs it knows"))
        return
    known: Sequence[KnownJob] = await reader.known_jobs(timeout_ms=timeout_ms)
    findings += check_runs(known)
    if jobs is not None:
        by_name = {job.job: job for job in known}
        leases = reader.capabilities.leases
        findings += check_jobs(jobs, by_name, leases=leases, now_ms=now_ms)
        findings += check_zones(jobs, by_name, rules=zone_rules(), now_ms=now_ms)


async def _clock_samples(reader: Backend, clock: Clock, timeout_ms: int) -> list[ClockSample]:
    samples = []
    for _ in range(_SAMPLES):
        sent_ms = clock.wall_ms()
        store_ms = await reader.time(timeout_ms=timeout_ms)
        if store_ms is not None:
            samples.append(
                ClockSample(sent_ms=sent_ms, received_ms=clock.wall_ms(), store_ms=store_ms)
            )
    return samples


def _zone_rules() -> Finding:
    rules = zone_rules()
    finding = Finding(
        check="zone-rules",
        severity=Severity.FINE,
        message=f"The rules of time zones come from {rules}.",
    )
    if rules != "system":
        return finding
    return replace(
        finding,
        severity=Severity.NOTE,
        message="The rules of time zones come from this system (ANARCHON_TZ=system).",
        advice="Keep them alike on all machines; by default they come from the tzdata distribution of the application.",
    )


def _unknown(check: str, what: str) -> Finding:
    return Finding(
        check=check,
        severity=Severity.NOTE,
        message=f"This backend does not say {what}.",
    )


def _print(findings: Sequence[Finding]) -> None:
    """
    Print a finding a line, what to do under it, and how many of each kind there are.
    """
    width = max(len(finding.check) for finding in findings)
    for finding in findings:
        line = f"{finding.severity:8} {finding.check:{width}}  {printable(finding.message)}"
        print(line)  # noqa: T201 - this is the program's output
        if finding.advice:
            print(f"{'':{width + 9}}  -> {printable(finding.advice)}")  # noqa: T201 - the same
    counts = Counter(finding.severity for finding in findings)
    told = [f"{counts[severity]} {severity}" for severity in reversed(_ORDER) if counts[severity]]
    print(", ".join(told))  # noqa: T201 - the same
