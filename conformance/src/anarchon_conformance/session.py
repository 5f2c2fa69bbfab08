"""
The part of the plug-in that judges: it runs the kit's tests, gathers outcomes, reports.

It is registered only in runs that contain tests of the kit.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

import pytest

from anarchon_conformance.clauses import CLAUSES, Level
from anarchon_conformance.harness import Bench
from anarchon_conformance.loading import load_profiles
from anarchon_conformance.marking import clause_of
from anarchon_conformance.profile import ProfileError
from anarchon_conformance.report import as_json, as_markdown, as_text
from anarchon_conformance.running import call, expected_tests, prepare
from anarchon_conformance.verdict import Certificate, Outcome, TestOutcome, judge

__all__ = ["KitSession"]

_CLAUSE = "anarchon_clause"
_BACKEND = "anarchon_backend"
_OUTCOME = "anarchon_outcome"
_FIGURES = "anarchon_figures"
_WRITERS = {".json": as_json, ".md": as_markdown}


class KitSession:
    """
    One run of the kit within one run of pytest.

    Args:
        config: The run's configuration.

    Raises:
        pytest.UsageError: No backend was chosen, one cannot be loaded or opened, or
            a report has a suffix that nobody can write.
    """

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._strict = bool(config.getoption("--anarchon-strict"))
        self._reports = [Path(path) for path in config.getoption("--anarchon-report")]
        for path in self._reports:
            if path.suffix not in _WRITERS:
                msg = f"--anarchon-report={path}: the suffix is one of {', '.join(_WRITERS)}"
                raise pytest.UsageError(msg)
        chosen = config.getoption("--anarchon-backend") or config.getini("anarchon_backends")
        self.benches = self._prepared(chosen)
        self.names = [bench.profile.name for bench in self.benches]
        self._outcomes: list[TestOutcome] = []
        self._called: set[str] = set()
        self._certificates: list[Certificate] = []
        self._is_worker = hasattr(config, "workerinput")
        self._collection_failed = False

    def _prepared(self, chosen: Sequence[str]) -> list[Bench]:
        try:
            profiles = load_profiles(chosen, folder=str(self._config.invocation_params.dir))
        except ProfileError as error:
            raise pytest.UsageError(str(error)) from error
        benches = []
        for profile in profiles:
            try:
                benches.append(prepare(profile))
            except Exception as error:
                msg = f"backend {profile.name!r} cannot be opened: {type(error).__name__}: {error}"
                raise pytest.UsageError(msg) from error
        return benches

    def refuse_empty_collection(self) -> None:
        """
        End a run that asked for the kit and got none of its tests.

        Raises:
            pytest.UsageError: Always, unless collection itself went wrong.
        """
        if self._collection_failed:
            return
        msg = (
            "no test of the conformance kit was collected;"
            f" {self._config.inipath or 'your configuration'} hides them (python_files, python_functions, -k?)."
            " `python -m anarchon_conformance` runs the kit with a configuration of its own."
        )
        raise pytest.UsageError(msg)

    def note(self, items: Sequence[pytest.Item]) -> None:
        """
        Write on each test what the certificate has to know; it travels with the reports.
        """
        for item in items:
            bench, clause = self._subject(item)
            if bench is None or clause is None:
                continue
            item.user_properties.append((_CLAUSE, clause))
            item.user_properties.append((_BACKEND, bench.profile.name))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """
        Set a clause aside whose needs the backend does not declare.
        """
        bench, clause = self._subject(item)
        if bench is None or clause is None:
            return
        lacking = bench.missing(clause)
        if lacking is not None:
            item.user_properties.append((_OUTCOME, Outcome.NOT_APPLICABLE.value))
            raise pytest.skip.Exception(
                f"{clause} does not apply: {lacking}", _use_item_location=True
            )

    @pytest.hookimpl(tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem: pytest.Function) -> bool | None:
        """
        Run the kit's tests with a runner of its own: no other plug-in and no mode is needed.
        """
        bench, clause = self._subject(pyfuncitem)
        if bench is None or clause is None:
            return None
        names = pyfuncitem._fixtureinfo.argnames  # noqa: SLF001 - pytest's own runner does the same
        call(pyfuncitem.obj, bench, {name: pyfuncitem.funcargs[name] for name in names})
        return True

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """
        Turn the failure of a waived clause, or of a SHOULD, into what it means.
        """
        report = yield
        bench, clause = self._subject(item)
        if bench is None or clause is None or not report.failed:
            return report
        waiver = bench.profile.waivers.get(clause)
        if waiver is not None:
            self._soften(item, report, Outcome.WAIVED, f"waived: {waiver}")
        elif CLAUSES[clause].level is Level.SHOULD and not self._strict:
            reason = f"{clause} is a SHOULD: {report.longreprtext}"
            self._soften(item, report, Outcome.NOTE, reason)
        return report

    def _soften(
        self, item: pytest.Item, report: pytest.TestReport, outcome: Outcome, reason: str
    ) -> None:
        report.outcome = "skipped"
        report.wasxfail = reason
        # The report of this phase says it, and those of later ones, of which JUnit files take what they tell.
        for told in (report.user_properties, item.user_properties):
            told.append((_OUTCOME, outcome.value))

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        """
        Count apart what is neither passed, failed nor skipped.
        """
        if not report.skipped or report.when not in {"setup", "call"}:
            return None
        told = dict(report.user_properties).get(_OUTCOME)
        if told == Outcome.NOT_APPLICABLE.value:
            return "n/a", "-", "N/A"
        if told == Outcome.WAIVED.value:
            return "waived", "w", "WAIVED"
        if told == Outcome.NOTE.value:
            return "noted", "n", "NOTE"
        return None

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """
        Remember that collection failed, so that its own error is what people read.
        """
        self._collection_failed = self._collection_failed or report.failed

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """
        Gather the outcomes; under xdist they arrive here from the workers.
        """
        told = dict(report.user_properties)
        if self._is_worker or _CLAUSE not in told:
            return
        outcome = self._outcome(report, told)
        if outcome is None:
            return
        figures = told.get(_FIGURES)
        self._outcomes.append(
            TestOutcome(
                backend=str(told[_BACKEND]),
                clause=str(told[_CLAUSE]),
                outcome=outcome,
                duration_ms=round(report.duration * 1_000),
                reason=_reason(report),
                figures=json.loads(str(figures)) if figures and report.when == "call" else {},
            )
        )

    def _outcome(self, report: pytest.TestReport, told: dict[str, Any]) -> Outcome | None:
        """
        Read one report; None where its phase says nothing.

        A test that is run again until it passes has failed: a second winner that
        shows once in ten runs is a second winner.
        """
        if report.when == "call":
            again = report.nodeid in self._called
            self._called.add(report.nodeid)
            if again or report.outcome not in {"passed", "failed", "skipped"}:
                return Outcome.FAIL
        if report.failed:
            return Outcome.FAIL
        if report.skipped:
            softened = told.get(_OUTCOME)
            return Outcome(softened) if softened else Outcome.MISSING
        return Outcome.PASS if report.when == "call" else None

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """
        Judge, write the reports, and let the exit status say it.
        """
        if self._is_worker or self._config.option.collectonly:
            return
        self._certificates = [
            judge(bench, self._outcomes, expected=expected_tests(), strict=self._strict)
            for bench in self.benches
        ]
        for path in self._reports:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(_WRITERS[path.suffix](self._certificates), encoding="utf-8")
        if session.exitstatus == pytest.ExitCode.OK and not all(
            each.conforms for each in self._certificates
        ):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """
        Show each certificate, its verdict last.
        """
        for certificate in self._certificates:
            terminalreporter.section(f"anarchon conformance: {certificate.backend}")
            brief = terminalreporter.verbosity < 0
            for line in as_text(certificate, brief=brief):
                terminalreporter.write_line(line)
        if self._certificates and not self._outcomes and not self._collection_failed:
            terminalreporter.write_line(
                "No clause was run. If your configuration hides the kit's tests,"
                " `python -m anarchon_conformance` runs them with one of its own."
            )

    def _subject(self, item: pytest.Item) -> tuple[Bench | None, str | None]:
        """
        Tell which backend and which clause a test is about; None if it is not the kit's.
        """
        if not isinstance(item, pytest.Function):
            return None, None
        clause = clause_of(item.obj)
        spec = getattr(item, "callspec", None)
        bench = None if spec is None else spec.params.get("bench")
        return (bench, clause) if isinstance(bench, Bench) else (None, None)


def _reason(report: pytest.TestReport) -> str:
    """
    Say in one line why an outcome is what it is.
    """
    softened = getattr(report, "wasxfail", "")
    if softened:
        return str(softened).strip().splitlines()[-1] if "SHOULD" in softened else str(softened)
    if report.skipped and isinstance(report.longrepr, tuple):
        return str(report.longrepr[2]).removeprefix("Skipped: ")
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is not None:
        return str(crash.message).strip().splitlines()[0]
    return report.longreprtext.strip().splitlines()[-1] if report.longreprtext.strip() else ""
