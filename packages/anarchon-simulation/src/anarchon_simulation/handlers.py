"""
The handlers of a plan's jobs: they work, fail, block, hand over, and tell the audit.
"""

from __future__ import annotations

import asyncio
import time
from random import Random
from typing import Any

from anarchon import HandOver, RunContext
from anarchon.scheduler import Scheduler
from anarchon_simulation.backend import SimulatedBackend
from anarchon_simulation.cluster import Cluster
from anarchon_simulation.plan import JobPlan, Plan
from anarchon_simulation.process import Process
from anarchon_simulation.zoned import ZonedEvery

__all__ = ["Bodies", "PlannedFailureError"]

_US = 1_000_000
_STUBBORN_S = 1.5


class PlannedFailureError(Exception):
    """
    What a handler of a plan raises.
    """


class Bodies:
    """
    Builds schedulers whose handlers behave as the plan says.

    Args:
        plan: The plan.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._open: dict[tuple[str, int, int], Process] = {}
        self.cluster: Cluster | None = None

    def build(self, process: Process, backend: SimulatedBackend) -> Scheduler:
        """
        Make the scheduler of a process.
        """
        plan = self._plan
        scheduler = Scheduler(
            backend,
            instance_id=process.name,
            heartbeat=plan.heartbeat_ms / 1_000,
            lease=plan.lease_ms / 1_000,
            start_timeout=None,
            stop_timeout=plan.stop_timeout_ms / 1_000,
            runtime=process.instance.runtime(),
        )
        for job in plan.jobs:
            self._define(scheduler, process, job)
        return scheduler

    def _define(self, scheduler: Scheduler, process: Process, job: JobPlan) -> None:
        every_ms = job.every_ms
        if process.version and job.changed_every_ms is not None:
            every_ms = job.changed_every_ms
        options: dict[str, Any] = {"timeout": _seconds(job.timeout_ms)}
        if job.jitter_ms is not None:
            options["jitter"] = job.jitter_ms / 1_000
        options["max_lateness"] = _seconds(job.max_lateness_ms)
        if self._plan.store.leases:
            options.update(
                catch_up=job.catch_up,
                catch_up_window=_seconds(job.catch_up_window_ms),
                max_crashes=job.max_crashes,
                takeover=job.takeover,
            )

        async def handle(ctx: RunContext) -> None:
            await self._work(process, job, ctx)

        def handle_in_thread(ctx: RunContext) -> None:
            self._toil(process, job, ctx)

        handler = handle_in_thread if job.plain else handle
        if job.zoned:
            schedule = ZonedEvery(every_ms, edition=process.version)
            scheduler.job(job.name, schedule, handler, **options)
        else:
            scheduler.every(job.name, every_ms / 1_000, handler, **options)

    async def _work(self, process: Process, job: JobPlan, ctx: RunContext) -> None:
        """
        An async handler's body.
        """
        dice = self._begin(process, job, ctx)
        pause_s = self._duration_s(job, dice) / job.steps
        fate = dice.random() * 100
        blocks = dice.random() * 100 < job.blocks and not self._calm()
        cancels = job.cancels > 0 and dice.random() * 100 < job.cancels
        key = (job.name, *ctx.fence)
        self._open[key] = process
        try:
            for number in range(job.steps):
                if cancels and pause_s > 0:
                    await self._cut_short(process, job, ctx, pause_s / 2)
                await asyncio.sleep(pause_s)
                self._step(process, job, ctx)
                if blocks and number == 0:
                    self._block(process, dice.random() * self._plan.lease_ms * 3 / 1_000)
                    await asyncio.sleep(0)
                    self._step(process, job, ctx)
            self._end(job, ctx, fate)
        except asyncio.CancelledError:
            # The body is over; what follows is clean-up, which is not fenced.
            self._open.pop(key, None)
            self._note(process, job, ctx, "cancelled")
            if dice.random() * 100 < job.stubborn:
                self._fired("handler: stubborn")
                await asyncio.sleep(dice.random() * _STUBBORN_S)
            raise
        finally:
            self._open.pop(key, None)

    async def _cut_short(
        self, process: Process, job: JobPlan, ctx: RunContext, after_s: float
    ) -> None:
        """
        Wait for what never comes, for so long: the handler's own cancellation, which it catches.
        """
        try:
            async with asyncio.timeout(after_s):
                await asyncio.Event().wait()
        except TimeoutError:
            self._fired("handler: cut a step short")
            self._step(process, job, ctx)

    def _calm(self) -> bool:
        """
        Say whether nothing is to go wrong any more.
        """
        assert self.cluster is not None
        longest_us = self._plan.lease_ms * 3_000
        return self.cluster.now_us() + longest_us > self._plan.faults_until_ms * 1_000

    def _block(self, process: Process, duration_s: float) -> None:
        """
        Block the handlers' loop, as a call does that should have been awaited.
        """
        assert self.cluster is not None
        self._fired("handler: blocks")
        until_us = self.cluster.now_us() + int(duration_s * _US)
        process.held_until_us = max(process.held_until_us, until_us)
        time.sleep(duration_s)  # On virtual time: the kernel stands in for it, and nothing waits.

    def _toil(self, process: Process, job: JobPlan, ctx: RunContext) -> None:
        """
        A plain handler's body.
        """
        dice = self._begin(process, job, ctx)
        duration_s = self._duration_s(job, dice)
        fate = dice.random() * 100
        if dice.random() < 0.5:
            time.sleep(duration_s)  # On virtual time: the kernel stands in, and nothing waits.
        elif ctx.stopping.wait_blocking(duration_s):
            self._fired("handler: heard stopping in a thread")
        self._end(job, ctx, fate)

    def _begin(self, process: Process, job: JobPlan, ctx: RunContext) -> Random:
        assert self.cluster is not None
        audit = self.cluster.audit
        self._note(process, job, ctx, "begins")
        audit.begins(job.name, ctx.fence, ctx.token, process.name)
        if self._plan.store.leases:
            self._look_for_others(process, job, ctx)
        return Random(f"{self._plan.seed}:{job.name}:{ctx.slot}:{ctx.attempt}")  # noqa: S311 - the same again

    def _look_for_others(self, process: Process, job: JobPlan, ctx: RunContext) -> None:
        """
        No other async body of the job is alive now, save on an instance that could not know better.

        One that was frozen or stalled is held by its gate when it goes on: its steps are judged.
        """
        assert self.cluster is not None
        doubt_us = (self._plan.lease_ms + 2 * self._plan.heartbeat_ms) * 1_000
        for (name, slot, attempt), other in self._open.items():
            if name != job.name or other.instance.crashed or other is process:
                continue
            if other.held_until_us + doubt_us < self.cluster.kernel.now_us and not _is_held(other):
                self.cluster.audit.breaks(
                    f"{job.name} {ctx.fence} began on {process.name} while ({slot}, {attempt})"
                    f" went on on {other.name}",
                    job.name,
                )

    def _step(self, process: Process, job: JobPlan, ctx: RunContext) -> None:
        assert self.cluster is not None
        self.cluster.audit.steps(job.name, ctx.fence, process.name)

    def _end(self, job: JobPlan, ctx: RunContext, fate: float) -> None:
        if fate < job.fails:
            self._fired("handler: fails")
            msg = "as planned"
            raise PlannedFailureError(msg)
        if fate < job.fails + job.hands_over and ctx.attempt < 3:
            self._fired("handler: hands over")
            raise HandOver

    @staticmethod
    def _duration_s(job: JobPlan, dice: Random) -> float:
        least_ms, most_ms = job.work_ms
        return (least_ms + dice.random() * (most_ms - least_ms)) / 1_000

    def _note(self, process: Process, job: JobPlan, ctx: RunContext, what: str) -> None:
        assert self.cluster is not None
        if not self.cluster.kernel.closed:
            text = f"{what} {job.name} {ctx.slot}.{ctx.attempt}"
            self.cluster.trace.add(self.cluster.now_us(), process.name, "handler", text, job.name)

    def _fired(self, what: str) -> None:
        assert self.cluster is not None
        self.cluster.fired[what] += 1


def _is_held(process: Process) -> bool:
    """
    Say whether the handlers' loop stands right now: frozen, stalled, or blocked by a handler.
    """
    try:
        return process.instance.loop("handlers").lane.held
    except KeyError:
        return False


def _seconds(duration_ms: int | None) -> float | None:
    return None if duration_ms is None else duration_ms / 1_000
