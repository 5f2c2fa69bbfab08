"""
The end of a scheduler's life: drain, hand over, close, each within its bound.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from concurrent.futures import Executor as Pool
from typing import Any

from anarchon.backend import Backend
from anarchon.scheduler.executor import Executor, judge
from anarchon.scheduler.ledger import ClaimOnlyLedger, LeaseLedger
from anarchon.scheduler.renewals import Renewals
from anarchon.scheduler.runs import ActiveRun, Cause
from anarchon.scheduler.supervisor import Supervisor

__all__ = ["Ending"]

logger = logging.getLogger("anarchon")

# Together they stay under the second that stop() may take beyond its timeout.
_GRACE_S = 0.5
_CLOSE_S = 0.3


class Ending:
    """
    Ends what an engine has built, in the order that lets runs go on elsewhere at once.

    Args:
        backend: The store; closed last.

        tasks: The tasks of this life.

        executor: Runs handlers.

        ledger: Has outcomes recorded.

        renewals: Renews leases; None on a claim-only backend.

        pool: The worker threads of plain handlers.
    """

    def __init__(
        self,
        backend: Backend,
        tasks: Supervisor,
        executor: Executor,
        ledger: LeaseLedger | ClaimOnlyLedger,
        *,
        renewals: Renewals | None,
        pool: Pool,
    ) -> None:
        self._backend = backend
        self._tasks = tasks
        self._executor = executor
        self._ledger = ledger
        self._renewals = renewals
        self._pool = pool

    async def drain(self, claims: asyncio.Task[None], deadline_s: float) -> None:
        """
        Wait for handlers, and for claims in flight: one that is won now is released at once.
        """
        while True:
            waiting = set(self._tasks.works)
            if not claims.done():
                waiting.add(claims)
            left_s = deadline_s - asyncio.get_running_loop().time()
            if not waiting or left_s <= 0:
                break
            await asyncio.wait(waiting, timeout=left_s, return_when=asyncio.FIRST_COMPLETED)
        claims.cancel()

    async def hand_over(self) -> int:
        """
        Cancel the async handlers that outlasted the stop timeout, and see their runs released.

        What cannot be ended, a thread or a clean-up that goes on, keeps its run: its
        renewals go on after stop(), on their own connection. Returns how many those are.
        """
        for run in tuple(self._executor.runs):
            run.cut(Cause.STOP)
            run.abandon_thread()
        waiting = {
            run.task
            for run in self._executor.runs
            if run.task is not None and not (run.in_thread and run.lease)
        }
        if waiting:
            await asyncio.wait(waiting, timeout=_GRACE_S)
        for run in tuple(self._executor.runs):
            if run.in_thread and isinstance(self._ledger, LeaseLedger):
                self._adopt(run, self._ledger)
        if isinstance(self._ledger, LeaseLedger):
            self._ledger.detach()
        self._ledger.give_up()
        await asyncio.sleep(0)  # Those who waited for an answer hear that there is none.
        return len(self._executor.runs)

    async def close(self, *, owned: bool = True) -> None:
        """
        End the internal tasks and the connections; a backend that is not owned is left alone.
        """
        closing = [self._quietly(self._tasks.stop())]
        if owned:
            closing.append(self._quietly(self._backend.close()))
        if self._renewals is not None:
            closing.append(self._quietly(self._renewals.stop()))
        await asyncio.gather(*closing)
        self._pool.shutdown(wait=False)

    @staticmethod
    def _adopt(run: ActiveRun, ledger: LeaseLedger) -> None:
        """
        Let a handler's thread report by itself how it ends: nobody waits for it here any more.
        """
        with run.handoff:
            if run.thread_outcome is None:
                run.adopter = lambda outcome: ledger.adopt(run, judge(run, outcome))

    @staticmethod
    async def _quietly(ending: Coroutine[Any, Any, object]) -> None:
        """
        End something that may well be broken, within a bound.
        """
        try:
            async with asyncio.timeout(_CLOSE_S):
                await ending
        except Exception as error:  # noqa: BLE001 - whatever it is, stop() goes on
            logger.debug("while closing: %s", error)
