"""
The closing line counts what pytest's own files say.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tally import Tally, count, note_failure


@pytest.fixture
def junit(pytester: pytest.Pytester) -> Path:
    """
    Run one test of each outcome for real, and give the file that pytest writes.
    """
    pytester.makepyfile(
        """
        import pytest

        def test_pass(): pass
        def test_fail(): raise AssertionError
        def test_skip(): pytest.importorskip("no_such_module_anywhere")
        def test_na(record_property):
            record_property("outcome", "n/a")
            pytest.importorskip("no_such_module_anywhere")
        def test_noted(record_property):
            record_property("outcome", "note")
            pytest.xfail("a SHOULD that is not kept")
        def test_waived(record_property):
            record_property("outcome", "waived")
            pytest.xfail("waived: a reason")
        @pytest.fixture
        def broken(): raise RuntimeError
        def test_error(broken): pass
        """
    )
    path = pytester.path / "junit.xml"
    pytester.runpytest_subprocess(f"--junitxml={path}", "-p", "no:cacheprovider")
    return path


def test_each_outcome_counts_once(junit: Path) -> None:
    """
    Failures and errors are failures, by name; what does not apply, is noted or waived, is no skip; a skip is named.
    """
    tally = count(junit)
    counts = Tally(passed=1, failed=2, skipped=1, not_applicable=1, noted=1, waived=1)

    assert replace(counts, skips=tally.skips, failures=tally.failures) == tally
    assert ["test_fail", "test_error"] == [
        line.partition(": ")[0].rpartition("::")[2] for line in tally.failures
    ]
    assert "1 passed, 2 failed, 1 skipped" == tally.closing_line()
    assert "test_skip" in tally.skips[0]


def test_missing_file_counts_nothing(tmp_path: Path) -> None:
    """
    A run that died before it could write its file has no outcomes; its exit status tells.
    """
    assert Tally() == count(tmp_path / "never-written.xml")


def test_cut_off_file_counts_nothing(tmp_path: Path) -> None:
    """
    A file that was cut off in mid-write is no proof of anything.
    """
    path = tmp_path / "half.xml"
    path.write_text("<testsuites><testsuite><testcase", encoding="utf-8")

    assert Tally() == count(path)


def test_noted_failure_counts_again(tmp_path: Path) -> None:
    """
    A step that died is one failure in its own sum and in every later one.
    """
    path = tmp_path / "reports/step-status.xml"

    noted = note_failure(path, "step ended with 3")

    assert 1 == noted.failed
    assert "step ended with 3" in noted.failures[0]
    assert noted == count(path)
