"""
The public API: define jobs, start, stop, read the history.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import Callable, Sequence
from enum import Enum
from types import TracebackType
from typing import Any, Self, TypeVar, overload

from anarchon.backend import Backend
from anarchon.clock import Clock
from anarchon.durations import Duration
from anarchon.errors import InvalidOptionError, SchedulerStateError
from anarchon.events import Event
from anarchon.job import Job, JobSpec, build_job
from anarchon.jobs import JobDefinitions, Jobs, duplicate
from anarchon.records import RunRecord
from anarchon.runtime import Runtime, run_program
from anarchon.scheduler.engine import Engine
from anarchon.scheduler.settings import backend_of, settings_of
from anarchon.scheduler.signals import Signals
from anarchon.scheduler.store_line import call_store
from anarchon.scheduler.telling import Listeners

__all__ = ["Scheduler"]

CallbackT = TypeVar("CallbackT", bound=Callable[..., object])

_HISTORY_MAX = 10_000


class _State(Enum):
    STOPPED = "stopped"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"


class Scheduler(JobDefinitions):
    """
    Run jobs on every instance of a service, each slot on one of them.

    Args:
        backend_or_url: The store that the instances share: a backend, or its URL.

        instance_id: A label for people, ``hostname:pid`` by default. It decides
            nothing: only the random token of an attempt does.

        heartbeat: How often a runner renews its leases; 10 s.

        lease: How long a lease lasts; three heartbeats, which is also the least.

        jitter: The longest random delay before a claim; by default 2 s or a fifth
            of the shortest gap between slots, whichever is less.

        timezone: The zone of cron jobs that name none; an IANA key.

        state: Handed to every handler as ``ctx.state``.

        start_timeout: How long start() waits for the store; None waits for ever.

        stop_timeout: How long stop() lets handlers drain before it hands over; 25 s.

        clock: The instance's clocks; for tests.

        runtime: All that is taken from the machine; for simulations.

    Raises:
        DefinitionError: An option is wrong; the message says what is allowed.

        ProtocolVersionError: The backend speaks another version of the protocol.
    """

    def __init__(
        self,
        backend_or_url: Backend | str,
        *,
        instance_id: str | None = None,
        heartbeat: Duration = "10s",
        lease: Duration | None = None,
        jitter: Duration | None = None,
        timezone: str = "UTC",
        state: Any = None,
        start_timeout: Duration | None = 30,
        stop_timeout: Duration = 25,
        clock: Clock | None = None,
        runtime: Runtime | None = None,
    ) -> None:
        self._settings = settings_of(
            instance_id=instance_id,
            heartbeat=heartbeat,
            lease=lease,
            jitter=jitter,
            timezone=timezone,
            state=state,
            start_timeout=start_timeout,
            stop_timeout=stop_timeout,
        )
        runtime = Runtime() if runtime is None else runtime
        self._runtime = runtime if clock is None else dataclasses.replace(runtime, clock=clock)
        self._backend = backend_of(backend_or_url, self._settings)
        self._used = False
        self._specs: dict[str, JobSpec] = {}
        self._jobs: dict[str, Job] = {}
        self._listeners = Listeners()
        self._state = _State.STOPPED
        self._engine: Engine | None = None
        self._starting: asyncio.Task[None] | None = None
        self._ended: asyncio.Event | None = None
        self._stopping: asyncio.Task[None] | None = None

    @property
    def instance_id(self) -> str:
        """
        The label of this instance, as the history shows it.
        """
        if self._engine is not None:
            return self._engine.instance_id
        return self._settings.instance_id or self._runtime.instance_id()

    @property
    def backend(self) -> Backend:
        """
        The store that was given. The scheduler owns it: ask it something else through its clone().
        """
        return self._backend

    @property
    def jobs(self) -> tuple[Job, ...]:
        """
        The jobs, in the order in which they were defined.
        """
        return tuple(self._jobs.values())

    def include(self, jobs: Jobs) -> None:
        """
        Take the jobs of a collection in: all of them, or none if one cannot be.

        Raises:
            DefinitionError: A job cannot be, on this backend or beside these jobs.
        """
        given: object = jobs  # callers without a type checker hand in anything
        if not isinstance(given, Jobs):
            msg = f"include() takes a Jobs() collection; got {jobs!r}"
            raise InvalidOptionError(msg)
        self._check_definable()
        built = {}
        for spec in jobs.specs:
            if spec.name in self._specs:
                raise duplicate(spec.name)
            built[spec.name] = self._build(spec, self._backend)
        self._specs.update({spec.name: spec for spec in jobs.specs})
        self._jobs.update(built)

    def use(self, backend_or_url: Backend | str) -> None:
        """
        Use another store. Only while stopped.

        Raises:
            SchedulerStateError: The scheduler is not stopped.

            DefinitionError: A job needs what the backend does not offer.
        """
        if self._state is not _State.STOPPED:
            msg = f"use() changes the store of a scheduler that is stopped; this one is {self._state.value}"
            raise SchedulerStateError(msg)
        backend = backend_of(backend_or_url, self._settings)
        self._jobs = {name: self._build(spec, backend) for name, spec in self._specs.items()}
        self._backend = backend
        self._used = False

    @overload
    def on(self, event_type: str) -> Callable[[CallbackT], CallbackT]: ...

    @overload
    def on(self, event_type: str, callback: CallbackT) -> CallbackT: ...

    def on(self, event_type: str, callback: Any = None) -> Any:
        """
        Call a plain function with each event of that type, on the scheduler's loop.

        What it raises is logged, not passed on. Without *callback* a decorator is
        returned.

        Raises:
            InvalidOptionError: There is no such type, or the callback is async.
        """
        if callback is not None:
            self._listeners.add(event_type, callback)
            return callback
        Listeners().add(
            event_type, print
        )  # A wrong type is an error here, not where the decorator is applied.

        def decorate(function: CallbackT) -> CallbackT:
            self._listeners.add(event_type, function)
            return function

        return decorate

    async def start(self) -> None:
        """
        Connect, register the jobs and begin to claim; returns when the store has answered once.

        Raises:
            SchedulerStateError: It was started before and not stopped, or stop() was
                called before it had started.

            StoreUnavailableError: The store has not answered within the start timeout.

            BackendError: A refused login, a server that is too old, another version.
        """
        if self._state is not _State.STOPPED:
            msg = f"start() begins the life of a scheduler that is stopped; this one is {self._state.value}"
            raise SchedulerStateError(msg)
        self._state = _State.STARTING
        # A backend lives once, on one loop; a second life takes a fresh one to the same store.
        backend = self._backend.clone() if self._used else self._backend
        self._used = True
        self._ended = asyncio.Event()
        try:
            engine = Engine(self.jobs, backend, self._settings, self._runtime, self._tell)
            self._engine = engine
            self._starting = asyncio.ensure_future(engine.start())
            await self._starting
        except BaseException as error:
            self._engine = None
            self._state = _State.STOPPED
            self._ended.set()
            if isinstance(error, asyncio.CancelledError) and not _being_cancelled():
                msg = "stop() was called before start() had ended"
                raise SchedulerStateError(msg) from None
            raise
        finally:
            self._starting = None
        self._state = _State.RUNNING

    async def stop(self) -> None:
        """
        Hand over and stop; returns within the stop timeout and one second more.

        Nothing new is claimed, ``ctx.stopping`` is raised, and leases are renewed
        while handlers drain. Async handlers that outlast the stop timeout are
        cancelled, and their runs released for another instance. Stopping what is
        not running does nothing; a second caller waits with the first. A start()
        that still waits for its store is ended. A caller that is cancelled only
        stops waiting: the hand-over goes on.
        """
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.wait({self._starting})
        engine = self._engine
        if self._state is _State.STOPPING and self._ended is not None:
            await self._ended.wait()
            return
        if engine is None or self._state is not _State.RUNNING:
            return
        self._state = _State.STOPPING
        self._stopping = asyncio.ensure_future(self._stop(engine))
        await asyncio.shield(self._stopping)

    async def _stop(self, engine: Engine) -> None:
        """
        Stop the engine in a task of its own, which no caller's cancellation can leave half done.
        """
        ended = self._ended
        assert ended is not None
        try:
            await engine.stop()
        finally:
            self._engine = None
            self._state = _State.STOPPED
            ended.set()

    async def wait(self, *, signals: bool = False) -> None:
        """
        Return when stop() has ended.

        Args:
            signals: Stop on SIGTERM and SIGINT. In the main thread only; the
                handlers that stood there before are put back. A second signal
                ends the process at once.
        """
        ended = self._ended
        if ended is None or (self._engine is None and self._state is _State.STOPPED):
            return
        if not signals:
            await ended.wait()
            return
        with Signals() as caught:
            waiting = asyncio.ensure_future(ended.wait())
            signalled = asyncio.ensure_future(caught.wait())
            try:
                await asyncio.wait({waiting, signalled}, return_when=asyncio.FIRST_COMPLETED)
                if not waiting.done():
                    await self.stop()
            finally:
                signalled.cancel()
                waiting.cancel()

    def run(self) -> None:
        """
        Start, and return after the hand-over that SIGTERM or SIGINT asks for.

        For a program of its own; a web service uses ``async with`` in its lifespan.
        """
        run_program(self._run)

    async def _run(self) -> None:
        with Signals() as caught:
            starting = asyncio.ensure_future(self.start())
            signalled = asyncio.ensure_future(caught.wait())
            try:
                await asyncio.wait({starting, signalled}, return_when=asyncio.FIRST_COMPLETED)
                if not starting.done():
                    starting.cancel()
                    with contextlib.suppress(asyncio.CancelledError):
                        await starting
                    return
                await starting
                assert self._ended is not None
                ended = asyncio.ensure_future(self._ended.wait())
                await asyncio.wait({ended, signalled}, return_when=asyncio.FIRST_COMPLETED)
                ended.cancel()
                await self.stop()
            finally:
                signalled.cancel()

    async def history(self, job: str | None = None, *, limit: int = 20) -> Sequence[RunRecord]:
        """
        Return the newest records, newest first: of one job, or of all.

        Works from start() to stop(). *limit* is 1 to 10,000.

        Raises:
            SchedulerStateError: The scheduler is not running.

            StoreUnavailableError: The store does not answer.
        """
        given: object = limit  # callers without a type checker hand in anything
        if isinstance(given, bool) or not isinstance(given, int) or not 1 <= given <= _HISTORY_MAX:
            msg = f"limit is a whole number from 1 to {_HISTORY_MAX}; got {limit!r}"
            raise InvalidOptionError(msg)
        engine = self._engine
        if engine is None or self._state is _State.STARTING:
            msg = "history() works from start() to stop(); without a scheduler, backend_from_url(url) reads it"
            raise SchedulerStateError(msg)
        timeout_ms = self._settings.call_timeout_ms
        return await call_store(
            engine.backend.history(job, limit=limit, timeout_ms=timeout_ms), timeout_ms=timeout_ms
        )

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()

    def _add(self, spec: JobSpec) -> None:
        self._check_definable()
        if spec.name in self._specs:
            raise duplicate(spec.name)
        self._jobs[spec.name] = self._build(spec, self._backend)
        self._specs[spec.name] = spec

    def _build(self, spec: JobSpec, backend: Backend) -> Job:
        return build_job(
            spec,
            backend.capabilities,
            backend=type(backend).__name__,
            timezone=self._settings.timezone,
            jitter=self._settings.jitter,
            now_ms=self._runtime.clock.wall_ms(),
        )

    def _check_definable(self) -> None:
        if self._state is not _State.STOPPED:
            msg = (
                f"jobs are defined before start(); this scheduler is {self._state.value}. Code is the single source"
                " of jobs: every instance must have the same"
            )
            raise SchedulerStateError(msg)

    def _tell(self, event: Event) -> None:
        self._listeners.tell(event)


def _being_cancelled() -> bool:
    """
    Tell a cancellation of the task that runs now from one of what it waits for.
    """
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
