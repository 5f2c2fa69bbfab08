"""
What all benchmarks of stores share: lines measured in turns, tables, and the figures as JSON.

Every round measures every line once, one after the other, and every other round
backwards, so that a machine which is busier for a while is so for all of them. What
counts is the ratio to the raw line of the same round; absolute times belong to the
machine.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

__all__ = [
    "Block",
    "Line",
    "Report",
    "Row",
    "Sizes",
    "Target",
    "arguments_of",
    "measure",
    "measured",
    "sizes_of",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """
    How much is measured: rounds, calls of one item in a round, items of a batch.
    """

    rounds: int
    singles: int
    batch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """
    One line in one round: how many items, how long they took, and each call's latency.
    """

    items: int
    wall_s: float
    cpu_s: float
    latencies_s: tuple[float, ...]

    @property
    def item_s(self) -> float:
        """
        What an item takes: the median of the calls, so that one pause does not decide.
        """
        return statistics.median(self.latencies_s) * len(self.latencies_s) / self.items


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """
    Something to measure, and the name of the line that it is compared with.
    """

    name: str
    against: str
    run: Callable[[], Awaitable[Block]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """
    One line of the table. `ratio` is what its item takes to what the other line's does.

    `paired` is that ratio in each round, from the best to the worst; `rounds_us` is what an
    item took in each round with all pauses in it, as it must be where calls of different
    lengths are compared: a long one has more pauses.
    """

    name: str
    against: str
    per_s: float
    p50_ms: float
    p99_ms: float
    cpu_us: float
    ratio: float
    paired: tuple[float, ...]
    rounds_us: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """
    What is aimed at: a ratio of the same run, and the bound that it should keep.
    """

    name: str
    figure: float
    bound: float
    at_least: bool = False

    @property
    def reached(self) -> bool:
        """
        Whether this run kept it.
        """
        return self.figure >= self.bound if self.at_least else self.figure <= self.bound

    def told(self) -> str:
        """
        Say it in a line.
        """
        limit = f"at {'least' if self.at_least else 'most'} {self.bound:g}"
        verdict = "reached" if self.reached else "not reached"
        return f"{self.name}: {self.figure:.2f} ({limit}): {verdict}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """
    What one benchmark found.
    """

    title: str
    sizes: Sizes
    rows: tuple[Row, ...]
    targets: tuple[Target, ...] = ()

    def row(self, name: str) -> Row:
        """
        Return the row of this name.
        """
        return next(row for row in self.rows if row.name == name)

    def show(self) -> None:
        """
        Print the table.
        """
        print(f"{self.title}, {self.sizes.rounds} rounds")
        print(f"{'':44}{'items/s':>9}{'p50 ms':>9}{'p99 ms':>9}{'CPU us':>8}{'ratio':>7}  to")
        for row in self.rows:
            print(
                f"{row.name:44}{row.per_s:9.0f}{row.p50_ms:9.2f}{row.p99_ms:9.2f}{row.cpu_us:8.1f}"
                f"{row.ratio:7.2f}  {row.against}"
            )
        print(
            "p50 and p99 are of a call; CPU is of this process for one item; ratio is what an item takes to the"
            " other line's, median of the rounds."
        )
        for target in self.targets:
            print(target.told())

    def write(self, path: Path) -> None:
        """
        Write the figures as JSON.
        """
        told = asdict(self)
        for target, found in zip(self.targets, told["targets"], strict=True):
            found["reached"] = target.reached
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")


async def measured(calls: Sequence[Callable[[], Awaitable[object]]], items: int) -> Block:
    """
    Make the calls one after the other.
    """
    latencies = []
    wall, cpu = time.perf_counter(), time.process_time()
    for call in calls:
        begin = time.perf_counter()
        await call()
        latencies.append(time.perf_counter() - begin)
    return Block(
        items=items,
        wall_s=time.perf_counter() - wall,
        cpu_s=time.process_time() - cpu,
        latencies_s=tuple(latencies),
    )


async def measure(lines: Sequence[Line], rounds: int) -> tuple[Row, ...]:
    """
    Measure every line in every round; one more round before them warms up, and is not counted.
    """
    blocks: dict[str, list[Block]] = {line.name: [] for line in lines}
    for number in range(rounds + 1):
        for line in reversed(lines) if number % 2 else lines:
            blocks[line.name].append(await line.run())
    return tuple(
        _summed_up(line, blocks[line.name][1:], blocks[line.against][1:]) for line in lines
    )


def _summed_up(line: Line, blocks: Sequence[Block], base: Sequence[Block]) -> Row:
    latencies = sorted(latency for block in blocks for latency in block.latencies_s)
    paired = sorted(mine.item_s / raw.item_s for mine, raw in zip(blocks, base, strict=True))
    return Row(
        name=line.name,
        against=line.against,
        per_s=1 / statistics.median(block.item_s for block in blocks),
        p50_ms=latencies[len(latencies) // 2] * 1_000,
        p99_ms=latencies[min(len(latencies) - 1, len(latencies) * 99 // 100)] * 1_000,
        cpu_us=statistics.median(block.cpu_s / block.items for block in blocks) * 1_000_000,
        ratio=statistics.median(paired),
        paired=tuple(paired),
        rounds_us=tuple(block.wall_s / block.items * 1_000_000 for block in blocks),
    )


def arguments_of(doc: str | None) -> argparse.ArgumentParser:
    """
    Make a parser of what every benchmark of a store can be told.
    """
    parser = argparse.ArgumentParser(
        description=doc, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--singles", type=int, default=100, help="calls of one item in a round")
    parser.add_argument("--batch", type=int, default=1_000, help="items of a batch")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    return parser


def sizes_of(options: argparse.Namespace) -> Sizes:
    """
    Read them from what the parser found.
    """
    return Sizes(rounds=options.rounds, singles=options.singles, batch=options.batch)
