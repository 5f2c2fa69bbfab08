"""
``python -m anarchon_simulation``: sweep over seeds, or replay one.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from anarchon_simulation.drawing import draw_plan
from anarchon_simulation.rows import ROWS
from anarchon_simulation.scenario import run_plan
from anarchon_simulation.sweep import Sweep, sweep

_TELL_EVERY_S = 10.0


def main(arguments: Sequence[str] | None = None) -> int:
    """
    Run the command; returns its exit status: 1 when a rule did not hold.
    """
    parser = argparse.ArgumentParser(
        prog="python -m anarchon_simulation",
        description="Run anarchon's scheduler on virtual time, with faults drawn from seeds.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    many = commands.add_parser("sweep", help="run many seeds on all cores")
    many.add_argument("--seeds", type=int, default=500, help="how many (500)")
    many.add_argument("--from", type=int, default=0, dest="first", help="the first one (0)")
    many.add_argument("--processes", type=int, default=None, help="as many as cores by default")
    many.add_argument("--minutes", type=float, default=None, help="end after so long (never)")
    one = commands.add_parser("replay", help="run one seed, and draw its timeline")
    one.add_argument("seed", type=int)
    one.add_argument("--rows", type=int, default=200, help="how many rows to draw (200)")
    for command in (many, one):
        command.add_argument("--order", choices=("fifo", "task"), default="fifo")
    options = parser.parse_args(arguments)
    if options.command == "replay":
        outcome = run_plan(draw_plan(options.seed, order=options.order))
        _say(outcome.report(rows_max=options.rows))
        return int(not outcome.ok)
    seeds = range(options.first, options.first + options.seeds)
    return _sweep(seeds, options.order, options.processes, options.minutes)


def _sweep(seeds: range, order: str, processes: int | None, minutes: float | None) -> int:
    began_s = told_s = time.monotonic()
    total = Sweep()
    told = 0
    for total in sweep(
        seeds,
        order="task" if order == "task" else "fifo",
        processes=processes,
    ):
        for failure in total.failures[told:]:
            _say(f"seed {failure.seed}: {failure.broken[0]}")
        told = len(total.failures)
        if time.monotonic() - told_s > _TELL_EVERY_S:
            told_s = time.monotonic()
            _say(f"{total.seeds} seeds, {total.failed} failed, {told_s - began_s:.0f} s")
        if minutes is not None and time.monotonic() - began_s > minutes * 60:
            _say(f"stopped after {minutes:g} minutes, with {total.seeds} of {len(seeds)} seeds")
            break
    for failure in total.failures[:3]:
        _say("", failure.report)
    _say("", "what went wrong, and how often:")
    _say(*(f"  {count:9}  {name}" for name, count in sorted(total.fired.items())))
    _say("rows of the table that answered, and how often:")
    _say(*(f"  {count:9}  {name}" for name, count in sorted(total.rows.items())))
    unmet = sorted(ROWS - set(total.rows))
    if unmet:
        _say("rows that were never met:", *(f"             {name}" for name in unmet))
    failed = [str(failure.seed) for failure in total.failures]
    _say(
        "",
        f"{total.seeds} seeds ({order}), {total.steps} steps, {time.monotonic() - began_s:.0f} s:"
        f" {total.failed} failed" + (f", among them {', '.join(failed)}" if failed else ""),
    )
    return int(total.failed > 0)


def _say(*lines: str) -> None:
    sys.stdout.write("\n".join(lines) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    raise SystemExit(main())
