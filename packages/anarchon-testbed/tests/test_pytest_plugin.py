"""
A run of pytest says which servers it used, shows their logs, and is honest about those it lacked.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

LACKING = """
import anarchon_testbed as testbed
import pytest

def test_without():
    testbed.pgbouncer(None).__enter__()

@pytest.fixture
def server():
    with testbed.redis("8.6") as server:
        yield server

def test_by_fixture(server):
    raise AssertionError("It is not reached.")
"""


@pytest.mark.parametrize(
    ("ci", "outcomes"),
    [("", {"skipped": 2}), ("true", {"failed": 1, "errors": 1})],
    ids=["laptop", "ci"],
)
def test_a_server_that_cannot_be_had_skips_on_a_laptop_and_fails_in_ci(
    pytester: pytest.Pytester,
    monkeypatch: pytest.MonkeyPatch,
    bare: Path,
    ci: str,
    outcomes: dict[str, int],
) -> None:
    """
    Whether the test or its fixture asks, the reason is the testbed's own.
    """
    monkeypatch.setenv("CI", ci)
    pytester.makepyfile(LACKING)

    result = pytester.runpytest_inprocess("-rs", "-p", "no:cacheprovider")

    result.assert_outcomes(**outcomes)
    result.stdout.fnmatch_lines(["*redis-8.6 is not here*obtain redis-8.6*"])


def test_a_failed_test_shows_the_log_and_the_run_names_its_servers(
    pytester: pytest.Pytester,
) -> None:
    """
    The end of each running server's log stands below the failure, and the last lines say what was used.
    """
    pytester.makepyfile(
        """
        import anarchon_testbed as testbed
        import pytest

        @pytest.fixture(scope="module")
        def server():
            with testbed.redis(own=True) as server:
                yield server

        def test_fine(server):
            assert server.managed

        def test_failing(server):
            raise AssertionError("as tests do")
        """
    )

    result = pytester.runpytest_inprocess("-p", "no:cacheprovider")

    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(
        [
            "*log of redis-*, its end*",
            "*Ready to accept connections*",
            "anarchon testbed: used *redis *",
        ]
    )


def test_the_header_names_what_the_environment_gives(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A run against somebody's own server says so in its first lines; the URL itself may hold a password and stays out.
    """
    monkeypatch.setenv("ANARCHON_TEST_REDIS_URL", "redis://:secret@127.0.0.1:1/0")
    pytester.makepyfile("def test_nothing(): pass")

    result = pytester.runpytest_inprocess("-p", "no:cacheprovider")

    result.stdout.fnmatch_lines(["anarchon testbed: servers given by ANARCHON_TEST_REDIS_URL"])
    result.stdout.no_fnmatch_line("*secret*")


def test_the_plugin_weighs_nothing() -> None:
    """
    A run of pytest that asks for no server loads the plug-in's own module and nothing else of the testbed.
    """
    program = (
        "import sys, pytest, anarchon_testbed.pytest_plugin;"
        "print(sorted(name for name in sys.modules if name.startswith('anarchon')))"
    )
    told = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    ).stdout

    assert "['anarchon_testbed', 'anarchon_testbed.pytest_plugin']\n" == told
