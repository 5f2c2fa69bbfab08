"""
`python -m anarchon_testbed list` says which servers are here; `obtain` downloads what is missing.
"""

from __future__ import annotations

import argparse
import os
import sys

from anarchon_testbed.cache import cache_folder
from anarchon_testbed.errors import TestbedError
from anarchon_testbed.having import available, obtain

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> int:
    """
    Run one command. Ends with 1 if something could not be obtained and CI=true, with 2 for a wrong name.
    """
    parser = argparse.ArgumentParser(prog="python -m anarchon_testbed", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="say which servers can be had here, and why others cannot")
    getting = commands.add_parser("obtain", help="download what is missing into the project")
    getting.add_argument("names", nargs="*", metavar="NAME", help="a server as `list` names it")
    options = parser.parse_args(arguments)
    try:
        found = available() if options.command == "list" else obtain(options.names)
    except TestbedError as error:
        print(error, file=sys.stderr)  # noqa: T201 - It is a command.
        return 2
    for one in found:
        print(one)  # noqa: T201 - It is a command.
    missing = [one.name for one in found if one.version is None]
    if options.command == "obtain" and missing:
        ending = "which fails here (CI=true)" if _in_ci() else "their tests are skipped"
        print(f"Not here: {', '.join(missing)}; {ending}. The cache is {cache_folder()}.")  # noqa: T201 - It is a command.
        return int(_in_ci())
    return 0


def _in_ci() -> bool:
    return os.environ.get("CI") == "true"


if __name__ == "__main__":
    raise SystemExit(main())
