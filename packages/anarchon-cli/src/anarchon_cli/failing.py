"""
How a command fails: in one line, with an exit status that says whose turn it is.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from anarchon_cli.text import printable

__all__ = ["CommandError", "UsageError", "in_one_line"]


class CommandError(Exception):
    """
    The command cannot do what it was asked for. The message is a complete sentence with the way out.
    """

    exit_code = 1


class UsageError(CommandError):
    """
    The command line itself is wrong: another one is needed.
    """

    exit_code = 2


@contextmanager
def in_one_line(*, show_traceback: bool = False) -> Iterator[None]:
    """
    Tell errors in one line on standard error, and end with their exit status.

    Whatever is neither a wrong command line nor an error of anarchon's passes
    through: where it came from is the first thing that one wants to know then.

    Raises:
        Exit: With 2 for a wrong command line, and 1 for every other error.
    """
    try:
        yield
    except Exception as error:
        from anarchon.errors import AnarchonError  # noqa: PLC0415 - a command line that is fine needs none

        if not isinstance(error, CommandError | AnarchonError):
            raise
        if show_traceback:
            traceback.print_exception(error)
        line = printable(" ".join(str(error).split())) or type(error).__name__
        print(f"anarchon: {line}", file=sys.stderr)  # noqa: T201 - this is the program's standard error
        raise typer.Exit(error.exit_code if isinstance(error, CommandError) else 1) from None
