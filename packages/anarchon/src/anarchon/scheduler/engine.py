"""
One life of a scheduler: from start() to stop(), on one event loop.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, cast

from anarchon.backend import Backend, LeaseBackend, RegisterAnswer
from anarchon.errors import BackendError, BackendStateError, StoreUnavailableError
from anarchon.events import (
    BlockEvent,
    ErrorEvent,
    Event,
    SchedulerStartedEvent,
    SchedulerStoppedEvent,
)
from anarchon.flag import Flag
from anarchon.job import Job
from anarchon.records import datetime_of
from anarchon.runtime import Runtime
from anarchon.scheduler.claim_only_runner import ClaimOnlyRunner
from anarchon.scheduler.ending import Ending
from anarchon.scheduler.executor import Executor
from anarchon.scheduler.grants import Grants
from anarchon.scheduler.lease_runner import LeaseRunner
from anarchon.scheduler.ledger import ClaimOnlyLedger, LeaseLedger
from anarchon.scheduler.loop_watch import LoopWatch, Step
from anarchon.scheduler.pursuit import Pursuit
from anarchon.scheduler.registering import compare_schedule, register_jobs
from anarchon.scheduler.renewals import Renewals
from anarchon.scheduler.runs import ActiveRun, Board
from anarchon.scheduler.settings import Settings
from anarchon.scheduler.store_line import Backoff, StoreClock, StoreHealth, call_store
from anarchon.scheduler.supervisor import Supervisor
from anarchon.scheduler.timers import JobTimers
from anarchon.slots.facts import describe

__all__ = ["Engine"]

logger = logging.getLogger("anarchon")

_PULSE_MS_MAX = 1_000


class Engine:
    """
    The parts of a scheduler, put together. It is their SchedulerCore.

    Args:
        jobs: What to run.

        backend: The store; owned from start() to stop().

        settings: The scheduler's options.

        runtime: Clocks, randomness, tokens, threads.

        tell: Takes every event.
    """

    def __init__(
        self,
        jobs: Sequence[Job],
        backend: Backend,
        settings: Settings,
        runtime: Runtime,
        tell: Callable[[Event], None],
    ) -> None:
        self._jobs = jobs
        self._backend = backend
        self._settings = settings
        self._runtime = runtime
        self._tell = tell
        self.instance_id = settings.instance_id or runtime.instance_id()
        self._random = runtime.make_random()
        self._running = False
        self._owned = True  # Until open() says that the backend lives for somebody else.
        self._stopping = Flag()
        self._tasks = Supervisor(self.emit, self._random, self.instance_id)
        self._claims_task: asyncio.Task[None] | None = None
        self._board = Board()
        self._pool = runtime.make_pool()
        self._health = StoreHealth(runtime.clock, self.emit, self.instance_id)
        self._store_clock = StoreClock(runtime.clock, self.emit, self.instance_id)
        self._timers = JobTimers(
            self,
            clock=runtime.clock,
            random=self._random,
            instance_id=self.instance_id,
            early_ms=runtime.early_ms,
            ahead_ms=lambda: self._store_clock.ahead_ms,
            due=self._due,
            stepped=self._own_clock_stepped,
        )
        self._renewals: Renewals | None = None
        self._watch: LoopWatch | None = None
        self._runner: LeaseRunner | ClaimOnlyRunner
        self._ledger: LeaseLedger | ClaimOnlyLedger
        if backend.capabilities.leases:
            self._build_for_leases(cast("LeaseBackend", backend))
        else:
            self._build_for_claims()
        self._executor = Executor(
            self,
            clock=runtime.clock,
            pool=self._pool,
            ledger=self._ledger,
            instance_id=self.instance_id,
        )
        self._grants = Grants(
            self,
            self._executor,
            self._renewals,
            settings=settings,
            clock=runtime.clock,
            instance_id=self.instance_id,
            board=self._board,
            ended=self._run_ended,
        )
        self._ending = Ending(
            backend,
            self._tasks,
            self._executor,
            self._ledger,
            renewals=self._renewals,
            pool=self._pool,
        )

    @property
    def backend(self) -> Backend:
        """
        The backend, open from start() to stop().
        """
        return self._backend

    # The one small interface between the parts.

    @property
    def running(self) -> bool:
        """
        Whether slots are claimed.
        """
        return self._running

    @property
    def stopping(self) -> Flag:
        """
        The stop signal.
        """
        return self._stopping

    def emit(self, event: Event) -> None:
        """
        Tell an event.
        """
        self._tell(event)

    def work(self, coroutine: Coroutine[Any, Any, None], *, name: str) -> None:
        """
        Run something that stop() waits for.
        """
        self._tasks.work(coroutine, name=name)

    # Its life.

    async def start(self) -> None:
        """
        Return when the store has answered once, with every job registered.

        Raises:
            StoreUnavailableError: It has not answered within the start timeout.

            BackendError: The store, or the backend, refuses.
        """
        try:
            if self._settings.start_timeout_ms is None:
                await self._connect()
            else:
                async with asyncio.timeout(self._settings.start_timeout_ms / 1_000):
                    await self._connect()
        except TimeoutError as error:
            await self._abandon()
            msg = f"the store has not answered within {self._settings.start_timeout_ms} ms: {self._last_error}"
            raise StoreUnavailableError(msg) from self._last_error or error
        except BaseException:
            await self._abandon()
            raise

    async def stop(self) -> None:
        """
        Claim nothing new, let handlers drain, hand over what outlasts the stop timeout, close.
        """
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + self._settings.stop_timeout_ms / 1_000
        self._running = False
        self._timers.stop()
        self._runner.stop()
        self._stopping.set()
        self._health.wake()
        assert self._claims_task is not None
        await self._ending.drain(self._claims_task, deadline_s)
        unfinished = await self._ending.hand_over()
        await self._ending.close()
        self.emit(SchedulerStoppedEvent(instance=self.instance_id, unfinished=unfinished))

    async def _connect(self) -> None:
        self._last_error: BackendError | None = None
        backoff = Backoff(self._random)
        opened = False
        while True:
            try:
                if not opened:
                    timeout_ms = self._settings.open_timeout_ms
                    await call_store(
                        self._backend.open(timeout_ms=timeout_ms), timeout_ms=timeout_ms
                    )
                    opened = True
                await self._prepare()
            except BackendStateError:
                self._owned = opened
                raise
            except StoreUnavailableError as error:
                self._last_error = error
                self._health.failed(error)
                await asyncio.sleep(backoff.next_s())
            else:
                break

    async def _prepare(self) -> None:
        """
        Ask the store's time, make the jobs known, and begin with each.
        """
        clock = self._runtime.clock
        sent_ms = clock.suspend_ms()
        store_ms = await self._call(self._backend.time(timeout_ms=self._settings.call_timeout_ms))
        self._store_clock.heard(store_ms, sent_ms=sent_ms, received_ms=clock.suspend_ms())
        now_ms = self._timers.now_ms() if store_ms is None else store_ms
        self._jobs = self._askable(now_ms)
        registered: list[tuple[Job, RegisterAnswer, str | None]] = []
        if isinstance(self._runner, LeaseRunner):
            registered = await register_jobs(
                cast("LeaseBackend", self._backend),
                self._jobs,
                store_ms=now_ms,
                timeout_ms=self._settings.call_timeout_ms,
            )
        self._health.answered()
        if self._renewals is not None and self._watch is not None:
            self._watch.main_loop = asyncio.get_running_loop()
            await self._renewals.start()
        self._running = True
        self._begin(registered, now_ms)
        self.emit(
            SchedulerStartedEvent(
                instance=self.instance_id,
                jobs=tuple(job.name for job in self._jobs),
                service=self._backend.service,
            )
        )

    def _askable(self, now_ms: int) -> Sequence[Job]:
        """
        Leave out jobs whose schedule raises: one of the user's own must not stop the others.
        """
        askable = []
        for job in self._jobs:
            try:
                job.schedule.last_slot(now_ms)
                job.schedule.next_slot(now_ms)
            except Exception as error:
                message = f"job {job.name!r} is left out until the next start: its schedule raised {error!r}"
                logger.exception(message, extra={"job": job.name, "instance": self.instance_id})
                self.emit(
                    ErrorEvent(
                        instance=self.instance_id, message=message, job=job.name, error=error
                    )
                )
            else:
                askable.append(job)
        return askable

    def _begin(
        self, registered: Sequence[tuple[Job, RegisterAnswer, str | None]], now_ms: int
    ) -> None:
        """
        Take each job up, and start the internal tasks.
        """
        runner = self._runner
        if isinstance(runner, LeaseRunner):
            for job, answer, digest in registered:
                compare_schedule(job, answer, digest, emit=self.emit, instance_id=self.instance_id)
                runner.begin(job, answer, digest, now_ms)
        else:
            for job in self._jobs:
                runner.begin(job, now_ms)
        self._log_upcoming(now_ms)
        self._claims_task = self._tasks.keep(self._runner.pump.work, "claims")
        for work in self._ledger.works:
            _ = self._tasks.keep(work, "closings")
        if isinstance(self._runner, LeaseRunner) and self._backend.capabilities.hints:
            _ = self._tasks.keep(self._runner.listen, "hints")

    def _log_upcoming(self, now_ms: int) -> None:
        """
        Log each job's next slot: a zone or a field that was misread shows at the first start.
        """
        if not logger.isEnabledFor(logging.INFO):
            return
        for job in self._jobs:
            slot = job.schedule.next_slot(now_ms)
            when = "none" if slot is None else datetime_of(slot).isoformat()
            extra = {"job": job.name, "instance": self.instance_id}
            logger.info(
                "job %r (%s): next slot %s", job.name, describe(job.schedule), when, extra=extra
            )

    async def _abandon(self) -> None:
        """
        Undo a start that failed half-way.
        """
        self._running = False
        self._timers.stop()
        self._runner.stop()
        await self._ending.close(owned=self._owned)

    # What the parts tell.

    def _due(self, due: Sequence[tuple[Job, int, int]]) -> None:
        for job, slot, late_ms in due:
            self._runner.due(job, slot, late_ms)

    def _own_clock_stepped(self, step_ms: int) -> None:
        """
        Arm every job anew: a slot armed by a clock that was wrong would be waited for in vain.
        """
        if step_ms < 0:
            for job in self._jobs:
                self._timers.arm(job, max(self._timers.now_ms(), self._runner.floor(job)))

    def _granted(self, pursuit: Pursuit, from_instance: str) -> None:
        self._grants.execute(pursuit, from_instance)

    def _run_ended(self, run: ActiveRun, finished: bool) -> None:  # noqa: FBT001 - a callback's argument
        self._runner.ended(run, finished=finished)

    def _blocked(self, step: Step | None, duration_ms: int) -> None:
        self.emit(
            BlockEvent(
                instance=self.instance_id,
                job=None if step is None else step.job,
                slot=None if step is None else step.slot,
                attempt=None if step is None else step.attempt,
                duration_ms=duration_ms,
            )
        )

    def _heard(self, store_ms: int, sent_ms: int, received_ms: int) -> None:
        self._store_clock.heard(store_ms, sent_ms=sent_ms, received_ms=received_ms)

    # Building, and keeping alive.

    def _build_for_leases(self, backend: LeaseBackend) -> None:
        settings, runtime = self._settings, self._runtime
        pulse_ms = min(settings.heartbeat_ms, _PULSE_MS_MAX)
        watch = LoopWatch(
            clock=runtime.clock,
            period_ms=pulse_ms,
            idle_ms=settings.heartbeat_ms,
            busy=lambda: self._renewals is not None and bool(self._renewals.table),
            current=self._board.step,
            blocked=self._blocked,
        )
        self._renewals = Renewals(
            backend,
            clock=runtime.clock,
            heartbeat_ms=settings.heartbeat_ms,
            start_loop=runtime.start_loop,
            heard=self._heard,
            beside=watch.watch,
        )
        self._watch = watch
        self._runner = LeaseRunner(
            self,
            backend,
            clock=runtime.clock,
            random=self._random,
            token=runtime.token,
            instance_id=self.instance_id,
            heartbeat_ms=settings.heartbeat_ms,
            lease_ms=settings.lease_ms,
            timeout_ms=settings.call_timeout_ms,
            store_clock=self._store_clock,
            health=self._health,
            timers=self._timers,
            won=self._granted,
        )
        self._ledger = LeaseLedger(
            backend,
            self._renewals,
            clock=runtime.clock,
            health=self._health,
            random=self._random,
            claims=self._runner.pump,
            timeout_ms=settings.call_timeout_ms,
        )

    def _build_for_claims(self) -> None:
        settings, runtime = self._settings, self._runtime
        self._runner = ClaimOnlyRunner(
            self,
            self._backend,
            clock=runtime.clock,
            random=self._random,
            token=runtime.token,
            instance_id=self.instance_id,
            timeout_ms=settings.call_timeout_ms,
            store_clock=self._store_clock,
            health=self._health,
            timers=self._timers,
            won=self._granted,
        )
        self._ledger = ClaimOnlyLedger(
            self._backend,
            clock=runtime.clock,
            health=self._health,
            random=self._random,
            claims=self._runner.pump,
            timeout_ms=settings.call_timeout_ms,
        )

    def _call(self, call: Coroutine[Any, Any, Any]) -> Coroutine[Any, Any, Any]:
        return call_store(call, timeout_ms=self._settings.call_timeout_ms)
