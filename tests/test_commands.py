"""
The repository's own commands do not deceive: no broken Python is chosen, no empty run ends green.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import closing
import prose
import pytest
import pythons
import repository

PICK = repository.ROOT / "tools/pick_python.sh"


def stand_in(folder: Path, name: str, body: str) -> Path:
    """
    Put a program of that name into a folder.
    """
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def pick(path: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """
    Run the choice with a PATH of our own.
    """
    return subprocess.run(
        ["/bin/sh", PICK],
        env={"PATH": path, **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_python_that_does_not_start_is_passed_over(tmp_path: Path) -> None:
    """
    A newer name that a version manager left behind does not hide an older Python that works.
    """
    stand_in(tmp_path / "shims", "python3.19", "exit 127")
    works = stand_in(tmp_path / "real", "python3.11", f'exec "{sys.executable}" "$@"')

    result = pick(f"{tmp_path / 'shims'}:{works.parent}")

    assert (0, f"{works}\n") == (result.returncode, result.stdout)


def test_the_newest_python_that_works_is_chosen(tmp_path: Path) -> None:
    """
    Order in PATH does not matter, the version does.
    """
    stand_in(tmp_path / "a", "python3.11", f'exec "{sys.executable}" "$@"')
    newer = stand_in(tmp_path / "b", "python3.12", f'exec "{sys.executable}" "$@"')

    assert f"{newer}\n" == pick(f"{tmp_path / 'a'}:{newer.parent}").stdout


def test_a_python_without_venv_is_refused_with_the_line_that_gets_it(tmp_path: Path) -> None:
    """
    Where venv is missing the message is one line, and it names the package.
    """
    without = f'case "$2" in *ensurepip*) exit 1;; esac\nexec "{sys.executable}" "$@"'
    stand_in(tmp_path, "python3.11", without)

    result = pick(str(tmp_path))

    assert 1 == result.returncode
    assert 1 == len(result.stderr.splitlines())
    assert f"python3.{sys.version_info.minor}-venv" in result.stderr


def test_no_python_at_all_is_said(tmp_path: Path) -> None:
    """
    An empty machine gets one line with the way out.
    """
    result = pick(str(tmp_path))

    assert 1 == result.returncode
    assert "make test PYTHON=" in result.stderr


def test_a_named_python_is_taken_or_refused(tmp_path: Path) -> None:
    """
    PYTHON= is obeyed; it is never replaced in silence.
    """
    stand_in(tmp_path, "python3.12", f'exec "{sys.executable}" "$@"')

    assert f"{sys.executable}\n" == pick(str(tmp_path), PYTHON=sys.executable).stdout
    assert 1 == pick(str(tmp_path), PYTHON="/bin/false").returncode


def test_this_python_is_among_those_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """
    The wheels are tried on interpreters that start; one that does not is left out.
    """
    version = (sys.version_info.major, sys.version_info.minor)
    stand_in(tmp_path, "python3.19", "exit 127")
    stand_in(tmp_path, f"python3.{version[1]}", f'exec "{sys.executable}" "$@"')
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "none"))

    assert [version] == list(pythons.supported())


CASE = '<testsuites><testsuite><testcase name="a">{}</testcase></testsuite></testsuites>'


@pytest.mark.parametrize(
    ("case", "gates_failed", "suite_status", "expected"),
    [
        ("", 0, 0, "1 passed, 0 failed, 0 skipped"),
        ("", 2, 0, "1 passed, 2 failed, 0 skipped"),
        ("", 0, 3, "1 passed, 1 failed, 0 skipped"),
        ("<failure/>", 0, 1, "0 passed, 2 failed, 0 skipped"),
        (None, 0, 0, "0 passed, 1 failed, 0 skipped"),
    ],
    ids=["fine", "gates", "suite broke", "nothing passed", "nothing ran"],
)
def test_closing_line_is_green_only_for_tests_that_ran(
    tmp_path: Path, case: str | None, gates_failed: int, suite_status: int, expected: str
) -> None:
    """
    A gate, a suite that broke before it could count, and a run without one passed test are failures.
    """
    files = []
    if case is not None:
        files.append(tmp_path / "quick.xml")
        files[0].write_text(CASE.format(case), encoding="utf-8")

    tally = closing.total(files, gates_failed=gates_failed, suite_status=suite_status)

    assert expected == tally.closing_line()


def test_measured_tests_do_not_count_twice(tmp_path: Path) -> None:
    """
    The coverage gate runs tests of the suite again; only the suite's own file counts.
    """
    for name in ("quick.xml", "coverage.xml"):
        (tmp_path / name).write_text(CASE.format(""), encoding="utf-8")

    tally = closing.total(sorted(tmp_path.glob("*.xml")), gates_failed=0, suite_status=0)

    assert 1 == tally.passed


def test_every_script_of_the_makefile_exists() -> None:
    """
    A target that calls a script which is not there is a promise that fails on a newcomer.
    """
    makefile = (repository.ROOT / "Makefile").read_text(encoding="utf-8")
    scripts = re.findall(r"\S+/\S+\.(?:py|sh)\b", makefile)

    assert len(scripts) > 4
    assert [] == [name for name in scripts if not (repository.ROOT / name).is_file()]


def test_readme_names_two_commands() -> None:
    """
    The first visit takes exactly two commands, and the Makefile has both.
    """
    text = (repository.ROOT / "README.md").read_text(encoding="utf-8")
    consoles = [
        block.code for block in prose.blocks(Path("README.md"), text) if block.language == "console"
    ]
    makefile = (repository.ROOT / "Makefile").read_text(encoding="utf-8")

    assert ["$ make demo\n$ make test\n"] == consoles
    assert all(f"\n{target}: " in makefile for target in ("demo", "test"))
