"""
The command `anarchon-chaos`.
"""

from __future__ import annotations

import argparse
import asyncio
import secrets
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from anarchon_chaos.page import page
from anarchon_chaos.report import as_data, print_table, verdict
from anarchon_chaos.running import Case, Result, play_all
from anarchon_chaos.scenarios import SCENARIOS, cases, scenario
from anarchon_chaos.stores import STORES, named
from anarchon_chaos.summary import summarise

__all__ = ["choose", "longest_first", "main"]

_AT_ONCE = 4


def main(arguments: Sequence[str] | None = None) -> int:
    """
    Run the command. Ends with 0 if everything held, 1 if something did not, 2 for a wrong name.
    """
    parser = argparse.ArgumentParser(prog="anarchon-chaos", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="say which scenarios there are, and on which stores")
    run = commands.add_parser("run", help="play scenarios, and judge what they leave")
    run.add_argument(
        "--backend", "--store", action="append", default=[], dest="stores", metavar="STORE"
    )
    run.add_argument("--scenario", action="append", default=[], dest="scenarios", metavar="NAME")
    run.add_argument("--seed", type=int, help="what the random faults of `mixed` come from")
    run.add_argument("--bounded", action="store_true", help="only what continuous integration runs")
    run.add_argument("--repeat", type=int, default=1, help="play each so often")
    run.add_argument("--at-once", type=int, default=_AT_ONCE, help="how many to play at a time")
    run.add_argument("--report", type=Path, help="a folder for report.json and report.html")
    options = parser.parse_args(arguments)
    if options.command == "list":
        return _list()
    try:
        chosen = choose(
            options.stores, options.scenarios, bounded=options.bounded, seed=options.seed
        )
    except KeyError as error:
        parser.error(str(error.args[0]))
    return _run(
        chosen * options.repeat, at_once=options.at_once, folder=options.report, seed=options.seed
    )


def choose(
    stores: Sequence[str], names: Sequence[str], *, bounded: bool, seed: int | None
) -> list[Case]:
    """
    Pair what was asked for: the scenarios named, else all, with the stores named, else all, where they fit.

    Raises:
        KeyError: A name is unknown, or nothing fits.
    """
    wanted_stores = [named(name) for name in stores] or list(STORES)
    wanted = [scenario(name) for name in names]
    if wanted:
        pairs = [(one, store) for store in wanted_stores for one in wanted if one.fits(store)]
    else:
        pairs = [pair for pair in cases(bounded=bounded) if pair[1] in wanted_stores]
    if not pairs:
        raise KeyError("none of these scenarios fits any of these stores")
    return [Case(scenario=one, store=store, seed=seed) for one, store in pairs]


def longest_first(chosen: Sequence[Case]) -> list[Case]:
    """
    Order cases by their longest step: what takes twenty minutes is not to be begun last.
    """

    def step_ms(case: Case) -> int:
        return max((getattr(step, "ms", 0) for step in case.scenario.steps), default=0)

    return sorted(chosen, key=step_ms, reverse=True)


def _run(chosen: Sequence[Case], *, at_once: int, folder: Path | None, seed: int | None) -> int:
    console = Console(width=None if sys.stdout.isatty() else 200)

    def done(result: Result) -> None:
        word = "held" if result.held else "FAILED"
        why = result.trouble or next((each.problem for each in result.findings), None)
        words = f"{word:7} {result.case.name}" + (f": {why}" if why else "")
        console.print(words, markup=False, highlight=False)

    seed = secrets.randbelow(2**31) if seed is None else seed
    chosen = [replace(each, seed=seed, keep=folder) for each in longest_first(chosen)]
    results = asyncio.run(play_all(chosen, at_once=at_once, done=done))
    summaries = [summarise(result) for result in results]
    print_table(summaries, console)
    console.print(f"seed {seed}", markup=False, highlight=False)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "report.json").write_text(as_data(results, seed=seed), encoding="utf-8")
        title = "anarchon under chaos"
        (folder / "report.html").write_text(page(results, title=title), encoding="utf-8")
        console.print(f"written: {folder / 'report.json'}, {folder / 'report.html'}", markup=False)
    return 0 if verdict(summaries).startswith("HOLDS") else 1


def _list() -> int:
    console = Console(width=None if sys.stdout.isatty() else 200)
    for one in SCENARIOS:
        stores = ", ".join(store.name for store in STORES if one.fits(store))
        mark = "" if one.bounded else " (not in the bounded set)"
        console.print(f"{one.name}{mark}: {one.says}. On {stores}.", markup=False, highlight=False)
    return 0
