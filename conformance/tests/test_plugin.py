"""
The plug-in in a stranger's project: what it refuses, what it runs, and what the exit status says.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable

import pytest

from anarchon_conformance.clauses import CLAUSES

Run = Callable[..., pytest.RunResult]

# Memory has leases, and lives in one process without anything between.
ELSEWHERE = {"claim-only", "processes", "proxy", "line"}
NOT_APPLICABLE = sum(not ELSEWHERE.isdisjoint(clause.needs) for clause in CLAUSES.values())
APPLICABLE = len(CLAUSES) - NOT_APPLICABLE

USAGE_ERROR = pytest.ExitCode.USAGE_ERROR
BROKEN = """
from contextlib import asynccontextmanager
from dataclasses import replace

from anarchon.memory import MemoryBackend, MemoryStore
from anarchon_conformance import BackendProfile

class Forgetful(MemoryBackend):
    async def history(self, job, *, limit, timeout_ms):
        records = await super().history(job, limit=limit, timeout_ms=timeout_ms)
        return [replace(record, instance_id="?") for record in records]

STORES = {}

@asynccontextmanager
async def open_it(namespace, *, retention=None):
    backend = Forgetful(STORES.setdefault(namespace, MemoryStore()))
    await backend.open(timeout_ms=1_000)
    try:
        yield backend
    finally:
        await backend.close()

@asynccontextmanager
async def no_server(namespace, *, retention=None):
    raise ConnectionRefusedError("nobody listens")
    yield

profile = BackendProfile(name="broken", open=open_it)
waived = BackendProfile(name="waived", open=open_it, waivers={"NAM-4": "labels are secret, issue 12"})
stale = BackendProfile(name="stale", open=open_it, waivers={"NAM-5": "slots were in seconds once"})
unknown = BackendProfile(name="unknown", open=open_it, waivers={"XYZ-1": "no idea"})
absent = BackendProfile(name="absent", open=no_server)
number = 7
"""


@pytest.fixture
def acme(pytester: pytest.Pytester) -> None:
    """
    Put a stranger's module with profiles into the folder where pytest is started.
    """
    pytester.makepyfile(acme=BROKEN)


def _error_lines(result: pytest.RunResult) -> list[str]:
    return [line for line in result.stderr.lines if line.startswith("ERROR")]


def test_no_backend_is_a_usage_error(kit: Run) -> None:
    """
    No configuration is never zero tests and a green light: one line says what to do.
    """
    result = kit("test_names")
    (line,) = _error_lines(result)

    assert USAGE_ERROR == result.ret
    assert "--anarchon-backend=NAME|MODULE:ATTRIBUTE" in line
    assert "Installed: memory, memory-claim" in line


@pytest.mark.parametrize(
    ("backend", "words"),
    [
        ("nobody", "no installed profile is named 'nobody'"),
        ("no_such_module:profile", "cannot be imported: ModuleNotFoundError"),
        ("acme:nothing", "cannot be imported: AttributeError"),
        ("acme:number", "neither a BackendProfile nor a function"),
        ("acme:unknown", "waives XYZ-1, which is no clause"),
        ("acme:absent", "cannot be opened: ConnectionRefusedError: nobody listens"),
    ],
)
def test_unusable_backend_is_one_line(kit: Run, acme: None, backend: str, words: str) -> None:
    """
    What cannot be loaded or opened is told at the start, without a traceback.
    """
    result = kit("test_names", f"--anarchon-backend={backend}")
    (line,) = _error_lines(result)

    assert USAGE_ERROR == result.ret
    assert words in line


def test_two_profiles_of_one_name_are_refused(kit: Run, acme: None) -> None:
    """
    A certificate must say which of them it is about.
    """
    result = kit("test_names", "--anarchon-backend=acme:profile", "--anarchon-backend=acme:profile")

    assert USAGE_ERROR == result.ret
    assert "two of the chosen profiles are named 'broken'" in _error_lines(result)[0]


def test_unknown_report_suffix_is_refused(kit: Run) -> None:
    """
    Nobody waits for the whole kit to hear that its report cannot be written.
    """
    result = kit("test_names", "--anarchon-backend=memory", "--anarchon-report=out.txt")

    assert USAGE_ERROR == result.ret
    assert "the suffix is one of .json, .md" in _error_lines(result)[0]


def test_hidden_tests_are_a_usage_error(kit: Run, pytester: pytest.Pytester) -> None:
    """
    A configuration that hides the kit's tests is named, with the way around it.
    """
    pytester.makeini("[pytest]\npython_files = check_*.py\n")
    result = kit("", "--anarchon-backend=memory")

    assert USAGE_ERROR == result.ret
    assert "tox.ini hides them" in _error_lines(result)[0]
    assert "python -m anarchon_conformance" in _error_lines(result)[0]


def test_one_selected_test_is_incomplete(kit: Run) -> None:
    """
    A selection that passes is no verdict, and no green light.
    """
    result = kit("test_names", "--anarchon-backend=memory", "-k", "test_slots_are_exact")

    assert pytest.ExitCode.TESTS_FAILED == result.ret
    result.assert_outcomes(passed=1, deselected=5)
    counts = f"1 of {APPLICABLE} clauses, {NOT_APPLICABLE} n/a, {APPLICABLE - 1} not run"
    result.stdout.fnmatch_lines([f"memory: INCOMPLETE (lease) *{counts}"])


def test_strangers_strictness_harms_nothing(kit: Run, pytester: pytest.Pytester) -> None:
    """
    Strict markers, warnings as errors, another import mode and a foreign async mode are all fine.
    """
    pytester.makeini(
        "[pytest]\naddopts = --strict-markers --strict-config --import-mode=importlib\n"
        "filterwarnings = error\nxfail_strict = true\nanarchon_backends = memory memory-claim\n"
    )
    result = kit("test_names")

    result.assert_outcomes(passed=12)
    result.stdout.fnmatch_lines(["memory: INCOMPLETE*", "memory-claim: INCOMPLETE*"])


def test_native_tables_configure_it(kit: Run, pytester: pytest.Pytester) -> None:
    """
    In a [tool.pytest] table the backends are a list.
    """
    pytester.makepyprojecttoml('[tool.pytest]\nstrict = true\nanarchon_backends = ["memory"]\n')
    result = kit("test_growth")

    result.assert_outcomes(passed=1)


def test_without_autoload_it_is_asked_for_by_name(
    kit: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Where plug-ins are not loaded by themselves, the entry point's name loads this one.
    """
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    arguments = ("-p", "anarchon_conformance", "--anarchon-backend=memory")
    result = kit("test_growth", *arguments, alone=True)

    result.assert_outcomes(passed=1)


