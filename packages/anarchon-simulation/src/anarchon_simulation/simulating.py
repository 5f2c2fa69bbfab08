"""
Run a user's own scheduler on virtual time, on several instances, and tell what ran.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, TypeAlias

from anarchon.durations import Duration, duration_ms
from anarchon.errors import InvalidOptionError
from anarchon.events import Event
from anarchon.jobs import Jobs
from anarchon.records import Retention
from anarchon.scheduler import Scheduler
from anarchon_simulation.audit import BrokenRuleError
from anarchon_simulation.backend import SimulatedBackend
from anarchon_simulation.cluster import Build, Cluster
from anarchon_simulation.incidents import Incident, instant_ms
from anarchon_simulation.plan import InstancePlan, Plan, StorePlan
from anarchon_simulation.process import Process, State
from anarchon_simulation.report import Report, Told

__all__ = ["Factory", "simulate"]

Factory: TypeAlias = Callable[..., Scheduler]
"""
Makes a scheduler of a backend and the keyword options ``instance_id`` and ``runtime``.
"""

_NAMES = "abcdefghijklmnopqrstuvwxyz"
_STOP_US = 3_600_000_000
_RECORDS_MAX = 1_000_000
_ENTRIES_MAX = 50_000


def simulate(
    jobs: Scheduler | Jobs | Factory,
    *,
    start: datetime,
    until: datetime | Duration,
    instances: int | Sequence[str | InstancePlan] = 2,
    incidents: Sequence[Incident] = (),
    seed: int = 0,
    leases: bool = True,
    hints: bool = False,
    retention: Retention | None = None,
    watch: Callable[[Cluster], None] | None = None,
    **options: Any,
) -> Report:
    """
    Run jobs on several instances and one store, on a time that costs nothing.

    Every instance is a process of its own, with the handlers as they are. The store
    is a simulated one, whatever backend the scheduler names. The same seed gives the
    same run.

    Args:
        jobs: A scheduler, whose jobs and options are taken and which itself is left
            alone; or a collection of jobs; or a function that makes a scheduler of a
            backend and the keyword options ``instance_id`` and ``runtime``.

        start: When virtual time begins; an aware datetime.

        until: When it ends; an aware datetime, or how long after the start. Then the
            instances are stopped in good order.

        instances: How many, called "a", "b", and so on; or their names; or plans of
            them, with clocks that are wrong.

        incidents: What goes wrong, see `anarchon_simulation.crash` and its neighbours.

        seed: Decides jitter, tokens, delays and the order of what happens at once.

        leases: A store that keeps leases; else one with claims alone.

        hints: The store tells at once that a run has ended or was handed over, as most
            do. Costs time where runs are long.

        retention: How long the store keeps records; by default all are kept.

        watch: Called with the cluster before it runs: to look at it from inside.

        options: Options of the schedulers (heartbeat, lease, state, …) instead of
            those that *jobs* has.

    Raises:
        BrokenRuleError: A promise of anarchon did not hold. The message has the timeline.

        DefinitionError: An option is wrong.
    """
    start_ms = instant_ms(start, what="start")
    plan = Plan(
        seed=seed,
        start_ms=start_ms,
        faults_until_ms=_lasts_ms(start_ms, until),
        store=StorePlan(leases=leases, hints=hints),
        instances=_instance_plans(instances),
        faults=tuple(incident.fault(start_ms) for incident in incidents),
    )
    return _run(plan, _builder(jobs, options), retention=retention, watch=watch)


def _run(
    plan: Plan,
    build: Build,
    *,
    retention: Retention | None,
    watch: Callable[[Cluster], None] | None,
) -> Report:
    told: list[Told] = []

    def hear(process: Process, event: Event) -> None:
        told.append(Told(at_ms=cluster.wall_ms, instance=process.name, event=event))

    cluster = Cluster(plan, build, heard=hear, entries_max=_ENTRIES_MAX)
    cluster.store.memory.retention = retention or Retention(
        age_ms=None, records_per_job=_RECORDS_MAX
    )
    if watch is not None:
        watch(cluster)
    try:
        _live(cluster, plan.faults_until_ms * 1_000)
        report = _report(cluster, told)
    finally:
        cluster.kernel.close()
    if cluster.audit.broken:
        raise BrokenRuleError("\n".join([*cluster.audit.broken, "", report.timeline()]))
    return report


def _lasts_ms(start_ms: int, until: datetime | Duration) -> int:
    if isinstance(until, datetime):
        lasts_ms = instant_ms(until, what="until") - start_ms
    else:
        lasts_ms = duration_ms(until, what="until")
    if lasts_ms <= 0:
        msg = f"until must lie after start; got {until!r}"
        raise InvalidOptionError(msg)
    return lasts_ms


def _live(cluster: Cluster, until_us: int) -> None:
    kernel = cluster.kernel
    kernel.run_until(until_us)
    for process in cluster.processes:
        if process.alive:
            process.stop()
    ended = (State.STOPPED, State.CRASHED)
    kernel.run(
        lambda: all(process.state in ended for process in cluster.processes),
        limit_us=until_us + _STOP_US,
    )


def _report(cluster: Cluster, told: list[Told]) -> Report:
    stored = [
        stored.record
        for records in cluster.store.memory.records.values()
        for stored in records.values()
    ]
    stored.sort(key=lambda record: (record.slot, record.job, record.attempt))
    return Report(
        records=tuple(stored),
        told=tuple(told),
        seed=cluster.plan.seed,
        digest=str(cluster.kernel.digest),
        start_ms=cluster.plan.start_ms,
        columns=tuple(cluster.columns),
        entries=tuple(cluster.trace.entries),
    )


def _instance_plans(instances: int | Sequence[str | InstancePlan]) -> tuple[InstancePlan, ...]:
    if isinstance(instances, int):
        if not 1 <= instances <= len(_NAMES):
            msg = f"instances is a number from 1 to {len(_NAMES)}, or names; got {instances!r}"
            raise InvalidOptionError(msg)
        instances = _NAMES[:instances]
    return tuple(
        InstancePlan(name=instance) if isinstance(instance, str) else instance
        for instance in instances
    )


def _builder(jobs: Scheduler | Jobs | Factory, options: dict[str, Any]) -> Build:
    if isinstance(jobs, Scheduler):
        own = _options_of(jobs)
        if "heartbeat" in options:
            # The lease was made for another heartbeat: three of the new ones, unless one is given.
            del own["lease"]
        options = {**own, **options}
        collection = _jobs_of(jobs)
    elif isinstance(jobs, Jobs):
        collection = jobs
    else:
        factory = jobs
        return lambda process, backend: factory(
            backend, instance_id=process.name, runtime=process.instance.runtime(), **options
        )

    # What is wrong with the options is an error here, not the end of every instance.
    Scheduler("memory:", **options)

    def build(process: Process, backend: SimulatedBackend) -> Scheduler:
        scheduler = Scheduler(
            backend, instance_id=process.name, runtime=process.instance.runtime(), **options
        )
        scheduler.include(collection)
        return scheduler

    return build


def _options_of(scheduler: Scheduler) -> dict[str, Any]:
    """
    Read a scheduler's options, to give them to its likes.
    """
    settings = scheduler._settings  # noqa: SLF001 - the distributions are released together, and this is its one reader
    start_ms = settings.start_timeout_ms
    return {
        "heartbeat": settings.heartbeat_ms / 1_000,
        "lease": settings.lease_ms / 1_000,
        "jitter": settings.jitter,
        "timezone": settings.timezone,
        "state": settings.state,
        "start_timeout": None if start_ms is None else start_ms / 1_000,
        "stop_timeout": settings.stop_timeout_ms / 1_000,
    }


def _jobs_of(scheduler: Scheduler) -> Jobs:
    """
    Collect a scheduler's jobs as they were written.
    """
    collection = Jobs()
    for spec in scheduler._specs.values():  # noqa: SLF001 - as above
        collection._add(spec)  # noqa: SLF001 - as above
    return collection
