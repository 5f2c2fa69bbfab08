"""
The command itself: its help, its version, its start.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from anarchon import __version__

Anarchon = Callable[..., Result]


def test_version_is_the_one_version(anarchon: Anarchon) -> None:
    """
    All distributions have one version, and the command says it.
    """
    assert f"anarchon {__version__}\n" == anarchon("--version").stdout


@pytest.mark.parametrize("command", ["run", "next", "history", "backends"])
def test_each_command_has_a_page(anarchon: Anarchon, command: str) -> None:
    """
    The help names every command, and each has its own page, by -h too.
    """
    assert command in anarchon("--help").stdout
    assert f"Usage: anarchon {command}" in anarchon(command, "-h").stdout


def test_help_imports_neither_the_core_nor_rich() -> None:
    """
    A help page is there at once: nothing is imported that it does not need.
    """
    code = (
        "import sys\n"
        "from anarchon_cli import main\n"
        "sys.argv = ['anarchon', '--help']\n"
        "try:\n"
        "    main()\n"
        "except SystemExit as end:\n"
        "    assert not end.code\n"
        "heavy = {'anarchon', 'asyncio', 'rich', 'sqlite3'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )

    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )

    assert (0, "") == (result.returncode, result.stderr)


def test_the_installed_command_and_the_module_are_one(folder: Path) -> None:
    """
    `anarchon` on a shell and `python -m anarchon_cli` say the same.
    """
    command = shutil.which("anarchon", path=str(Path(sys.executable).parent))
    assert command is not None
    outputs = {
        subprocess.run(
            [*start, "--help"], cwd=folder, capture_output=True, text=True, check=True
        ).stdout
        for start in ([command], [sys.executable, "-m", "anarchon_cli"])
    }

    assert 1 == len(outputs)


def test_a_reader_that_leaves_early_is_no_error(folder: Path) -> None:
    """
    `anarchon next … | head -1` ends quietly.
    """
    command = f'"{sys.executable}" -m anarchon_cli next --every 1s --count 10000 | head -1'

    result = subprocess.run(
        command, shell=True, cwd=folder, capture_output=True, text=True, check=False
    )

    assert (0, "") == (result.returncode, result.stderr)
    assert 1 == len(result.stdout.splitlines())