def test_clause_that_does_not_apply_is_counted_apart(kit: Run) -> None:
    """
    What a backend does not declare is neither passed nor skipped.
    """
    result = kit("test_hints", "--anarchon-backend=memory-claim")

    result.stdout.fnmatch_lines(["*4 n/a in *"])
    result.stdout.fnmatch_lines(["HNT-1   MUST   n/a *"])
    assert "skipped" not in result.stdout.lines[-1]


def test_failure_fails(kit: Run, acme: None) -> None:
    """
    A MUST that fails is named in the verdict.
    """
    result = kit("test_names", "--anarchon-backend=acme:profile")

    assert pytest.ExitCode.TESTS_FAILED == result.ret
    result.stdout.fnmatch_lines(["broken: FAILS (lease) — NAM-4;*"])


def test_waived_failure_is_told_with_its_reason(kit: Run, acme: None) -> None:
    """
    A waiver turns a failure into a line of the certificate, not into nothing.
    """
    result = kit("test_names", "--anarchon-backend=acme:waived")

    result.stdout.fnmatch_lines(["*waived: labels are secret, issue 12*", "*1 waived*"])
    result.stdout.no_fnmatch_line("*FAILS*")


def test_what_is_waived_is_no_skip_in_a_junit_file(
    kit: Run, acme: None, pytester: pytest.Pytester
) -> None:
    """
    Whoever counts by the file can tell a waiver from a test that was not run.
    """
    kit("test_names", "--anarchon-backend=acme:waived", "--junitxml=told.xml")
    told = (pytester.path / "told.xml").read_text(encoding="utf-8")

    assert 1 == told.count('name="anarchon_outcome" value="waived"')


def test_waiver_that_is_not_needed_fails(kit: Run, acme: None) -> None:
    """
    A waiver outlives its reason only until the next run.
    """
    result = kit("test_names", "--anarchon-backend=acme:stale", "-k", "test_slots_are_exact")

    assert pytest.ExitCode.TESTS_FAILED == result.ret
    result.stdout.fnmatch_lines(["*STALE*", "stale: FAILS (lease) — NAM-5;*"])


def test_rerun_is_a_failure(kit: Run, pytester: pytest.Pytester) -> None:
    """
    A second winner that shows in one run of ten is a second winner: running again proves nothing.
    """
    pytester.makeconftest(
        """
        from _pytest.runner import runtestprotocol

        def pytest_runtest_protocol(item, nextitem):
            item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
            for _ in range(2):
                runtestprotocol(item, nextitem=nextitem)
            return True
        """
    )
    result = kit("test_growth", "--anarchon-backend=memory")

    assert pytest.ExitCode.TESTS_FAILED == result.ret
    result.stdout.fnmatch_lines(["memory: FAILS (lease) — GRW-1;*"])


