"""
Call the handler, apply the timeout, decide how the run ended, and have it recorded.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import traceback
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Executor as Pool
from typing import Any, Protocol

from anarchon.backend import CloseAnswer
from anarchon.clock import Clock
from anarchon.errors import BackendError, HandOver
from anarchon.events import FinishEvent, HandoverEvent, StartEvent
from anarchon.records import Reason, Status
from anarchon.scheduler.core import SchedulerCore
from anarchon.scheduler.gate import Gate
from anarchon.scheduler.runs import ActiveRun, Cause, Outcome, Stage

__all__ = ["Executor", "Ledger", "Verdict", "judge"]

logger = logging.getLogger("anarchon")


class Verdict:
    """
    What an outcome means for the record: a status with its reason, or a release.
    """

    __slots__ = ("error", "reason", "status")

    def __init__(
        self, status: Status, reason: Reason | None = None, error: BaseException | None = None
    ) -> None:
        self.status = status
        self.reason = reason
        self.error = error

    @property
    def error_text(self) -> str | None:
        """
        The error as the history keeps it.
        """
        if self.error is None:
            return None
        return "".join(traceback.format_exception_only(self.error)).strip()


class Ledger(Protocol):
    """
    Where the executor has its outcomes recorded: one for each kind of backend.
    """

    async def record(self, run: ActiveRun, verdict: Verdict) -> CloseAnswer | BackendError | None:
        """
        Record how *run* ended; asks until the store has answered.

        None says that it was given up, since stop() has run out of time.
        """


def judge(run: ActiveRun, outcome: Outcome) -> Verdict:
    """
    Say what an outcome means; pure.

    A handler that was cancelled by the fence or by stop is released, never
    finished: nobody completed it. A timeout is a failure, whatever the handler
    made of the cancellation.
    """
    if run.cause is Cause.TIMEOUT:
        timeout_s = (run.job.timeout_ms or 0) / 1_000
        error = (
            outcome.error
            if isinstance(outcome.error, TimeoutError)
            else TimeoutError(f"ran longer than {timeout_s:g} s")
        )
        return Verdict(Status.FAILED, Reason.TIMEOUT, error)
    if outcome.released or (run.cause is not None and not run.in_thread):
        return Verdict(Status.INTERRUPTED, Reason.HANDED_OVER)
    if outcome.error is not None:
        return Verdict(Status.FAILED, Reason.ERROR, outcome.error)
    return Verdict(Status.SUCCESS)


class _HandlerCancelledError(Exception):
    """
    A handler raised CancelledError though nobody cancelled it: what it awaited was cancelled.
    """


class Executor:
    """
    Runs handlers: async ones behind a gate on the loop, plain ones in worker threads.
    """

    def __init__(
        self, core: SchedulerCore, *, clock: Clock, pool: Pool, ledger: Ledger, instance_id: str
    ) -> None:
        self._core = core
        self._clock = clock
        self._pool = pool
        self._ledger = ledger
        self._instance_id = instance_id
        # In the order of their grants, so that one seed of a simulation always gives one history.
        self.runs: dict[ActiveRun, None] = {}

    def start(self, run: ActiveRun, ended: Callable[[ActiveRun, bool], None]) -> None:
        """
        Execute *run* as a task of its own; *ended* is told when all is over, and whether it finished.
        """
        self.runs[run] = None
        self._core.work(
            self._execute(run, ended), name=f"anarchon-run-{run.job.name}-{run.context.slot}"
        )

    async def _execute(self, run: ActiveRun, ended: Callable[[ActiveRun, bool], None]) -> None:
        run.task = asyncio.current_task()
        finished = False
        try:
            outcome = await self._call(run)
            run.stage = Stage.REPORT
            if (
                run.adopter is None
            ):  # Otherwise stop() has gone on, and the thread reports by itself.
                finished = await self.report(run, outcome)
        finally:
            run.stage = Stage.ENDED
            run.disarm()
            self.runs.pop(run, None)
            ended(run, finished)

    async def _call(self, run: ActiveRun) -> Outcome:
        """
        Call the handler and wait for its end, however it comes.
        """
        loop = asyncio.get_running_loop()
        context, job = run.context, run.job
        timeout = None
        run.arm_fence(loop)
        try:
            if run.cause is not None or (run.doubtful() and not await run.confirm()):
                return Outcome(released=True)
            if job.timeout_ms is not None:
                timeout = loop.call_later(job.timeout_ms / 1_000, run.cut, Cause.TIMEOUT)
            self._begin(run)
            if job.handler.is_async:
                await self._gated(run, job.handler(context))
            else:
                result = await self._in_thread(run, lambda: job.handler(context))
                if inspect.isawaitable(result):
                    await self._drive(run, result)
        except HandOver:
            return Outcome(released=True)
        except _HandlerCancelledError as error:
            return Outcome(error=error.__cause__)
        except asyncio.CancelledError as error:
            return self._cancelled(run, error)
        except BaseException as error:  # noqa: BLE001 - a handler's SystemExit is its failure, not the scheduler's end
            return Outcome(error=error)
        finally:
            if timeout is not None:
                timeout.cancel()
        return Outcome()

    async def _drive(self, run: ActiveRun, awaitable: Awaitable[Any]) -> None:
        """
        Go on with what a plain handler returned, now that the thread has ended.
        """
        run.in_thread = False
        if run.cause is not None:
            _discard(awaitable)
            raise HandOver
        await self._gated(run, _coroutine(awaitable))

    @staticmethod
    async def _gated(run: ActiveRun, coroutine: Coroutine[Any, Any, Any]) -> None:
        """
        Drive a handler's coroutine behind the gate.
        """
        gate = Gate(coroutine, run)
        try:
            await gate
        except asyncio.CancelledError as error:
            if run.cause is None and not gate.was_cancelled_by(error):
                raise _HandlerCancelledError from error
            raise

    def _begin(self, run: ActiveRun) -> None:
        context = run.context
        run.started_ms = self._clock.suspend_ms()
        if run.lease is not None:
            run.lease.started_ms = run.started_ms
            if run.job.timeout_ms is not None and run.job.handler.is_async:
                # A handler that blocks its loop past its timeout cannot be cancelled; it
                # keeps its run for one more lease, and then somebody else may have it.
                run.lease.renew_until_ms = run.started_ms + run.job.timeout_ms + run.lease.lease_ms
        self._core.emit(
            StartEvent(
                instance=self._instance_id,
                job=context.job,
                slot=context.slot,
                attempt=context.attempt,
                late_ms=max(0, self._clock.wall_ms() - context.slot),
            )
        )

    def _cancelled(self, run: ActiveRun, error: asyncio.CancelledError) -> Outcome:
        """
        Tell our own cancellation, and the loop's at its end, from one that the handler raised.
        """
        task = asyncio.current_task()
        assert task is not None
        if task.cancelling() == 0 and run.cause is None:
            return Outcome(error=error)
        while task.cancelling() > 0:
            task.uncancel()
        return Outcome(released=True)

    async def _in_thread(self, run: ActiveRun, call: Callable[[], Any]) -> Any:
        """
        Call a plain handler in a worker thread, and wait for its true end.

        Nothing can stop a thread, so a cancellation of this task only says that
        stop() waits no longer: then the thread itself reports how it ended.
        """
        run.in_thread = True

        def body() -> Any:
            outcome = Outcome()
            try:
                if run.cause is not None or run.context.lost.is_set() or run.doubtful():
                    # It waited for a free thread, or the process was frozen, past its lease: a body
                    # that has not begun can still be left to whoever has the run now.
                    raise HandOver  # noqa: TRY301 - it ends as a handler that raised it does
                return call()
            except HandOver:
                outcome = Outcome(released=True)
                raise
            except BaseException as error:
                outcome = Outcome(error=error)
                raise
            finally:
                with run.handoff:
                    run.thread_outcome = outcome
                    adopter = run.adopter
                if adopter is not None:
                    adopter(outcome)

        return await asyncio.get_running_loop().run_in_executor(self._pool, body)

    async def report(self, run: ActiveRun, outcome: Outcome) -> bool:
        """
        Have the outcome recorded, tell what became of it, and say whether the run is finished.
        """
        verdict = judge(run, outcome)
        context = run.context
        if verdict.status is Status.FAILED:
            logger.error(
                "job %r failed (slot %d, attempt %d): %s",
                context.job,
                context.slot,
                context.attempt,
                verdict.error_text,
                exc_info=verdict.error,
                extra=_extra(run, self._instance_id),
            )
        answer = await self._ledger.record(run, verdict)
        if not isinstance(answer, CloseAnswer) or not answer.accepted:
            if isinstance(answer, CloseAnswer):
                run.cut(Cause.TOKEN)
            return False
        where = {
            "instance": self._instance_id,
            "job": context.job,
            "slot": context.slot,
            "attempt": context.attempt,
        }
        if verdict.status is Status.INTERRUPTED:
            self._core.emit(HandoverEvent(**where))  # type: ignore[arg-type]  # the mapping mixes texts and numbers
            return False
        started_ms = self._clock.suspend_ms() if run.started_ms is None else run.started_ms
        self._core.emit(
            FinishEvent(
                status=verdict.status,
                reason=verdict.reason,
                error=verdict.error,
                duration_ms=self._clock.suspend_ms() - started_ms,
                **where,  # type: ignore[arg-type]  # the same
            )
        )
        return True


def _discard(awaitable: Awaitable[Any]) -> None:
    """
    End what nobody will await: a coroutine that was not begun warns when it is forgotten.
    """
    if inspect.iscoroutine(awaitable):
        awaitable.close()
    elif asyncio.isfuture(awaitable):
        awaitable.cancel()


async def _coroutine(awaitable: Awaitable[Any]) -> Any:
    """
    Make a coroutine of anything that can be awaited: a gate drives coroutines.
    """
    return await awaitable


def _extra(run: ActiveRun, instance_id: str) -> dict[str, Any]:
    context = run.context
    return {
        "job": context.job,
        "slot": context.slot,
        "attempt": context.attempt,
        "instance": instance_id,
    }
