"""
What a result comes to, in figures.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from anarchon import Status
from anarchon_chaos.excuses import forgettable, started_again
from anarchon_chaos.history import MS, bodies, overlaps, takeovers
from anarchon_chaos.running import Result

__all__ = ["Pool", "Summary", "bites", "counted", "percentile", "pooled", "summarise"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """
    One line of the report.

    ``executions`` counts runs by how often their handler was started. ``fenced`` counts attempts that were still there
    when the next one was granted, and could change nothing. ``missed`` counts slots that no body brought to an end;
    ``bytes_dropped`` the bytes that wires took in and did not pass on. ``calls`` are those that reached the store's
    server, as it counts them itself, by when that was and what was called.

    ``repeated`` counts runs that were started again because their store had forgotten them, once for each loss, and
    ``forgotten`` attempts that have no record because of one; None where nothing was allowed to be lost. ``knocks``
    has the most connections that each instance tried while the store's server was gone.
    """

    store: str
    scenario: str
    says: str
    held: bool
    seconds: float = 0.0
    runs: int = 0
    executions: Mapping[int, int]
    overlap_ms: float = 0.0
    takeovers: int = 0
    takeover_ms: tuple[int, ...] = ()
    bound_ms: int = 0
    fenced: int = 0
    missed: int = 0
    faults: Mapping[str, int]
    bytes_dropped: int = 0
    calls: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    repeated: int | None = None
    forgotten: int | None = None
    knocks: Mapping[str, int] = field(default_factory=dict)
    problems: Sequence[str] = ()

    def as_data(self) -> dict[str, Any]:
        """
        Give it as JSON has it.
        """
        data = asdict(self)
        times = self.takeover_ms
        data["takeover_p50_ms"] = percentile(times, 50)
        data["takeover_p99_ms"] = percentile(times, 99)
        return data


def summarise(result: Result) -> Summary:
    """
    Count what a history shows.
    """
    case, history = result.case, result.history
    problems = [f"{finding.rule}: {finding.problem}" for finding in result.findings]
    if history is None:
        return Summary(
            store=case.store.name,
            scenario=case.scenario.name,
            says=case.scenario.says,
            held=False,
            executions={},
            faults={},
            problems=(f"not played: {result.trouble}",),
        )
    found = bodies(history)
    started = Counter(body.run for body in found)
    ended = {body.run for body in found if body.outcome == "ended"}
    given = takeovers(history, found) if history.leases else []
    bitten: Counter[str] = Counter()
    knocks: dict[str, int] = {}
    for fault in history.faults:
        bitten[fault.kind] += fault.bites
        for name, count in fault.knocks.items():
            knocks[name] = max(count, knocks.get(name, 0))
    lossy = history.expect.repeats
    recorded = {(record.job, record.slot, record.attempt) for record in history.records}
    return Summary(
        store=case.store.name,
        scenario=case.scenario.name,
        says=case.scenario.says,
        held=result.held,
        seconds=round((history.ended_ns - history.begun_ns) / MS / 1_000, 1),
        runs=len(started),
        executions=dict(sorted(Counter(started.values()).items())),
        overlap_ms=round(sum(both_ms for _, _, both_ms in overlaps(found)), 1),
        takeovers=len(given),
        takeover_ms=tuple(round(took_ms) for _, _, took_ms in given if took_ms is not None),
        bound_ms=history.bound_ms if history.leases else 0,
        fenced=sum(
            record.status is Status.INTERRUPTED
            and any(
                body.run == (record.job, record.slot)
                and body.attempt == record.attempt
                and body.outcome in ("ended", "cancelled")
                for body in found
            )
            for record in history.records
        ),
        missed=sum(slot not in ended for slot in history.slots),
        faults=dict(bitten),
        bytes_dropped=sum(history.swallowed.values()),
        calls={count.when: dict(count.calls) for count in history.counts},
        repeated=len(started_again(history, found)) if lossy else None,
        forgotten=sum(
            forgettable(history, body) and (*body.run, body.attempt) not in recorded
            for body in found
        )
        if lossy
        else None,
        knocks=knocks,
        problems=problems,
    )


def bites(summary: Summary) -> str:
    """
    Say in words which faults were seen, and how often they bit.
    """
    words = [f"{kind} {count}" for kind, count in summary.faults.items()]
    if summary.bytes_dropped:
        words.append(f"{summary.bytes_dropped} bytes dropped")
    return ", ".join(words)


def counted(summary: Summary) -> list[str]:
    """
    Say in words how many calls reached the store, how often it was knocked at in vain, and what its loss has cost.
    """
    said = []
    if summary.repeated is not None:
        said.append(
            f"measured: {summary.repeated} runs were started again because the store had forgotten them, and"
            f" {summary.forgotten} attempts have no record"
        )
    if summary.knocks:
        said.append(
            f"an instance tried {max(summary.knocks.values())} connections at the most while the store was gone"
        )
    for when, calls in summary.calls.items():
        total = sum(calls.values())
        detail = ", ".join(f"{name} {count}" for name, count in sorted(calls.items()))
        ratio = f"; {total / summary.runs:.2f} a run" if summary.runs else ""
        said.append(f"{total} calls reached the store {when} ({detail}){ratio}")
    return said


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """
    All that was played on one store, put together. ``takeover_ms`` are the times of those takeovers that were timed.
    """

    runs: int = 0
    overlap_ms: float = 0.0
    takeover_ms: tuple[int, ...] = ()
    bound_ms: int = 0

    def with_one(self, summary: Summary) -> Pool:
        """
        Give the pool with one scenario more.
        """
        return Pool(
            runs=self.runs + summary.runs,
            overlap_ms=self.overlap_ms + summary.overlap_ms,
            takeover_ms=self.takeover_ms + summary.takeover_ms,
            bound_ms=max(self.bound_ms, summary.bound_ms),
        )

    def as_data(self) -> dict[str, Any]:
        """
        Give it as JSON has it.
        """
        return {
            "runs": self.runs,
            "overlap_ms": round(self.overlap_ms, 1),
            "takeovers": len(self.takeover_ms),
            "p50_ms": percentile(self.takeover_ms, 50),
            "p99_ms": percentile(self.takeover_ms, 99),
            "bound_ms": self.bound_ms,
        }

    def __str__(self) -> str:
        words = f"{self.runs} runs, {self.overlap_ms:.1f} ms of overlap"
        if not self.takeover_ms:
            return words
        p50, p99 = percentile(self.takeover_ms, 50), percentile(self.takeover_ms, 99)
        return (
            f"{words}, {len(self.takeover_ms)} takeovers timed: p50 {p50} ms, p99 {p99} ms,"
            f" bound {self.bound_ms} ms"
        )


def pooled(summaries: Iterable[Summary]) -> dict[str, Pool]:
    """
    Put what was played on each store together.
    """
    pools: dict[str, Pool] = {}
    for summary in summaries:
        pools[summary.store] = pools.get(summary.store, Pool()).with_one(summary)
    return pools


def percentile(values: Sequence[int], percent: int) -> int | None:
    """
    Give the value that so many per cent do not exceed; None of nothing.
    """
    if not values:
        return None
    return sorted(values)[max(0, math.ceil(len(values) * percent / 100) - 1)]