def test_foreign_skip_is_no_outcome(kit: Run, pytester: pytest.Pytester) -> None:
    """
    A test that somebody else's plug-in skips has not been run.
    """
    pytester.makeconftest(
        """
        import pytest

        def pytest_collection_modifyitems(items):
            for item in items:
                item.add_marker(pytest.mark.skip(reason="not today"))  # The inner run skips on purpose.
        """
    )
    result = kit("test_growth", "--anarchon-backend=memory")

    assert pytest.ExitCode.TESTS_FAILED == result.ret
    result.stdout.fnmatch_lines(["GRW-1   MUST   missing*", "*not today*", "memory: INCOMPLETE*"])


def test_outcomes_arrive_from_workers(kit: Run, pytester: pytest.Pytester, acme: None) -> None:
    """
    Under xdist the controller judges what its workers saw, figures and failures too.
    """
    kit(
        "test_names",
        "anarchon_conformance.test_batch",
        "-n",
        "2",
        "--anarchon-backend=acme:waived",
        "--anarchon-backend=acme:profile",
        "--anarchon-report=out/report.json",
        alone=True,
    )
    told = json.loads((pytester.path / "out/report.json").read_text(encoding="utf-8"))
    names = [
        [each["clauses"][f"NAM-{number}"]["outcome"] for number in range(1, 6)] for each in told
    ]
    batches = {
        each["clauses"][f"BAT-{number}"]["outcome"] for each in told for number in range(1, 6)
    }

    assert ["waived", "broken"] == [each["backend"] for each in told]
    assert ["pass", "pass", "pass", "waived", "pass"] == names[0]
    assert ["pass", "pass", "pass", "FAIL", "pass"] == names[1]
    assert {"pass"} == batches
    assert "raw round trip" in told[0]["figures"]


def test_reports_are_written(kit: Run, pytester: pytest.Pytester) -> None:
    """
    The certificate is written as JSON and as Markdown, by the suffix.
    """
    kit(
        "test_growth",
        "--anarchon-backend=memory",
        "--anarchon-report=report.json",
        "--anarchon-report=report.md",
    )
    (told,) = json.loads((pytester.path / "report.json").read_text(encoding="utf-8"))
    page = (pytester.path / "report.md").read_text(encoding="utf-8")

    assert ("memory", "INCOMPLETE", False) == (told["backend"], told["verdict"], told["conforms"])
    assert "pass" == told["clauses"]["GRW-1"]["outcome"]
    assert told["capabilities"]["leases"] is True
    assert "| GRW-1 | MUST | pass |" in page


def test_collecting_alone_gives_no_verdict(kit: Run) -> None:
    """
    Whoever lists the tests has judged nothing.
    """
    result = kit("test_growth", "--anarchon-backend=memory", "--collect-only")

    assert pytest.ExitCode.OK == result.ret
    result.stdout.no_fnmatch_line("*INCOMPLETE*")


def test_module_runs_the_kit_hermetically(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, acme: None
) -> None:
    """
    `python -m anarchon_conformance` needs no configuration, and suffers from none.
    """
    monkeypatch.setenv("PYTEST_ADDOPTS", "--no-such-option")
    pytester.makeini("[pytest]\npython_files = check_*.py\naddopts = --neither-this-one\n")
    result = pytester.run(
        sys.executable,
        "-W",
        "error",
        "-m",
        "anarchon_conformance",
        "--anarchon-backend=acme:profile",
        "-k",
        "test_slots_are_exact",
    )

    assert pytest.ExitCode.TESTS_FAILED == result.ret
    result.stdout.fnmatch_lines([f"broken: INCOMPLETE (lease) *1 of {APPLICABLE} clauses*"])


def test_other_peoples_runs_are_left_alone(pytester: pytest.Pytester) -> None:
    """
    A run that has nothing to do with the kit notices nothing of it.
    """
    pytester.makepyfile(
        """
        import sys

        def test_nothing_was_imported(pytestconfig):
            loaded = {name for name in sys.modules if name.startswith("anarchon_conformance")}

            assert {"anarchon_conformance", "anarchon_conformance.plugin"} == loaded
            assert not pytestconfig.pluginmanager.has_plugin("anarchon_conformance_session")
        """
    )
    result = pytester.runpytest_subprocess("-p", "no:hypothesispytest", "-p", "no:cacheprovider")

    result.assert_outcomes(passed=1)
