"""
Metrics for Prometheus, fed from a scheduler's events: `pip install "anarchon[prometheus]"`.

Nothing else of anarchon imports this module, so that whoever wants no metrics needs
no client.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from anarchon.clock import Clock, SystemClock
from anarchon.events import (
    BlockEvent,
    ClaimEvent,
    ClockEvent,
    ErrorEvent,
    FinishEvent,
    HandoverEvent,
    LostEvent,
    MissEvent,
    OutageEvent,
    RecoveredEvent,
    RunEvent,
    ScheduleEvent,
    SchedulerStartedEvent,
    SchedulerStoppedEvent,
    SkipEvent,
    StartEvent,
    TakeoverEvent,
)
from anarchon.records import Reason, Status
from anarchon.scheduler import Scheduler

__all__ = ["PrometheusMetrics"]

_CLAIM_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_LATE_S: Final = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 3_600)
_RUN_S: Final = (0.01, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 3_600, 14_400)


class PrometheusMetrics:
    """
    Counts what schedulers tell, in one registry of the Prometheus client.

    Make one for a registry, and hand it every scheduler of the process before it starts.
    Each instance counts what it did itself: add the instances up in the query.

    Args:
        schedulers: Those to be watched; watch() takes more.

        registry: Where the metrics are registered.

        clock: The clock that dates successes and next slots; for tests.
    """

    def __init__(
        self,
        *schedulers: Scheduler,
        registry: CollectorRegistry = REGISTRY,
        clock: Clock | None = None,
    ) -> None:
        self._clock = SystemClock() if clock is None else clock
        self._schedulers: list[Scheduler] = []
        self._lives: list[_Life] = []
        self._make_runs(registry)
        self._make_slots(registry)
        self._make_store(registry)
        self._registry = registry
        self._store_up: Gauge | None = None
        registry.register(_NextSlots(self._schedulers, self._clock))
        for scheduler in schedulers:
            self.watch(scheduler)

    def watch(self, scheduler: Scheduler) -> None:
        """
        Count what this scheduler tells as well.
        """
        self._schedulers.append(scheduler)
        # Schedulers of one process may share an instance id, so what is open is kept for each apart.
        life = _Life()
        self._lives.append(life)
        for event_type, follow in (
            ("scheduler_started", self._started),
            ("scheduler_stopped", self._stopped),
            ("start", self._start),
            ("finish", self._finish),
            ("handover", self._handover),
            ("lost", self._lost),
            ("outage", self._outage),
            ("recovered", self._recovered),
        ):
            scheduler.on(event_type, partial(follow, life))
        for event_type, callback in (
            ("claim", self._claim),
            ("skip", self._skip),
            ("miss", self._miss),
            ("takeover", self._takeover),
            ("block", self._block),
            ("clock", self._step),
            ("schedule", self._schedule),
            ("error", self._error),
        ):
            scheduler.on(event_type, callback)

    def _make_runs(self, registry: CollectorRegistry) -> None:
        self._runs = Counter(
            "anarchon_runs",
            "Attempts that ended on this instance, by how and why.",
            ["job", "outcome", "reason"],
            registry=registry,
        )
        self._durations = Histogram(
            "anarchon_run_duration_seconds",
            "How long handlers took, of attempts that finished.",
            ["job", "outcome"],
            buckets=_RUN_S,
            registry=registry,
        )
        self._in_progress = Gauge(
            "anarchon_runs_in_progress",
            "Attempts whose handlers are running on this instance.",
            ["job"],
            multiprocess_mode="livesum",
            registry=registry,
        )
        self._lost_runs = Counter(
            "anarchon_lost_runs",
            "Runs that this instance lost: its lease could not be renewed in time (lease), or the store refused a"
            " write because the run was somebody else's (token: a fenced write).",
            ["job", "reason"],
            registry=registry,
        )
        self._takeovers = Counter(
            "anarchon_takeovers",
            "Runs that this instance went on with after their runner died, froze or handed over.",
            ["job"],
            registry=registry,
        )
        self._last_success = Gauge(
            "anarchon_last_success_timestamp_seconds",
            "When an attempt last succeeded on this instance.",
            ["job"],
            multiprocess_mode="mostrecent",
            registry=registry,
        )

    def _make_slots(self, registry: CollectorRegistry) -> None:
        self._claims = Histogram(
            "anarchon_claim_latency_seconds",
            "How long the claims took that this instance won.",
            ["job"],
            buckets=_CLAIM_S,
            registry=registry,
        )
        self._lateness = Histogram(
            "anarchon_start_lateness_seconds",
            "How long after its slot a handler was called, jitter included.",
            ["job"],
            buckets=_LATE_S,
            registry=registry,
        )
        self._skips = Counter(
            "anarchon_skips",
            "Slots that this instance did not run. Losing a race (done) is the normal case.",
            ["job", "reason"],
            registry=registry,
        )
        self._misses = Counter(
            "anarchon_missed_slots",
            "Slots that no instance ran; each is told by one instance alone.",
            ["job", "reason"],
            registry=registry,
        )
        self._schedules = Counter(
            "anarchon_schedule_differences",
            "How often instances were seen to disagree about a job's schedule or its zone's rules.",
            ["job", "reason"],
            registry=registry,
        )

    def _make_store(self, registry: CollectorRegistry) -> None:
        self._outages = Counter(
            "anarchon_store_outages", "How often the store fell silent.", registry=registry
        )
        self._steps = Counter(
            "anarchon_clock_steps",
            "How often a wall clock stepped: this machine's own, or the store's.",
            ["which"],
            registry=registry,
        )
        self._blocked = Counter(
            "anarchon_loop_blocked_seconds",
            "For how long the event loop was blocked, by the job whose handler was in a step.",
            ["job"],
            registry=registry,
        )
        self._errors = Counter(
            "anarchon_errors",
            "Trouble that the scheduler survived, by the job that it concerned.",
            ["job"],
            registry=registry,
        )

    def _started(self, life: _Life, event: SchedulerStartedEvent) -> None:
        self._answers(life, answers=True)
        for job in event.jobs:
            # A series that begins with its first failure shows no rise: it is there from the start.
            self._runs.labels(job, Status.SUCCESS.value, "")
            self._runs.labels(job, Status.FAILED.value, Reason.ERROR.value)
            self._misses.labels(job, "unclaimed")
            self._count(job)

    def _stopped(self, life: _Life, _event: SchedulerStoppedEvent) -> None:
        self._answers(life, answers=True)
        left, life.running = life.running, set()
        for job in {job for job, _, _ in left}:
            self._count(job)

    def _claim(self, event: ClaimEvent) -> None:
        self._claims.labels(event.job).observe(event.latency_ms / 1_000)

    def _start(self, life: _Life, event: StartEvent) -> None:
        self._lateness.labels(event.job).observe(event.late_ms / 1_000)
        life.running.add(_key(event))
        self._count(event.job)

    def _finish(self, life: _Life, event: FinishEvent) -> None:
        outcome, reason = event.status.value, event.reason.value if event.reason else ""
        self._runs.labels(event.job, outcome, reason).inc()
        self._durations.labels(event.job, outcome).observe(event.duration_ms / 1_000)
        if event.status is Status.SUCCESS:
            self._last_success.labels(event.job).set(self._clock.wall_ms() / 1_000)
        self._end(life, event)

    def _handover(self, life: _Life, event: HandoverEvent) -> None:
        outcome, reason = Status.INTERRUPTED.value, Reason.HANDED_OVER.value
        self._runs.labels(event.job, outcome, reason).inc()
        self._end(life, event)

    def _lost(self, life: _Life, event: LostEvent) -> None:
        self._lost_runs.labels(event.job, event.reason).inc()
        self._end(life, event)

    def _takeover(self, event: TakeoverEvent) -> None:
        self._takeovers.labels(event.job).inc()

    def _skip(self, event: SkipEvent) -> None:
        self._skips.labels(event.job, event.reason).inc()

    def _miss(self, event: MissEvent) -> None:
        self._misses.labels(event.job, event.reason).inc(event.count)

    def _block(self, event: BlockEvent) -> None:
        self._blocked.labels(event.job or "").inc(event.duration_ms / 1_000)

    def _outage(self, life: _Life, _event: OutageEvent) -> None:
        self._answers(life, answers=False)
        self._outages.inc()

    def _recovered(self, life: _Life, _event: RecoveredEvent) -> None:
        self._answers(life, answers=True)

    def _step(self, event: ClockEvent) -> None:
        self._steps.labels(event.which).inc()

    def _schedule(self, event: ScheduleEvent) -> None:
        self._schedules.labels(event.job, event.reason).inc()

    def _error(self, event: ErrorEvent) -> None:
        self._errors.labels(event.job or "").inc()

    def _answers(self, life: _Life, *, answers: bool) -> None:
        if self._store_up is None:
            # A gauge is 0 from its making on, which would be a lie in a process that starts no scheduler.
            self._store_up = Gauge(
                "anarchon_store_up",
                "Whether the store answers: 0 from the first call that failed to the next one that did not.",
                multiprocess_mode="livemin",
                registry=self._registry,
            )
        life.answers = answers
        self._store_up.set(int(all(each.answers for each in self._lives)))

    def _end(self, life: _Life, event: RunEvent) -> None:
        life.running.discard(_key(event))
        self._count(event.job)

    def _count(self, job: str) -> None:
        running = sum(name == job for life in self._lives for name, _, _ in life.running)
        self._in_progress.labels(job).set(running)


@dataclass(slots=True)
class _Life:
    """
    What is open on one scheduler: its handlers (job, slot, attempt), and whether its store answers.
    """

    running: set[tuple[str, int, int]] = field(default_factory=set)
    answers: bool = True


class _NextSlots(Collector):
    """
    Asks each schedule for its next slot when somebody scrapes: no event could keep that fresh.
    """

    def __init__(self, schedulers: list[Scheduler], clock: Clock) -> None:
        self._schedulers = schedulers
        self._clock = clock

    def describe(self) -> Iterable[Metric]:
        """
        Name the series without asking any schedule.
        """
        return [_family()]

    def collect(self) -> Iterator[Metric]:
        """
        Give the next slot of every job that has one.
        """
        family = _family()
        now_ms = self._clock.wall_ms()
        told: set[str] = set()
        for job in (job for scheduler in self._schedulers for job in scheduler.jobs):
            if job.name in told:
                continue  # A second scheduler with the same jobs plans the same slots.
            told.add(job.name)
            try:
                slot = job.schedule.next_slot(now_ms)
            except Exception:  # noqa: BLE001 - a schedule of the user's own must not take the other metrics away
                slot = None
            if slot is not None:
                family.add_metric([job.name], slot / 1_000)
        yield family


def _family() -> GaugeMetricFamily:
    return GaugeMetricFamily(
        "anarchon_next_slot_timestamp_seconds", "When the job's next slot is due.", labels=["job"]
    )


def _key(event: RunEvent) -> tuple[str, int, int]:
    return event.job, event.slot, event.attempt
