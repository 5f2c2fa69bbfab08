"""
Programs that Go makes from their published source, where a Go of this machine can.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from anarchon_testbed.errors import ServerUnavailableError

__all__ = ["install_program", "why_not_go"]

_GO_SECONDS_MAX = 600


def why_not_go() -> str | None:
    """
    Say why no program can be made here, or nothing if it can.
    """
    return None if shutil.which("go") else "no go in PATH to make it with"


def install_program(module: str, target: Path) -> None:
    """
    Make the one program of a module's version, by `go install`, and put it at `target`.

    The downloads stay in Go's own caches, as pip's stay in pip's. Raises ServerUnavailableError with Go's own words.
    """
    made = target.parent / "made"
    try:
        result = subprocess.run(  # noqa: S603 - The module is the testbed's own choice.
            ["go", "install", module],  # noqa: S607 - It is whatever Go the user has.
            env={**os.environ, "GOBIN": str(made), "GOFLAGS": ""},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_GO_SECONDS_MAX,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ServerUnavailableError(
            f"go install {module} took longer than {_GO_SECONDS_MAX} s: is the network there?"
        ) from None
    if result.returncode:
        last = "\n".join(result.stderr.strip().splitlines()[-5:])
        raise ServerUnavailableError(f"go install {module} failed, in its own words:\n{last}")
    # It is named after its folder in the source, which says little.
    (program,) = made.iterdir()
    program.rename(target)
    made.rmdir()
