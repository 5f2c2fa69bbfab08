"""
Compare the next slot of cron schedules with croniter's get_next, and time the constructors.

Run it with `python -m bench.slots`. Both answer from the same instants, in
turns, in one process and in CPU time, so that a busy machine slows both. The
exit status is 1 if the median ratio is above a tenth.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

from croniter import croniter  # type: ignore[import-untyped]  # It comes without types.

from anarchon.slots import Cron, Every, Once
from anarchon.slots.parse import _parse

ZONE = "Europe/Berlin"
EXPRESSIONS = (
    "* * * * *",
    "*/5 * * * *",
    "0 8 * * 1-5",
    "0 4 13 * 5",
    "0 0 29 2 *",
    "0 0 * 2 1#5",
    "*/10 * * * * *",
)
RATIO_MAX = 0.10

# From 2026-12-01 on, a little more than three days apart, so that all times of day and both offsets come up.
FROM_MS = 1_796_083_185_500
STEP_MS = 277_777_777


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """
    What one answer costs, in microseconds of CPU time.
    """

    expression: str
    ours_us: float
    theirs_us: float

    @property
    def ratio(self) -> float:
        """
        Our cost in terms of theirs.
        """
        return self.ours_us / self.theirs_us


def compare(expression: str, *, instants: int, rounds: int) -> Comparison:
    """
    Time both from the same instants, in turns; the cheapest round of each counts.
    """
    starts_ms = [FROM_MS + STEP_MS * number for number in range(instants)]
    cron, zone = Cron(expression, ZONE), ZoneInfo(ZONE)
    # Their iterators are made beforehand, so that only the search is timed; ours has nothing to make.
    starts = [datetime.fromtimestamp(start_ms / 1000, zone) for start_ms in starts_ms]
    iterators = [croniter(expression, start, second_at_beginning=True) for start in starts]
    next_slot = cron.next_slot
    ours, theirs = [], []
    for _ in range(rounds):
        begun = time.process_time()
        found = [next_slot(start_ms) for start_ms in starts_ms]
        ours.append(time.process_time() - begun)
        begun = time.process_time()
        named = [
            iterator.get_next(float, start)
            for iterator, start in zip(iterators, starts, strict=True)
        ]
        theirs.append(time.process_time() - begun)
        # A fast answer that is another one would be worth nothing.
        assert [round(second * 1000) for second in named] == found, expression
    return Comparison(
        expression=expression,
        ours_us=min(ours) / instants * 1e6,
        theirs_us=min(theirs) / instants * 1e6,
    )


def compare_all(*, instants: int = 200, rounds: int = 5) -> list[Comparison]:
    """
    Compare over all expressions.
    """
    return [compare(expression, instants=instants, rounds=rounds) for expression in EXPRESSIONS]


def median_ratio(comparisons: list[Comparison]) -> float:
    """
    Return the middle one of the ratios.
    """
    return statistics.median(comparison.ratio for comparison in comparisons)


def constructor_us(make: Callable[[], object], *, repeats: int = 300) -> float:
    """
    Time a constructor, in microseconds of CPU time.
    """
    begun = time.process_time()
    for _ in range(repeats):
        make()
    return (time.process_time() - begun) / repeats * 1e6


def parsed_afresh(expression: str) -> Cron:
    """
    Make a schedule as if its expression had never been seen.
    """
    _parse.cache_clear()
    return Cron(expression, ZONE)


def main() -> int:
    """
    Print the comparison, and judge it.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--instants", type=int, default=200, help="how many instants a round")
    parser.add_argument(
        "--rounds", type=int, default=5, help="how many rounds; the cheapest counts"
    )
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    comparisons = compare_all(instants=options.instants, rounds=options.rounds)
    print(f"next slot, {ZONE}     ours us   croniter us   ratio")
    for comparison in comparisons:
        print(
            f"{comparison.expression:24} {comparison.ours_us:9.1f} {comparison.theirs_us:13.1f} {comparison.ratio:7.3f}"
        )
    median = median_ratio(comparisons)
    print(f"median ratio {median:.3f}, allowed {RATIO_MAX:.2f}")
    print()
    print("constructors              us")
    print(f"Every('10s')     {constructor_us(lambda: Every('10s')):11.1f}")
    print(f"Once(ms)         {constructor_us(lambda: Once(FROM_MS)):11.1f}")
    print(f"Cron, known text {constructor_us(lambda: Cron('0 8 * * 1-5', ZONE)):11.1f}")
    print(f"Cron, new text   {constructor_us(lambda: parsed_afresh('0 8 * * 1-5')):11.1f}")
    if options.json is not None:
        told = {"median_ratio": median, "rows": [asdict(each) for each in comparisons]}
        options.json.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
    return 0 if median <= RATIO_MAX else 1


if __name__ == "__main__":
    sys.exit(main())
