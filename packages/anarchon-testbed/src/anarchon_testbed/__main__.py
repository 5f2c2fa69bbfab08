"""
`python -m anarchon_testbed list` says which servers are here, `obtain` downloads what is missing, and `run` starts one
for the length of a command.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

from anarchon_testbed.cache import cache_folder
from anarchon_testbed.errors import TestbedError
from anarchon_testbed.having import available, obtain, served
from anarchon_testbed.recipes import recipes_for

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> int:
    """
    Run one command. Ends with 1 if something could not be obtained and CI=true, with 2 for a wrong name; `run` with its
    command's own status.
    """
    parser = argparse.ArgumentParser(prog="python -m anarchon_testbed", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="say which servers can be had here, and why others cannot")
    getting = commands.add_parser("obtain", help="download what is missing into the project")
    getting.add_argument("names", nargs="*", metavar="NAME", help="a server as `list` names it")
    running = commands.add_parser("run", help="start a server and run a command beside it")
    running.add_argument("name", metavar="NAME", help="a server as `list` names it")
    running.add_argument("words", nargs="+", metavar="-- COMMAND", help="gets the server's URL")
    options = parser.parse_args(arguments)
    try:
        if options.command == "run":
            return _run(options.name, options.words)
        found = available() if options.command == "list" else obtain(options.names)
    except TestbedError as error:
        _say(error, error=True)
        return 2
    for one in found:
        _say(one)
    missing = [one.name for one in found if one.version is None]
    if options.command == "obtain" and missing:
        ending = "which fails here (CI=true)" if _in_ci() else "their tests are skipped"
        _say(f"Not here: {', '.join(missing)}; {ending}. The cache is {cache_folder()}.")
        return int(_in_ci())
    return 0


def _run(name: str, words: list[str]) -> int:
    """
    Run a command with the URL of a server that lives as long as it, in the variable that tests read.
    """
    kind, _, version = name.partition("-")
    variable = recipes_for(kind, version or None)[0].variables[-1]
    with served(kind, version or None) as url:
        _say(f"{variable}={url}", error=True)
        environment = {**os.environ, variable: url}
        return subprocess.run(words, env=environment, check=False).returncode  # noqa: S603 - It is the user's own.


def _say(text: object, *, error: bool = False) -> None:
    print(text, file=sys.stderr if error else sys.stdout, flush=True)


def _in_ci() -> bool:
    return os.environ.get("CI") == "true"


if __name__ == "__main__":
    raise SystemExit(main())
