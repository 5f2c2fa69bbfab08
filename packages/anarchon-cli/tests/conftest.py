"""
The command as a user meets it: in a folder of their own, with modules of their own.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from anarchon_cli.app import app

Anarchon = Callable[..., Result]
Written = Callable[[str], str]

_NUMBERS = itertools.count()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """
    Stand in an empty folder, with a search path that is put back afterwards.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    return tmp_path


@pytest.fixture
def written(folder: Path) -> Written:
    """
    Write a module into the folder, and return its name, which no other test has.
    """

    def write(code: str) -> str:
        name = f"users_module_{next(_NUMBERS)}"
        (folder / f"{name}.py").write_text(code, encoding="utf-8")
        return name

    return write


@pytest.fixture
def anarchon(folder: Path) -> Anarchon:
    """
    Call the command in this process.
    """

    def call(*arguments: str) -> Result:
        return CliRunner().invoke(app, arguments, prog_name="anarchon", catch_exceptions=False)

    return call
