"""
For lease backends: claim a run, watch runs on other instances, take over, catch up, hand over.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from random import Random

from anarchon.backend import (
    AnswerReason,
    ClaimAnswer,
    LeaseBackend,
    RegisterAnswer,
    RunView,
    Verdict,
)
from anarchon.clock import Clock
from anarchon.errors import BackendError, RequestError
from anarchon.job import Job
from anarchon.scheduler.agenda import Agenda
from anarchon.scheduler.core import SchedulerCore
from anarchon.scheduler.decide import catch_up_slot, chase_from, check_pause_ms
from anarchon.scheduler.pump import Pump
from anarchon.scheduler.pursuit import JobView, Pursuit, Watch
from anarchon.scheduler.reports import Reports
from anarchon.scheduler.runs import ActiveRun
from anarchon.scheduler.store_line import Backoff, StoreClock, StoreHealth, call_store
from anarchon.scheduler.timers import SLEEP_MS_MAX, JobTimers

__all__ = ["LeaseRunner"]

logger = logging.getLogger("anarchon")

_RETRY_MS = 1_000
_HINT_TIMEOUT_MS = 250


class LeaseRunner:
    """
    Decides, with the store, which runs this instance executes.

    Every method runs on the scheduler's loop and none of them waits: what is to be
    asked goes through the pump, and answers come back through `_answered`.

    Args:
        core: The scheduler.

        backend: The store.

        clock: The instance's clocks.

        random: Draws the pauses between checks.

        token: Makes the random value of an attempt.

        instance_id: The label of this instance.

        heartbeat_ms: How often leases are renewed.

        lease_ms: How long a lease lasts.

        timeout_ms: The deadline of a call.

        store_clock: What is known of the store's clock.

        health: Whether the store answers.

        timers: Arms slots; an early one is armed again.

        won: Starts a run that was granted: pursuit, label of the runner before.
    """

    def __init__(
        self,
        core: SchedulerCore,
        backend: LeaseBackend,
        *,
        clock: Clock,
        random: Random,
        token: Callable[[], str],
        instance_id: str,
        heartbeat_ms: int,
        lease_ms: int,
        timeout_ms: int,
        store_clock: StoreClock,
        health: StoreHealth,
        timers: JobTimers,
        won: Callable[[Pursuit, str], None],
    ) -> None:
        self._core = core
        self._backend = backend
        self._clock = clock
        self._random = random
        self._token = token
        self._instance_id = instance_id
        self._heartbeat_ms = heartbeat_ms
        self._lease_ms = lease_ms
        self._timeout_ms = timeout_ms
        self._patience_ms = 2 * timeout_ms
        self._store_clock = store_clock
        self._timers = timers
        self._won = won
        self._agenda = Agenda()
        self._reports = Reports(core.emit, instance_id)
        self._watching = asyncio.Event()
        self._views: dict[str, JobView] = {}
        self.pump: Pump[Pursuit, ClaimAnswer] = Pump(
            send=self._send,
            answered=self._answered,
            wanted=self._wanted,
            batch_max=backend.capabilities.batch_max,
            health=health,
            backoff=Backoff(random),
        )

    # What the scheduler tells.

    def begin(
        self, job: Job, answer: RegisterAnswer, zone_digests: str | None, registered_ms: int
    ) -> None:
        """
        Take a registered job up: watch its unfinished run, catch up, arm its next slot.

        Args:
            job: The job.

            answer: What the store knew of it.

            zone_digests: What was registered with it.

            registered_ms: The store's time at which its last slot was taken.
        """
        view = JobView(job, high=answer.high, since_ms=answer.since_ms, zone_digests=zone_digests)
        self._views[job.name] = view
        if answer.new and answer.high is not None and job.schedule.next_slot(answer.high) is None:
            self._reports.miss(job, answer.high, answer.high, 1, reason="past")
        if answer.run is not None:
            self._watch(view, answer.run)
        if job.catch_up == "all":
            self._chase(view)
            return
        if job.catch_up == "latest" and not answer.new:
            slot = catch_up_slot(job, view.high, view.since_ms, registered_ms)
            if slot is not None:
                self._pursue(view, slot)
        self._timers.arm(job, registered_ms)

    def due(self, job: Job, slot: int, late_ms: int) -> None:
        """
        Claim a slot that has come due; *late_ms* is by how much its timer was late.
        """
        view = self._views[job.name]
        if job.catch_up == "all":
            self._chase(view)
        elif job.catch_up == "none" and late_ms > SLEEP_MS_MAX:
            # Nobody was awake when it was due: that is a gap, and the policy is to begin with the next slot.
            self._reports.skip(view.job, slot, "late")
        elif view.pursuit is None or view.pursuit.slot < slot:
            self._pursue(view, slot)

    def ended(self, run: ActiveRun, *, finished: bool) -> None:
        """
        A run of this instance is over; one that did not finish may need a backup.
        """
        view = self._views[run.job.name]
        view.runs.remove(run)
        if not self._core.running:
            return
        if view.watch is not None:
            self._later(view, view.watch, 0)
        elif not finished and run.job.takeover:
            # Other instances hear of it first; if there is none, this one goes on by itself.
            pause_ms = self._heartbeat_ms + int(self._random.random() * self._heartbeat_ms)
            context = run.context
            left = RunView(
                slot=context.slot,
                attempt=context.attempt,
                remaining_ms=1,
                instance_id=self._instance_id,
            )
            self._watch(view, left, pause_ms=pause_ms)
        if run.job.catch_up == "all":
            self._chase(view)

    def floor(self, job: Job) -> int:
        """
        Return the newest slot of *job* that the store is known to have seen.
        """
        high = self._views[job.name].high
        return -1 if high is None else high

    def stop(self) -> None:
        """
        Ask for nothing new. What is in flight is answered, and then released.
        """
        self._agenda.stop()
        self._watching.set()
        self.pump.close()

    async def listen(self) -> None:
        """
        Follow the backend's hints while there is a run to watch. They only shorten waiting.
        """
        while self._core.running:
            watched = {
                name: view.watch
                for name, view in self._views.items()
                if view.watch is not None and view.watch.asked is None
            }
            if not watched:
                self._watching.clear()
                await self._watching.wait()
                continue
            runs = [(name, watch.slot, watch.attempt) for name, watch in watched.items()]
            hinted = await call_store(
                self._backend.next_hint(runs, timeout_ms=_HINT_TIMEOUT_MS),
                timeout_ms=self._timeout_ms,
            )
            for name in sorted(hinted):
                view = self._views.get(name)
                if view is not None and view.watch is not None and view.watch is watched.get(name):
                    self._check(view, view.watch, view.watch.generation)

    # Claims.

    def _pursue(self, view: JobView, slot: int, *, overlap: str = "skip") -> None:
        """
        Ask for a slot. An older claim of the job that is not answered yet is not repeated.
        """
        if not self._core.running or view.blocked:
            return
        pursuit = Pursuit(
            view, slot, 1, self._token(), overlap="wait" if overlap == "wait" else "skip"
        )
        view.pursuit = pursuit
        self.pump.put(pursuit)

    def _wanted(self, pursuit: Pursuit) -> bool:
        if pursuit.watch is not None:
            return pursuit.view.watch is pursuit.watch and pursuit.watch.asked is pursuit
        return pursuit.view.pursuit is pursuit

    async def _send(self, pursuits: Sequence[Pursuit]) -> Sequence[ClaimAnswer | BackendError]:
        sent_ms = self._clock.suspend_ms()
        not_after_ms = self._store_clock.now_ms() + self._patience_ms
        for pursuit in pursuits:
            pursuit.sent_ms = sent_ms
            if pursuit.not_after_ms is None or pursuit.watch is not None:
                pursuit.not_after_ms = not_after_ms
        requests = [
            pursuit.request(instance_id=self._instance_id, lease_ms=self._lease_ms)
            for pursuit in pursuits
        ]
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
        try:
            if isinstance(answer, BackendError):
                self._refused(pursuit, answer)
                return
            view.learn(answer.high)
            if view.pursuit is pursuit:
                view.pursuit = None
            self._reports.notice_schedule(view, answer)
            self._follow(view, pursuit, answer)
        except Exception as error:
            # One job's trouble, a schedule of the user's own that raises say, never stops the others.
            message = f"job {view.job.name!r}: an answer could not be followed up: {error}"
            logger.exception(message)
            self._reports.error(view.job, message, error)

    def _follow(self, view: JobView, pursuit: Pursuit, answer: ClaimAnswer) -> None:
        match answer.verdict:
            case Verdict.WON:
                self._granted(view, pursuit, answer)
                return
            case Verdict.RUNNING | Verdict.OVERLAP:
                self._in_the_way(view, pursuit, answer)
            case Verdict.EARLY:
                self._reports.skip(view.job, pursuit.slot, "early")
                self._back_up(view, pursuit, answer)
                self._timers.arm_slot(view.job, pursuit.slot)
                return
            case Verdict.LATE if answer.reason is AnswerReason.EXPIRED:
                self._expired(view, pursuit, answer)
            case _:
                self._over(view, pursuit, answer)
        if view.job.catch_up == "all":
            self._chase(view)

    def _granted(self, view: JobView, pursuit: Pursuit, answer: ClaimAnswer) -> None:
        before = "" if pursuit.watch is None else pursuit.watch.instance_id
        view.watch = None
        # First of all the run: counting what was missed asks a schedule, which may raise.
        self._won(pursuit, before)
        if pursuit.attempt == 1:
            self._reports.missed(view.job, pursuit.slot, answer)

    def _in_the_way(self, view: JobView, pursuit: Pursuit, answer: ClaimAnswer) -> None:
        """
        Another run goes on, or this very one does elsewhere.
        """
        if answer.verdict is Verdict.OVERLAP and pursuit.overlap == "skip":
            self._reports.skip(view.job, pursuit.slot, "overlap")
        self._back_up(view, pursuit, answer)
        if answer.recorded:
            self._reports.missed(view.job, pursuit.slot, answer)

    def _over(self, view: JobView, pursuit: Pursuit, answer: ClaimAnswer) -> None:
        """
        The slot is finished, superseded, too old, or unknown: there is nothing to do for it.
        """
        self._back_up(view, pursuit, answer)
        if pursuit.watch is not None:
            if answer.reason is AnswerReason.GIVEN_UP:
                self._reports.given_up(view.job, pursuit.slot, pursuit.attempt - 1)
            return
        self._reports.skip(
            view.job, pursuit.slot, "done" if answer.verdict is Verdict.DONE else "late"
        )
        too_old = answer.reason is AnswerReason.TOO_OLD
        if too_old and view.job.schedule.next_slot(pursuit.slot) is None:
            # No later slot's winner will ever report it.
            self._reports.miss(view.job, pursuit.slot, pursuit.slot, 1)

    def _expired(self, view: JobView, pursuit: Pursuit, answer: ClaimAnswer) -> None:
        """
        The store heard of the claim only after it had been given up. The slot is missed; catch_up decides.
        """
        # Also when nothing is left of the lease: a store that is slow to hear is not pressed.
        self._back_up(view, pursuit, answer, pause_ms_min=min(_RETRY_MS, self._heartbeat_ms))
        if pursuit.watch is not None:
            return
        self._reports.skip(view.job, pursuit.slot, "late")
        if view.job.catch_up == "latest" and view.pursuit is None:
            slot = catch_up_slot(view.job, view.high, view.since_ms, self._timers.now_ms())
            if slot is not None:
                self._pursue(view, slot)

    def _refused(self, pursuit: Pursuit, error: BackendError) -> None:
        """
        One item of a batch failed by itself: nobody has won anything.
        """
        view = pursuit.view
        message = f"job {view.job.name!r}: the claim of slot {pursuit.slot} failed: {error}"
        logger.warning(message, extra={"job": view.job.name, "slot": pursuit.slot})
        self._reports.error(view.job, message, error, slot=pursuit.slot, attempt=pursuit.attempt)
        if pursuit.watch is not None:
            # A backup goes on looking, whatever the trouble with one look was.
            if view.watch is pursuit.watch:
                self._later(view, pursuit.watch, self._heartbeat_ms)
        elif not isinstance(error, RequestError):
            self._agenda.after(_RETRY_MS, lambda: self.pump.put(pursuit))
        elif view.pursuit is pursuit:
            view.pursuit = None

    # Backups.

    def _back_up(
        self, view: JobView, pursuit: Pursuit, answer: ClaimAnswer, *, pause_ms_min: int = 0
    ) -> None:
        """
        Become, or stay, a backup of the run that is live, whichever answer names it.

        Who was late for a slot may be the only one left to go on with it.
        """
        if answer.run is not None:
            pause_ms = check_pause_ms(answer.run, self._heartbeat_ms, self._random)
            self._watch(view, answer.run, pause_ms=max(pause_ms, pause_ms_min))
        elif pursuit.watch is not None and view.watch is pursuit.watch:
            view.watch = None

    def _watch(self, view: JobView, run: RunView, *, pause_ms: int | None = None) -> None:
        """
        Be a backup of *run*: look again when it may have died.
        """
        if view.owns(run):
            view.watch = None
            return
        watch = view.watch
        if watch is None or watch.slot != run.slot or watch.attempt != run.attempt:
            watch = Watch(run.slot, run.attempt, run.instance_id, self._token())
            view.watch = watch
        if pause_ms is None:
            pause_ms = check_pause_ms(run, self._heartbeat_ms, self._random)
        self._later(view, watch, pause_ms)

    def _later(self, view: JobView, watch: Watch, pause_ms: int) -> None:
        watch.generation += 1
        watch.asked = None
        self._watching.set()
        generation = watch.generation
        self._agenda.after(pause_ms, lambda: self._check(view, watch, generation))

    def _check(self, view: JobView, watch: Watch, generation: int) -> None:
        """
        Ask for the next attempt: the run goes on, or is over, or has just been taken over.
        """
        if (
            view.watch is not watch
            or watch.generation != generation
            or not self._core.running
            or view.blocked
        ):
            return
        watch.generation += 1
        watch.asked = Pursuit(view, watch.slot, watch.attempt + 1, watch.token, watch=watch)
        self.pump.put(watch.asked)

    # Catching up in order.

    def _chase(self, view: JobView) -> None:
        """
        Under catch_up = "all", ask for the first slot after the newest one, and for no other.
        """
        if (
            not self._core.running
            or view.pursuit is not None
            or view.watch is not None
            or view.runs
        ):
            return
        job = view.job
        after_ms = chase_from(job, view.high, view.since_ms, self._store_clock.now_ms())
        try:
            slot = job.schedule.next_slot(after_ms)
        except Exception:  # noqa: BLE001 - the timers ask once more, tell it, and go on asking
            self._timers.arm(job, after_ms)
            return
        if slot is None:
            return
        if slot > self._timers.now_ms():
            self._timers.arm(job, max(after_ms, slot - 1))
            return
        self._pursue(view, slot, overlap="wait")
