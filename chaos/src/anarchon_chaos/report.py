"""
The report for people at a terminal, and for programs.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from rich.console import Console
from rich.table import Table

from anarchon_chaos.running import Result
from anarchon_chaos.summary import Summary, bites, counted, percentile, pooled, summarise
from anarchon_testbed import used

__all__ = ["as_data", "print_table", "verdict"]

_PROBLEMS_SHOWN_MAX = 20


def verdict(summaries: Sequence[Summary]) -> str:
    """
    Say in one line what came of it all. Nothing played is no success.
    """
    failed = [summary for summary in summaries if not summary.held]
    if not summaries:
        return "NOTHING PLAYED"
    if failed:
        names = ", ".join(f"{each.scenario} on {each.store}" for each in failed)
        return f"FAILS: {names}"
    return f"HOLDS: {len(summaries)} scenarios"


def print_table(summaries: Sequence[Summary], console: Console) -> None:
    """
    Print a line for each scenario, what is wrong below, and what it comes to on each store.
    """
    table = Table(title="chaos", title_justify="left")
    for name in ("store", "scenario", "held"):
        table.add_column(name, no_wrap=True)
    for name in (
        "runs",
        "executions",
        "overlap ms",
        "takeovers",
        "p50/p99/bound ms",
        "fenced",
        "missed",
    ):
        table.add_column(name, justify="right")
    table.add_column("faults seen to bite")
    for each in sorted(summaries, key=lambda summary: (summary.store, summary.scenario)):
        p50, p99 = percentile(each.takeover_ms, 50), percentile(each.takeover_ms, 99)
        table.add_row(
            each.store,
            each.scenario,
            "yes" if each.held else "NO",
            str(each.runs),
            " ".join(f"{count}x{times}" for times, count in each.executions.items()),
            f"{each.overlap_ms:.1f}",
            str(each.takeovers),
            f"{p50}/{p99}/{each.bound_ms}" if each.takeover_ms else "-",
            str(each.fenced),
            str(each.missed),
            bites(each),
        )
    console.print(table)
    for each in summaries:
        for problem in each.problems[:_PROBLEMS_SHOWN_MAX]:
            console.print(f"{each.scenario} on {each.store}: {problem}", markup=False)
        if (more := len(each.problems) - _PROBLEMS_SHOWN_MAX) > 0:
            console.print(f"{each.scenario} on {each.store}: and {more} more", markup=False)
    for each in summaries:
        for words in counted(each):
            console.print(f"{each.scenario} on {each.store}: {words}", markup=False)
    for store, pool in pooled(summaries).items():
        console.print(f"{store}: {pool}", markup=False)
    console.print(verdict(summaries), markup=False)


def as_data(results: Sequence[Result], *, seed: int | None) -> str:
    """
    Give the report as JSON.
    """
    summaries = [summarise(result) for result in results]
    data: dict[str, Any] = {
        "anarchon": version("anarchon"),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "servers": used(),
        "seed": seed,
        "verdict": verdict(summaries),
        "stores": {store: pool.as_data() for store, pool in pooled(summaries).items()},
        "scenarios": [summary.as_data() for summary in summaries],
    }
    return json.dumps(data, indent=2) + "\n"
