"""
A process of the service: a scheduler in an instance, from its start to its end.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable
from enum import Enum
from typing import Any

from anarchon.errors import BackendError, SchedulerStateError
from anarchon.events import EVENT_TYPES, Event
from anarchon.scheduler import Scheduler
from anarchon_simulation.instance import Instance

__all__ = ["Process", "State"]

_RESTART_S = 1.0
_LIMIT = 5


class State(Enum):
    """
    Where a process stands.
    """

    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"
    CRASHED = "crashed"


class Process:
    """
    Starts a scheduler on the handlers' loop of an instance, and stops it when told.

    Args:
        instance: Where it lives.

        build: Makes the scheduler.

        listen: Told of every event.

        version: Which version of the jobs it runs.
    """

    def __init__(
        self,
        instance: Instance,
        build: Callable[[], Scheduler],
        listen: Callable[[Process, Event], None],
        *,
        version: int = 0,
    ) -> None:
        self.instance = instance
        self.version = version
        self.state = State.STARTING
        self.began_us = instance.kernel.now_us
        self.stopped_after_us: int | None = None
        self.held_until_us = -1
        self.stepped = False
        self._stop: asyncio.Event | None = None
        self._stop_asked = False
        self._scheduler: Scheduler | None = None
        self._looks: set[asyncio.Task[None]] = set()
        self._build = build
        self._listen = listen

    @property
    def name(self) -> str:
        """
        The instance's name.
        """
        return self.instance.name

    def begin(self) -> None:
        """
        Start the process.
        """
        self.instance.start_loop(self._main, name="handlers")

    def stop(self) -> None:
        """
        Ask it to stop in good order, as SIGTERM does.
        """
        self._stop_asked = True
        if self._stop is not None and not self.instance.crashed:
            with contextlib.suppress(KeyError):  # It has ended by an error, which was told.
                self.instance.loop("handlers").call_soon_threadsafe(self._stop.set)

    def look(self, job: str | None, *, cancelled_ms: int | None, fired: Counter[str]) -> None:
        """
        Ask for the history on the handlers' loop.

        Args:
            job: Of which job; None: of all.

            cancelled_ms: When the task that asks is cancelled; None: never.

            fired: Counts what came of it.
        """
        scheduler = self._scheduler
        if scheduler is None or self.state is not State.RUNNING:
            return
        loop = self.instance.loop("handlers")

        def begin() -> None:
            look = loop.create_task(_look(scheduler, job, cancelled_ms, fired))
            self._looks.add(look)
            look.add_done_callback(self._looks.discard)

        loop.call_soon_threadsafe(begin)

    def crash(self) -> None:
        """
        Cut its power.
        """
        if self.state is not State.STOPPED:
            self.state = State.CRASHED
        self.instance.crash()

    @property
    def alive(self) -> bool:
        """
        Whether it will still do something by itself.
        """
        return not self.instance.crashed and self.state is not State.STOPPED

    async def _main(self) -> None:
        self._stop = stop = asyncio.Event()
        if self._stop_asked:
            stop.set()
        scheduler = await self._start(stop)
        if scheduler is not None:
            self._scheduler = scheduler
            self.state = State.RUNNING
            await stop.wait()
            self.state = State.STOPPING
            clock = self.instance.clock
            began_us = clock.monotonic_us()
            await scheduler.stop()
            self.stopped_after_us = clock.monotonic_us() - began_us
        self.state = State.STOPPED

    async def _start(self, stop: asyncio.Event) -> Scheduler | None:
        """
        Start the scheduler; one whose start fails is started again, as a supervisor does.
        """
        while not stop.is_set():
            scheduler = self._build()
            for event_type in EVENT_TYPES:
                scheduler.on(event_type, self._tell)
            starting = asyncio.ensure_future(scheduler.start())
            stopping = asyncio.ensure_future(stop.wait())
            await asyncio.wait({starting, stopping}, return_when=asyncio.FIRST_COMPLETED)
            stopping.cancel()
            if not starting.done():
                starting.cancel()
                await asyncio.wait({starting})
            try:
                await starting
            except (BackendError, asyncio.CancelledError):
                if not stop.is_set():
                    await asyncio.sleep(_RESTART_S)
            else:
                return scheduler
        return None

    def _tell(self, event: Any) -> None:
        self._listen(self, event)


async def _look(
    scheduler: Scheduler, job: str | None, cancelled_ms: int | None, fired: Counter[str]
) -> None:
    """
    Ask once, and count what came of it: that the answer is right is judged in the store.
    """
    asking = asyncio.ensure_future(scheduler.history(job, limit=_LIMIT))
    timeout_s = None if cancelled_ms is None else cancelled_ms / 1_000
    await asyncio.wait({asking}, timeout=timeout_s)
    if not asking.done():
        asking.cancel()
        await asyncio.wait({asking})
    try:
        asking.result()
    except asyncio.CancelledError:
        fired["history: cancelled"] += 1
    except (BackendError, SchedulerStateError):
        fired["history: unanswered"] += 1
    else:
        fired["history: answered"] += 1
