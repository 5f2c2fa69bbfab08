"""
From a grant to a run: what the store has granted is executed here.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from datetime import timedelta

from anarchon.clock import Clock
from anarchon.context import RunContext
from anarchon.events import ClaimEvent, LostEvent, TakeoverEvent
from anarchon.flag import Flag
from anarchon.job import Job
from anarchon.records import datetime_of
from anarchon.scheduler.core import SchedulerCore
from anarchon.scheduler.executor import Executor
from anarchon.scheduler.leases import HeldLease
from anarchon.scheduler.pursuit import Pursuit
from anarchon.scheduler.renewals import Renewals
from anarchon.scheduler.runs import ActiveRun, Board, Cause
from anarchon.scheduler.settings import Settings

__all__ = ["Grants"]


class Grants:
    """
    Makes a run of each grant, holds its lease, and starts it.

    Args:
        core: The scheduler.

        executor: Runs handlers.

        renewals: Renews leases; None on a claim-only backend.

        settings: The scheduler's options.

        clock: The instance's clocks.

        instance_id: The label of this instance.

        board: Where the run that is in a step is written down.

        ended: Told when a run is over, and whether it finished.
    """

    def __init__(
        self,
        core: SchedulerCore,
        executor: Executor,
        renewals: Renewals | None,
        *,
        settings: Settings,
        clock: Clock,
        instance_id: str,
        board: Board,
        ended: Callable[[ActiveRun, bool], None],
    ) -> None:
        self._core = core
        self._executor = executor
        self._renewals = renewals
        self._settings = settings
        self._clock = clock
        self._instance_id = instance_id
        self._board = board
        self._ended = ended
        self._confirm_ms = max(settings.heartbeat_ms, settings.call_timeout_ms)

    def execute(self, pursuit: Pursuit, from_instance: str) -> None:
        """
        Execute a run that the store granted.

        One that is granted after stop() has begun is released at once.
        """
        job = pursuit.view.job
        run = ActiveRun(
            job,
            self._context(job, pursuit),
            self._lease(job, pursuit),
            clock=self._clock,
            poke=self._poke,
            confirm_ms=self._confirm_ms,
            lost=self._lost,
            board=self._board,
        )
        pursuit.view.runs.append(run)
        instance, name = self._instance_id, job.name
        slot, attempt = pursuit.slot, pursuit.attempt
        self._core.emit(
            ClaimEvent(
                instance=instance,
                job=name,
                slot=slot,
                attempt=attempt,
                latency_ms=self._clock.suspend_ms() - pursuit.sent_ms,
            )
        )
        if attempt > 1:
            self._core.emit(
                TakeoverEvent(
                    instance=instance,
                    job=name,
                    slot=slot,
                    attempt=attempt,
                    from_instance=from_instance,
                )
            )
        if run.lease is not None and self._renewals is not None:
            self._hold(run.lease, run, self._renewals)
        if not self._core.running:
            run.cut(Cause.STOP)
        self._executor.start(run, self._ended)

    def _lease(self, job: Job, pursuit: Pursuit) -> HeldLease | None:
        """
        Count the lease from when the claim was sent: the store cannot have begun earlier.
        """
        if self._renewals is None:
            return None
        return HeldLease(
            job=job.name,
            slot=pursuit.slot,
            attempt=pursuit.attempt,
            token=pursuit.token,
            lease_ms=self._settings.lease_ms,
            sent_ms=pursuit.sent_ms,
        )

    def _context(self, job: Job, pursuit: Pursuit) -> RunContext:
        deadline = None
        if job.timeout_ms is not None:
            deadline = datetime_of(self._clock.wall_ms()) + timedelta(milliseconds=job.timeout_ms)
        return RunContext(
            job=job.name,
            slot=pursuit.slot,
            attempt=pursuit.attempt,
            token=pursuit.token,
            instance_id=self._instance_id,
            stopping=self._core.stopping,
            lost=Flag(),
            deadline=deadline,
            state=self._settings.state,
        )

    @staticmethod
    def _hold(lease: HeldLease, run: ActiveRun, renewals: Renewals) -> None:
        loop = asyncio.get_running_loop()

        def changed() -> None:
            # The handlers' loop may have ended before its renewals: a thread's run goes on.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(run.lease_changed)

        lease.changed = changed
        renewals.hold(lease)

    def _poke(self) -> None:
        assert self._renewals is not None  # Only a run with a lease asks for a renewal.
        self._renewals.poke()

    def _lost(self, run: ActiveRun, cause: Cause) -> None:
        context = run.context
        self._core.emit(
            LostEvent(
                instance=self._instance_id,
                job=context.job,
                slot=context.slot,
                attempt=context.attempt,
                reason="token" if cause is Cause.TOKEN else "lease",
            )
        )
