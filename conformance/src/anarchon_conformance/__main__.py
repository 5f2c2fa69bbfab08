"""
Run the kit with a configuration of its own: the hermetic entrance.

``python -m anarchon_conformance --anarchon-backend=NAME`` takes every option of pytest.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

__all__ = ["main"]


def command(arguments: Sequence[str]) -> list[str]:
    """
    Build the command line of pytest.
    """
    return [
        sys.executable,
        *(f"-W{option}" for option in sys.warnoptions),
        "-m",
        "pytest",
        "-c",
        str(Path(__file__).with_name("kit.ini")),
        "--rootdir",
        str(Path.cwd()),
        "-p",
        "anarchon_conformance",
        "-p",
        "no:cacheprovider",
        "--pyargs",
        "anarchon_conformance",
        *arguments,
    ]


def main() -> None:
    """
    Become pytest. Options from the environment would not be the kit's own.
    """
    os.environ.pop("PYTEST_ADDOPTS", None)
    os.execv(sys.executable, command(sys.argv[1:]))  # noqa: S606 - our own interpreter, without a shell


if __name__ == "__main__":
    main()
