"""
Say what the repository consists of, for its scripts and its tests.
"""

from __future__ import annotations

import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
VERSION_FILE = ROOT / "packages/anarchon/src/anarchon/_version.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """
    One wheel's worth of source.
    """

    folder: Path
    name: str
    module: str

    @property
    def source(self) -> Path:
        """
        The folder of its one top-level package.
        """
        return self.folder / "src" / self.module

    @property
    def project(self) -> dict[str, Any]:
        """
        Its pyproject.toml.
        """
        return tomllib.loads((self.folder / "pyproject.toml").read_text(encoding="utf-8"))


def distributions() -> list[Distribution]:
    """
    Find every distribution, the core first.
    """
    found = []
    for file in sorted([*ROOT.glob("packages/*/pyproject.toml"), *ROOT.glob("*/pyproject.toml")]):
        name = tomllib.loads(file.read_text(encoding="utf-8"))["project"]["name"]
        found.append(Distribution(folder=file.parent, name=name, module=name.replace("-", "_")))
    return sorted(
        found, key=lambda distribution: (distribution.name != "anarchon", distribution.name)
    )


def files(*suffixes: str) -> Iterator[Path]:
    """
    Give every text file of the repository with one of the suffixes, whether committed or about to be.

    Without git, as in an unpacked archive, every file counts that is not in a folder which starts with a dot.
    """
    for path in every_file():
        if path.suffix in suffixes:
            yield path


def every_file() -> Iterator[Path]:
    """
    Give every file of the repository, text or not; see files().
    """
    for path in _listed() if shutil.which("git") and (ROOT / ".git").exists() else _walked():
        if path.is_file():
            yield path


def _listed() -> list[Path]:
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    output = subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout
    return sorted({ROOT / name for name in output.decode().split("\0") if name})


def _walked() -> list[Path]:
    return sorted(
        path
        for path in ROOT.rglob("*")
        if not any(
            part.startswith(".") or part in {"dist", "reports"}
            for part in path.relative_to(ROOT).parts
        )
    )
