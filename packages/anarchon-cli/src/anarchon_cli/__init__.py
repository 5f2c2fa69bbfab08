"""
Run a scheduler and read its history from a shell.
"""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """
    Run the command `anarchon` with the arguments of this process, and end the process.
    """
    from anarchon_cli.app import app  # noqa: PLC0415 - importing this package must not cost a command line

    app(prog_name="anarchon")
