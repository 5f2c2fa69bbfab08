"""
For claim-only backends: one claim, and the winner runs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from random import Random

from anarchon.backend import Backend, ClaimAnswer, Verdict
from anarchon.clock import Clock
from anarchon.errors import BackendError
from anarchon.events import ErrorEvent, SkipEvent, SkipReason
from anarchon.job import Job
from anarchon.scheduler.core import SchedulerCore
from anarchon.scheduler.pump import Pump
from anarchon.scheduler.pursuit import JobView, Pursuit
from anarchon.scheduler.runs import ActiveRun
from anarchon.scheduler.store_line import Backoff, StoreClock, StoreHealth, call_store
from anarchon.scheduler.timers import SLEEP_MS_MAX, JobTimers

__all__ = ["ClaimOnlyRunner"]

logger = logging.getLogger("anarchon")


class ClaimOnlyRunner:
    """
    Claims each due slot; who loses does nothing more.

    Args:
        core: The scheduler.

        backend: The store.

        clock: The instance's clocks.

        random: Draws the pauses after a failed call.

        token: Makes the random value of an attempt.

        instance_id: The label of this instance.

        timeout_ms: The deadline of a call.

        store_clock: What is known of the store's clock, if it tells one.

        health: Whether the store answers.

        timers: Arms slots; an early one is armed again.

        won: Starts a run that was granted.
    """

    def __init__(
        self,
        core: SchedulerCore,
        backend: Backend,
        *,
        clock: Clock,
        random: Random,
        token: Callable[[], str],
        instance_id: str,
        timeout_ms: int,
        store_clock: StoreClock,
        health: StoreHealth,
        timers: JobTimers,
        won: Callable[[Pursuit, str], None],
    ) -> None:
        self._core = core
        self._backend = backend
        self._clock = clock
        self._token = token
        self._instance_id = instance_id
        self._timeout_ms = timeout_ms
        self._patience_ms = 2 * timeout_ms
        self._store_clock = store_clock
        self._timers = timers
        self._won = won
        self._views: dict[str, JobView] = {}
        self.pump: Pump[Pursuit, ClaimAnswer] = Pump(
            send=self._send,
            answered=self._answered,
            wanted=self._wanted,
            batch_max=backend.capabilities.batch_max,
            health=health,
            backoff=Backoff(random),
        )

    def begin(self, job: Job, now_ms: int) -> None:
        """
        Take a job up: its first slot is the next one.
        """
        self._views[job.name] = JobView(job, high=job.schedule.last_slot(now_ms))
        self._timers.arm(job, now_ms)

    def due(self, job: Job, slot: int, late_ms: int) -> None:
        """
        Claim a slot that has come due, unless nobody was awake to do it in time.
        """
        view = self._views[job.name]
        too_old = (
            job.max_lateness_ms is not None
            and self._store_clock.now_ms() - slot > job.max_lateness_ms
        )
        if late_ms > SLEEP_MS_MAX or too_old:
            self._skip(view, slot, "late")
            return
        pursuit = Pursuit(view, slot, 1, self._token())
        view.pursuit = pursuit
        self.pump.put(pursuit)

    def ended(self, run: ActiveRun, *, finished: bool) -> None:  # noqa: ARG002 - nothing can follow on a run here
        """
        A run of this instance is over.
        """
        self._views[run.job.name].runs.remove(run)

    def floor(self, job: Job) -> int:
        """
        Return the newest slot of *job* that was claimed here.
        """
        high = self._views[job.name].high
        return -1 if high is None else high

    def stop(self) -> None:
        """
        Ask for nothing new.
        """
        self.pump.close()

    def _wanted(self, pursuit: Pursuit) -> bool:
        return self._core.running and pursuit.view.pursuit is pursuit

    async def _send(self, pursuits: Sequence[Pursuit]) -> Sequence[ClaimAnswer | BackendError]:
        sent_ms = self._clock.suspend_ms()
        requests = []
        for pursuit in pursuits:
            pursuit.sent_ms = sent_ms
            if self._store_clock.known and pursuit.not_after_ms is None:
                pursuit.not_after_ms = self._store_clock.now_ms() + self._patience_ms
            requests.append(pursuit.request(instance_id=self._instance_id, lease_ms=0))
        answers = await call_store(
            self._backend.claim(requests, timeout_ms=self._timeout_ms), timeout_ms=self._timeout_ms
        )
        received_ms = self._clock.suspend_ms()
        first = next((answer for answer in answers if isinstance(answer, ClaimAnswer)), None)
        if first is not None:
            self._store_clock.heard(first.store_now_ms, sent_ms=sent_ms, received_ms=received_ms)
        return answers

    def _answered(self, pursuit: Pursuit, answer: ClaimAnswer | BackendError) -> None:
        view = pursuit.view
        if isinstance(answer, BackendError):
            self._refused(pursuit, answer)
            return
        if view.pursuit is pursuit:
            view.pursuit = None
        if answer.verdict is Verdict.EARLY:
            self._skip(view, pursuit.slot, "early")
            self._timers.arm_slot(view.job, pursuit.slot)
            return
        view.learn(pursuit.slot)
        if answer.verdict is Verdict.WON:
            self._won(pursuit, "")
        else:
            self._skip(view, pursuit.slot, "late" if answer.verdict is Verdict.LATE else "done")

    def _refused(self, pursuit: Pursuit, error: BackendError) -> None:
        """
        One item of a batch failed by itself: nobody has won anything.
        """
        view = pursuit.view
        if view.pursuit is pursuit:
            view.pursuit = None
        message = f"job {view.job.name!r}: the claim of slot {pursuit.slot} failed: {error}"
        logger.warning(message, extra={"job": view.job.name, "slot": pursuit.slot})
        self._core.emit(
            ErrorEvent(
                instance=self._instance_id,
                message=message,
                job=view.job.name,
                slot=pursuit.slot,
                attempt=1,
                error=error,
            )
        )

    def _skip(self, view: JobView, slot: int, reason: SkipReason) -> None:
        self._core.emit(
            SkipEvent(instance=self._instance_id, job=view.job.name, slot=slot, reason=reason)
        )
