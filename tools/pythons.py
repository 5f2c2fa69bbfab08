"""
Find the Pythons of this machine that the distributions support.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

OLDEST = (3, 11)
MINORS_MAX = 20

_PROBE = (
    "import ensurepip, sys, venv\n"
    "assert sys.version_info.releaselevel == 'final'\n"
    "print(*sys.version_info[:3], sys.executable, sep='\\n')\n"
)


def supported() -> dict[tuple[int, int], Path]:
    """
    Give one interpreter for each minor version from 3.11 up, oldest first: one that starts and can make a virtual
    environment. The folders of PATH are asked before the versions that pyenv keeps.
    """
    found: dict[tuple[int, int], Path] = {}
    for candidate in _candidates():
        probed = _probe(candidate)
        if probed is not None and probed[0] >= OLDEST:
            found.setdefault(*probed)
    return dict(sorted(found.items()))


def _candidates() -> Iterator[Path]:
    names = [f"python{OLDEST[0]}.{minor}" for minor in range(OLDEST[1], MINORS_MAX)]
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        yield from (Path(folder) / name for name in names if folder)
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from sorted(root.glob("versions/*/bin/python"), reverse=True)


def _probe(candidate: Path) -> tuple[tuple[int, int], Path] | None:
    if not os.access(candidate, os.X_OK):
        return None
    try:
        result = subprocess.run(
            [candidate, "-c", _PROBE],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=20,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    if result.returncode:
        return None
    major, minor, _, executable = result.stdout.splitlines()
    return (int(major), int(minor)), Path(executable)
