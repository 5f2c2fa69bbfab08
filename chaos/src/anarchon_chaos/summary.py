"""
What a result comes to, in figures.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from anarchon import Status
from anarchon_chaos.history import MS, bodies, overlaps, takeovers
from anarchon_chaos.running import Result

__all__ = ["Summary", "bites", "percentile", "pooled", "summarise"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """
    One line of the report.

    ``executions`` counts runs by how often their handler was started. ``fenced`` counts attempts that were still there
    when the next one was granted, and could change nothing. ``missed`` counts slots that no body brought to an end;
    ``bytes_dropped`` the bytes that wires took in and did not pass on.
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
    for fault in history.faults:
        bitten[fault.kind] += fault.bites
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


def pooled(summaries: Iterable[Summary]) -> dict[str, tuple[int, ...]]:
    """
    Put the times of all takeovers on one store together.
    """
    times: dict[str, tuple[int, ...]] = {}
    for summary in summaries:
        times[summary.store] = times.get(summary.store, ()) + summary.takeover_ms
    return {store: taken for store, taken in times.items() if taken}


def percentile(values: Sequence[int], percent: int) -> int | None:
    """
    Give the value that so many per cent do not exceed; None of nothing.
    """
    if not values:
        return None
    return sorted(values)[max(0, math.ceil(len(values) * percent / 100) - 1)]
