"""
A run that this instance executes: what may end it early, and who decides.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from enum import Enum

from anarchon.clock import Clock
from anarchon.context import RunContext
from anarchon.job import Job
from anarchon.scheduler.gate import cut_message
from anarchon.scheduler.leases import HeldLease, LeaseStanding
from anarchon.scheduler.loop_watch import Step

__all__ = ["ActiveRun", "Board", "Cause", "Outcome", "Stage"]


class Cause(Enum):
    """
    Why a handler is ended before it ends by itself. The first cause stays.
    """

    STOP = "stop"
    FENCE = "fence"
    TOKEN = "token"  # noqa: S105 - the word of the protocol, not a password
    TIMEOUT = "timeout"


class Stage(Enum):
    """
    Where the run stands in this instance.
    """

    HANDLER = "handler"
    REPORT = "report"
    ENDED = "ended"


class Outcome:
    """
    How a handler ended: with a result, an error, or by being released.
    """

    __slots__ = ("error", "released")

    def __init__(self, *, error: BaseException | None = None, released: bool = False) -> None:
        self.error = error
        self.released = released


class Board:
    """
    Who is in a step right now: written by the handlers' loop, read by whoever watches it.
    """

    __slots__ = ("run",)

    def __init__(self) -> None:
        self.run: ActiveRun | None = None

    def step(self) -> Step | None:
        """
        Describe the step that runs now, if one does. Called from another thread.
        """
        run = self.run
        return None if run is None else run.step()


class ActiveRun:
    """
    One attempt in this instance, from the grant to the store's last answer.

    It is the gate's guard: it judges the lease before each step of the handler.

    Args:
        job: The job.

        context: What the handler is given.

        lease: The lease; None on a claim-only backend.

        clock: The instance's clocks.

        poke: Asks for a renewal right now.

        confirm_ms: How long a held handler waits for the store's word.

        lost: Told once when the run is lost.

        board: Where the run that is in a step is written down.
    """

    def __init__(
        self,
        job: Job,
        context: RunContext,
        lease: HeldLease | None,
        *,
        clock: Clock,
        poke: Callable[[], None],
        confirm_ms: int,
        lost: Callable[[ActiveRun, Cause], None],
        board: Board,
    ) -> None:
        self.job = job
        self.context = context
        self.lease = lease
        self.stage = Stage.HANDLER
        self.cause: Cause | None = None
        self.task: asyncio.Task[None] | None = None
        self.in_thread = False
        self.started_ms: int | None = None
        # Between the handler's thread and the loop: who reports how it ended.
        self.handoff = threading.Lock()
        self.thread_outcome: Outcome | None = None
        self.adopter: Callable[[Outcome], None] | None = None
        self._clock = clock
        self._poke = poke
        self._confirm_ms = confirm_ms
        self._lost = lost
        self._board = board
        self._looked_ms = 0
        self._changed: asyncio.Event | None = None
        self._confirming: asyncio.Task[bool] | None = None
        self._fence: asyncio.TimerHandle | None = None

    # What ends it early.

    def cut(self, cause: Cause) -> None:
        """
        End the handler for *cause*, unless it has ended or is being ended already.

        A thread cannot be cancelled: it goes on, and is told through ctx.lost.
        """
        if cause is Cause.FENCE and self.stage is not Stage.HANDLER:
            return  # No body runs any more; what the finish is answered decides.
        if cause in (Cause.FENCE, Cause.TOKEN) and not self.context.lost.is_set():
            self.context.lost.set()
            self._lost(self, cause)
        if self.stage is not Stage.HANDLER or self.cause is not None:
            return
        self.cause = cause
        if self.task is not None and not self.in_thread:
            self.task.cancel(cut_message)

    def abandon_thread(self) -> None:
        """
        Wait no longer for a thread whose run has no lease: it is recorded as it stands now.

        Without renewals nobody could tell later whether it still goes on.
        """
        if self.lease is None and self.in_thread and self.stage is Stage.HANDLER:
            assert self.task is not None
            self.task.cancel(cut_message)

    def arm_fence(self, loop: asyncio.AbstractEventLoop) -> None:
        """
        Look at the lease when its fence falls, again and again while it is renewed.
        """
        if self.lease is None or self.stage is Stage.ENDED:
            return
        wait_ms = max(0, self.lease.fence_ms - self._clock.suspend_ms())
        self._fence = loop.call_later(wait_ms / 1_000, self._look, loop)

    def disarm(self) -> None:
        """
        Look no more: the run has ended.
        """
        if self._fence is not None:
            self._fence.cancel()
        if self._confirming is not None:
            self._confirming.cancel()

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        assert self.lease is not None
        if self.stage is not Stage.HANDLER:
            return
        match self.lease.standing(self._clock):
            case LeaseStanding.HELD:
                self.arm_fence(loop)
            case LeaseStanding.LOST:
                self.cut(Cause.TOKEN)
            case LeaseStanding.OVER:
                self.cut(Cause.FENCE)
            case _:  # It is overslept: only the store can say.
                self._ask_store().add_done_callback(lambda _: self.arm_fence_unless_cut(loop))

    def arm_fence_unless_cut(self, loop: asyncio.AbstractEventLoop) -> None:
        """
        Go on looking after the store has said that the run is still our own.
        """
        if not self.context.lost.is_set():
            self.arm_fence(loop)

    def lease_changed(self) -> None:
        """
        A renewal that somebody waits for was answered, or the lease is lost.
        """
        if self._changed is not None:
            self._changed.set()
        if self.lease is not None and self.lease.lost:
            self.cut(Cause.TOKEN)

    # The gate's guard.

    def doubtful(self) -> bool:
        """
        Say whether the lease may be over.
        """
        lease = self.lease
        if lease is None or self.cause is not None:
            # Once the cancellation is on its way only clean-up is left, and that runs ungated.
            return False
        self._looked_ms = now_ms = self._clock.suspend_ms()
        return lease.lost or now_ms >= lease.sent_ms + lease.lease_ms - lease.margin_ms

    async def confirm(self) -> bool:
        """
        Find out whether the run is still this instance's.
        """
        return await asyncio.shield(self._ask_store())

    def enter(self) -> None:
        """
        A step of the handler begins.
        """
        self._board.run = self

    def leave(self) -> None:
        """
        A step of the handler has ended.
        """
        self._board.run = None

    def step(self) -> Step:
        """
        Describe the step that runs now. Called from another thread.
        """
        context = self.context
        return Step(context.job, context.slot, context.attempt, self._looked_ms)

    def _ask_store(self) -> asyncio.Task[bool]:
        if self._confirming is None or self._confirming.done():
            self._confirming = asyncio.get_running_loop().create_task(self._settle_doubt())
        return self._confirming

    async def _settle_doubt(self) -> bool:
        """
        Wait for a renewal that was sent after the freeze; cut the run if none comes.
        """
        lease = self.lease
        assert lease is not None
        standing = lease.standing(self._clock)
        if standing is LeaseStanding.OVERSLEPT:
            standing = await self._await_renewal(lease)
        if standing is LeaseStanding.HELD:
            return True
        self.cut(Cause.TOKEN if standing is LeaseStanding.LOST else Cause.FENCE)
        return False

    async def _await_renewal(self, lease: HeldLease) -> LeaseStanding:
        lease.awaited = True
        self._changed = changed = asyncio.Event()
        try:
            async with asyncio.timeout(self._confirm_ms / 1_000):
                while (standing := lease.standing(self._clock)) in (
                    LeaseStanding.OVER,
                    LeaseStanding.OVERSLEPT,
                ):
                    changed.clear()
                    self._poke()
                    await changed.wait()
                return standing
        except TimeoutError:
            return lease.standing(self._clock)
        finally:
            lease.awaited = False
