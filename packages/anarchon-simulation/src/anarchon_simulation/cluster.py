"""
A service of several instances on one store, and what goes wrong with it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from anarchon.backend import ClaimRequest
from anarchon.events import Event
from anarchon.scheduler import Scheduler
from anarchon_simulation.audit import Audit
from anarchon_simulation.backend import SimulatedBackend
from anarchon_simulation.clocks import MachineClock
from anarchon_simulation.faults import (
    Crash,
    Cut,
    Fault,
    Freeze,
    Hints,
    Look,
    Lossy,
    Outage,
    Slow,
    Stall,
    StepClock,
    StepStore,
    Stop,
    Stray,
    Suspend,
)
from anarchon_simulation.instance import Instance
from anarchon_simulation.kernel import Kernel
from anarchon_simulation.network import Network
from anarchon_simulation.plan import InstancePlan, Plan
from anarchon_simulation.process import Process, State
from anarchon_simulation.store import SimulatedStore
from anarchon_simulation.strays import send_strays
from anarchon_simulation.trace import Trace

__all__ = ["Build", "Cluster", "describe_event"]

Build = Callable[["Process", SimulatedBackend], Scheduler]

_EARLY_MS = 500
_FALSE_HINTS_US = 100_000
_EXIT_MS_MAX = 5_000
_RENEWALS_LOOP = "anarchon-renewals"


class Cluster:
    """
    All that a plan names, on one kernel.

    Args:
        plan: What there is, and what goes wrong.

        build: Makes a process's scheduler on a backend.

        heard: Told of every event of a scheduler.

        entries_max: How much of the trace is kept.
    """

    def __init__(
        self,
        plan: Plan,
        build: Build,
        *,
        heard: Callable[[Process, Event], None] | None = None,
        entries_max: int = 200_000,
    ) -> None:
        self.plan = plan
        self.kernel = Kernel(plan.seed, order=plan.order)
        self.fired: Counter[str] = Counter()
        self.trace = Trace(self.kernel.digest, entries_max=entries_max)
        self.store = SimulatedStore(
            MachineClock(
                self.now_us,
                start_ms=plan.start_ms,
                offset_ms=plan.store.offset_ms,
                drift_ppm=plan.store.drift_ppm,
            ),
            leases=plan.store.leases,
        )
        self.audit = Audit(self.store, self.trace, self.now_us)
        self.random = Random(f"{plan.seed}:faults")  # noqa: S311 - a seed must give the same again
        self.network = Network(
            self.kernel,
            Random(f"{plan.seed}:network"),  # noqa: S311 - the same
            delay_ms=plan.store.delay_ms,
            fired=self.fired,
        )
        self.processes: list[Process] = []
        self.audit.claim_checks.append(self._asked_in_time)
        self._build = build
        self._heard = heard
        self._plans = {instance.name: instance for instance in plan.instances}
        for instance in plan.instances:
            self.kernel.at(instance.starts_ms * 1_000, self._starter(instance, 0))
        for fault in plan.faults:
            self.kernel.at(fault.at_ms * 1_000, self._sufferer(fault))

    def now_us(self) -> int:
        """
        Tell the true time, as whatever runs now sees it.
        """
        return self.kernel.now_us + self.kernel.ahead_us

    @property
    def wall_ms(self) -> int:
        """
        Tell the true wall time.
        """
        return self.plan.start_ms + self.now_us() // 1_000

    # Processes.

    def process(self, name: str) -> Process | None:
        """
        Return the process of an instance that is alive now.
        """
        return next(
            (
                process
                for process in reversed(self.processes)
                if process.name == name and process.alive
            ),
            None,
        )

    def start(self, instance: InstancePlan, version: int) -> Process:
        """
        Start a process of an instance.
        """
        home = Instance(
            self.kernel,
            instance.name,
            seed=str(self.plan.seed),
            start_ms=self.plan.start_ms,
            offset_ms=instance.offset_ms,
            drift_ppm=instance.drift_ppm,
            threads_max=instance.threads_max,
            trouble=self._trouble,
        )
        process = Process(home, lambda: self._scheduler(process), self._event, version=version)
        self.processes.append(process)
        self._note(instance.name, "starts")
        process.begin()
        return process

    def heal(self) -> None:
        """
        Start every instance that is not there.
        """
        for name, instance in self._plans.items():
            if self.process(name) is None:
                last = next(
                    (process for process in reversed(self.processes) if process.name == name), None
                )
                self.start(instance, 0 if last is None else last.version)

    def _scheduler(self, process: Process) -> Scheduler:
        backend = SimulatedBackend(
            self.kernel,
            self.store,
            self.network,
            process.name,
            hints=self.plan.store.hints,
            batch_max=self.plan.store.batch_max,
        )
        return self._build(process, backend)

    def _starter(self, instance: InstancePlan, version: int) -> Callable[[], None]:
        def start() -> None:
            if self.process(instance.name) is None:
                self.start(instance, version)

        return start

    def _restart(self, name: str, after_ms: int | None, version: int) -> None:
        if after_ms is not None:
            self.kernel.after(after_ms * 1_000, self._starter(self._plans[name], version))

    # Faults.

    def _sufferer(self, fault: Fault) -> Callable[[], None]:
        return lambda: self.suffer(fault)

    def suffer(self, fault: Fault) -> None:
        """
        Let something go wrong now.
        """
        name = type(fault).__name__
        match fault:
            case Outage() | Slow() | Lossy() | Hints():
                self._note("store", _words(fault))
                self.network.suffer(fault)
                if isinstance(fault, Hints) and fault.false:
                    self._tell_falsely(self.kernel.now_us + fault.duration_ms * 1_000)
            case Cut():
                self._note(fault.instance, _words(fault))
                self.network.suffer(fault)
            case Stray():
                self._note("store", _words(fault))
                send_strays(self.store, fault.job)
            case StepStore():
                self._note("store", _words(fault))
                self.store.clock.step(fault.by_ms)
            case _:
                process = self.process(fault.instance)
                if process is None:
                    return
                self._note(fault.instance, _words(fault))
                self._hit(process, fault)
        self.fired[name] += 1

    def _tell_falsely(self, until_us: int) -> None:
        """
        Tell everybody who listens that each job has changed, again and again until then.
        """
        listeners = len(self.store.memory.listeners)
        self.fired["hint: false"] += listeners
        for job in self.plan.jobs if listeners else ():
            self.store.memory.tell(job.name)
        if self.kernel.now_us < until_us:
            self.kernel.after(_FALSE_HINTS_US, lambda: self._tell_falsely(until_us))

    def _hit(
        self, process: Process, fault: Crash | Stop | Freeze | Suspend | Stall | StepClock | Look
    ) -> None:
        instance = process.instance
        match fault:
            case Crash():
                process.crash()
                self._restart(process.name, fault.restart_ms, process.version)
            case Stop():
                self._replace(process, fault)
            case Freeze():
                self._held(process, fault.duration_ms)
                instance.freeze()
                self._later(fault.duration_ms, process, instance.thaw)
            case Suspend():
                self._held(process, fault.duration_ms)
                instance.suspend()
                self._later(fault.duration_ms, process, instance.resume)
            case Stall():
                self._held(process, fault.duration_ms)
                wanted = "handlers" if fault.loop == "handlers" else _RENEWALS_LOOP
                for loop in instance.loops:
                    if loop.lane.name.endswith(f"/{wanted}"):
                        loop.lane.hold()
                        self._later(fault.duration_ms, process, loop.lane.release)
            case Look():
                process.look(fault.job, cancelled_ms=fault.cancelled_ms, fired=self.fired)
            case StepClock():
                process.stepped = True
                instance.clock.step(fault.by_ms)

    def _replace(self, process: Process, fault: Stop) -> None:
        """
        Stop a process in good order; it exits a while after its scheduler has stopped.
        """
        process.stop()
        version = process.version if fault.version is None else fault.version
        exits_ms = self.random.randrange(_EXIT_MS_MAX)

        def look() -> None:
            if process.state is State.STOPPED:
                self._later(exits_ms, process, process.crash)
                self._restart(process.name, fault.restart_ms, version)
            elif not process.instance.crashed:
                self.kernel.after(100_000, look)

        look()

    def _later(self, pause_ms: int, process: Process, call: Callable[[], None]) -> None:
        def then() -> None:
            if not process.instance.crashed:
                call()

        self.kernel.after(pause_ms * 1_000, then)

    def _held(self, process: Process, duration_ms: int) -> None:
        process.held_until_us = max(process.held_until_us, self.kernel.now_us + duration_ms * 1_000)

    def _asked_in_time(self, request: ClaimRequest, sender: str) -> None:
        """
        Nobody asks for a slot before it is due by its own clock, unless that one is behind.
        """
        process = self.process(sender)
        if process is None or request.attempt > 1 or process.stepped:
            return
        wall_ms = process.instance.clock.wall_ms()
        on_time = wall_ms > self.store.time() - _EARLY_MS
        if on_time and request.slot > wall_ms + _EARLY_MS and "StepStore" not in self.fired:
            self.audit.breaks(
                f"{sender} asked for {request.job} {request.slot} {request.slot - wall_ms} ms"
                " before its slot",
                request.job,
            )

    # What is heard.

    def _event(self, process: Process, event: Event) -> None:
        job = getattr(event, "job", None)
        self.trace.add(self.now_us(), process.name, "event", describe_event(event), job)
        if self._heard is not None:
            self._heard(process, event)

    def _trouble(self, instance: Instance, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self.audit.breaks(
            f"nobody caught it on {instance.name}: {context.get('message')} {error!r}"
        )

    def _note(self, column: str, text: str) -> None:
        self.trace.add(self.now_us(), column, "fault", f"** {text}")

    @property
    def columns(self) -> Sequence[str]:
        """
        The columns of a timeline.
        """
        return [*self._plans, "store"]


def describe_event(event: Event) -> str:
    """
    Say an event in a few words.
    """
    job, slot = getattr(event, "job", None), getattr(event, "slot", None)
    words: list[str] = [event.type]
    if job is not None:
        attempt = getattr(event, "attempt", None)
        words.append(job if slot is None else f"{job} {slot}.{attempt}")
    for name in (
        "status",
        "reason",
        "first_slot",
        "last_slot",
        "count",
        "step_ms",
        "duration_ms",
        "message",
    ):
        value = getattr(event, name, None)
        if value is not None:
            words.append(f"{value}" if name in ("status", "reason") else f"{name}={value}")
    return " ".join(words)


def _words(fault: Fault) -> str:
    values = [
        f"{name}={getattr(fault, name)}"
        for name in fault.__slots__
        if name not in ("at_ms", "instance") and getattr(fault, name) is not None
    ]
    return " ".join([type(fault).__name__, *values])
