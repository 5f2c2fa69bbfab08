"""
Run a plan, and judge it.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from anarchon.errors import InternalError
from anarchon.events import ErrorEvent, Event, ScheduleEvent
from anarchon_simulation.cluster import Cluster
from anarchon_simulation.handlers import Bodies
from anarchon_simulation.kernel import DeadlockError
from anarchon_simulation.liveness import Heard, unaccounted, unstopped
from anarchon_simulation.plan import Plan
from anarchon_simulation.process import Process
from anarchon_simulation.trace import Entry, timeline

__all__ = ["Outcome", "run_plan"]

_ROWS_SHOWN = 120
_RULES_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """
    What became of a plan.

    Args:
        plan: The plan.

        broken: The rules that did not hold, in words; empty when all is well.

        digest: Equal digests, equal runs.

        steps: How many callbacks ran.

        fired: What really went wrong, counted.

        rows: Which rows of the table of answers were answered, counted.

        entries: What happened.

        columns: The columns of the timeline.
    """

    plan: Plan
    broken: tuple[str, ...]
    digest: str
    steps: int
    fired: Counter[str] = field(repr=False)
    rows: Counter[str] = field(repr=False)
    entries: tuple[Entry, ...] = field(repr=False)
    columns: tuple[str, ...] = field(repr=False)

    @property
    def ok(self) -> bool:
        """
        Whether every rule held.
        """
        return not self.broken

    def report(self, *, rows_max: int = _ROWS_SHOWN) -> str:
        """
        Say what broke, how to replay it, and what happened before.
        """
        lines = [
            f"seed {self.plan.seed} ({self.plan.order}), digest {self.digest}, {self.steps} steps"
        ]
        lines += [f"  broken: {rule}" for rule in self.broken[:_RULES_SHOWN]] or [
            "  every rule held"
        ]
        if len(self.broken) > _RULES_SHOWN:
            lines.append(f"  and {len(self.broken) - _RULES_SHOWN} more")
        about = {entry.job for entry in self.entries if entry.sort == "broken"} - {None}
        entries = [
            entry
            for entry in self.entries
            if not about or entry.job in about or entry.sort == "fault"
        ]
        lines += ["", timeline(entries, self.columns, rows_max=rows_max), "", repr(self.plan)]
        return "\n".join(lines)


def run_plan(plan: Plan) -> Outcome:
    """
    Run a plan to its end, or to the first rule that breaks.
    """
    bodies = Bodies(plan)
    heard = Heard()

    def hear(process: Process, event: Event) -> None:
        heard.event(process, event)
        if isinstance(event, ScheduleEvent) and event.reason == "zone_rules":
            cluster.fired["zone rules: told"] += 1
            if (process.name, event.job) not in cluster.audit.zones_differ:
                cluster.audit.breaks(f"{process.name} told other rules than it heard", event.job)
        if isinstance(event, ErrorEvent) and isinstance(event.error, InternalError):
            cluster.audit.breaks(f"{process.name} told a bug: {event.message}", event.job)

    cluster = Cluster(plan, bodies.build, heard=hear)
    bodies.cluster = cluster
    with _listening(cluster):
        try:
            _live(cluster, heard)
        except DeadlockError as error:
            cluster.audit.breaks(str(error))
        finally:
            outcome = Outcome(
                plan=plan,
                broken=tuple(cluster.audit.broken),
                digest=str(cluster.kernel.digest),
                steps=cluster.kernel.steps,
                fired=cluster.fired,
                rows=cluster.audit.rows,
                entries=tuple(cluster.trace.entries),
                columns=tuple(cluster.columns),
            )
            cluster.kernel.close()
    return outcome


def _live(cluster: Cluster, heard: Heard) -> None:
    plan, kernel, audit = cluster.plan, cluster.kernel, cluster.audit
    if not _run_until(cluster, plan.faults_until_ms * 1_000):
        return
    cluster.heal()
    # Backoffs, restarts, takeovers and catching up are through after half of the calm.
    half_us = plan.settle_ms * 500
    if not _run_until(cluster, kernel.now_us + half_us):
        return
    # By the store's clock: where all instances are behind, what they come to now may have been missed before.
    calm_since_ms = cluster.store.time()
    audit.claims.clear()
    if not _run_until(cluster, kernel.now_us + half_us):
        return
    grace_ms = plan.lease_ms + 4 * plan.heartbeat_ms
    for rule in unaccounted(cluster, heard, calm_since_ms=calm_since_ms, grace_ms=grace_ms):
        audit.breaks(rule, next((job.name for job in plan.jobs if rule.startswith(job.name)), None))
    if not audit.broken:
        _stop_all(cluster)


def _stop_all(cluster: Cluster) -> None:
    for process in cluster.processes:
        if process.alive:
            process.stop()
    last_us = cluster.kernel.now_us + (cluster.plan.stop_timeout_ms + 2_000) * 1_000
    _run_until(cluster, last_us + cluster.plan.lease_ms * 3_000)
    for rule in unstopped(cluster):
        cluster.audit.breaks(rule)


def _run_until(cluster: Cluster, when_us: int) -> bool:
    """
    Run up to an instant; says whether every rule has held.
    """
    broken = cluster.audit.broken
    cluster.kernel.run_until(when_us, unless=lambda: bool(broken))
    return not broken


@contextmanager
def _listening(cluster: Cluster) -> Iterator[None]:
    """
    Keep the scheduler's log to ourselves, and hear of what it calls a bug.
    """
    logger = logging.getLogger("anarchon")
    before = (logger.propagate, logger.level, logger.handlers)
    logger.propagate, logger.handlers = False, [_BugHandler(cluster)]
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.propagate, logger.handlers = before[0], before[2]
        logger.setLevel(before[1])


class _BugHandler(logging.Handler):
    """
    Hears errors that the scheduler itself takes for bugs.
    """

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(logging.ERROR)
        self._cluster = cluster

    def emit(self, record: logging.LogRecord) -> None:
        """
        Hear one record.
        """
        if self._cluster.kernel.closed:
            return
        message = record.getMessage()
        if "bug in anarchon" in message or "unforeseen" in message or "followed up" in message:
            self._cluster.audit.breaks(
                f"logged: {message}: {record.exc_info and record.exc_info[1]!r}"
            )
