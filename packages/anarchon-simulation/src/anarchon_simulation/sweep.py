"""
Many seeds on all cores, and what was met on the way.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing.connection import wait

from anarchon_simulation.drawing import draw_plan
from anarchon_simulation.lanes import Order
from anarchon_simulation.scenario import run_plan

__all__ = ["Failure", "Sweep", "run_seeds", "sweep"]

_CHUNK = 10
_FAILURES_KEPT = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """
    A seed that broke a rule, with its report.
    """

    seed: int
    broken: tuple[str, ...]
    report: str


@dataclass(slots=True, kw_only=True)
class Sweep:
    """
    What many seeds came to.
    """

    seeds: int = 0
    steps: int = 0
    failed: int = 0
    failures: list[Failure] = field(default_factory=list)
    fired: Counter[str] = field(default_factory=Counter)
    rows: Counter[str] = field(default_factory=Counter)

    def add(self, other: Sweep) -> None:
        """
        Add what other seeds came to.
        """
        self.seeds += other.seeds
        self.steps += other.steps
        self.failed += other.failed
        self.failures.extend(other.failures[: _FAILURES_KEPT - len(self.failures)])
        self.fired.update(other.fired)
        self.rows.update(other.rows)


def run_seeds(seeds: Iterable[int], *, order: Order = "fifo") -> Sweep:
    """
    Run seeds one after the other, in this process.
    """
    total = Sweep()
    for seed in seeds:
        outcome = run_plan(draw_plan(seed, order=order))
        one = Sweep(seeds=1, steps=outcome.steps, fired=outcome.fired, rows=outcome.rows)
        if not outcome.ok:
            one.failed = 1
            one.failures = [Failure(seed=seed, broken=outcome.broken, report=outcome.report())]
        total.add(one)
    return total


def sweep(
    seeds: range, *, order: Order = "fifo", processes: int | None = None, chunk: int = _CHUNK
) -> Iterator[Sweep]:
    """
    Run seeds on all cores; yields the total so far, now and then.

    However this process ends, its workers end with it.

    Args:
        seeds: Which.

        order: How loops order their work.

        processes: How many processes; as many as there are cores by default.

        chunk: How many seeds a process takes at a time.
    """
    total = Sweep()
    chunks = [seeds[start : start + chunk] for start in range(0, len(seeds), chunk)]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(
        processes or os.cpu_count(), mp_context=context, initializer=_end_with_parent
    ) as pool:
        for part in pool.map(_run_chunk, [(chunk, order) for chunk in chunks]):
            total.add(part)
            yield total


def _end_with_parent() -> None:
    """
    Watch the process that began this one: a worker whose parent was killed would wait for work for ever.
    """
    parent = multiprocessing.parent_process()
    assert parent is not None
    sentinel = parent.sentinel

    def watch() -> None:
        wait([sentinel])
        os._exit(1)  # Nobody is left who could hear of anything.

    threading.Thread(target=watch, daemon=True, name="anarchon-parent-watch").start()


def _run_chunk(work: tuple[range, Order]) -> Sweep:
    seeds, order = work
    return run_seeds(seeds, order=order)
