"""
The world of a test: a store, a time, and instances that can die.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import itertools
import random
import weakref
from collections.abc import Callable, Coroutine, Generator, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from anarchon import (
    Backend,
    MemoryBackend,
    MemoryClaimBackend,
    MemoryStore,
    RunContext,
    RunRecord,
    Runtime,
    Scheduler,
)
from anarchon.events import EVENT_TYPES, Event
from anarchon.runtime import DaemonPool, LoopStarter, on_handlers_loop
from virtual.clock import START_MS, VirtualClock
from virtual.faults import Faults, FaultyBackend
from virtual.loop import Latch, VirtualLoop

__all__ = ["Node", "World"]

T = TypeVar("T")

_NODE: contextvars.ContextVar[Node | None] = contextvars.ContextVar("_NODE", default=None)


class _SmallPool(DaemonPool):
    """
    A pool in which calls may have to wait for a thread.
    """

    may_be_full = True


class Node:
    """
    One instance, with what it told and the line to its store.
    """

    def __init__(
        self, world: World, name: str, scheduler: Scheduler, clock: VirtualClock, faults: Faults
    ) -> None:
        self.world = world
        self.name = name
        self.scheduler = scheduler
        self.clock = clock
        self.faults = faults
        self.events: list[tuple[int, Event]] = []
        self.tasks: weakref.WeakSet[asyncio.Task[Any]] = weakref.WeakSet()
        self.started = False
        self.dead = False
        for event_type in EVENT_TYPES:
            scheduler.on(event_type, self._record)

    async def start(self) -> None:
        """
        Start the scheduler, and know its tasks from those of others.
        """
        context = contextvars.copy_context()
        context.run(_NODE.set, self)
        loop = asyncio.get_running_loop()
        await loop.create_task(self.scheduler.start(), context=context)
        self.started = True

    async def stop(self) -> None:
        """
        Stop the scheduler.
        """
        self.started = False
        await self.scheduler.stop()

    async def crash(self) -> None:
        """
        Die as a process dies: no call of it reaches the store any more, and nothing of it goes on.
        """
        self.dead = True
        self.started = False
        self.faults.dead = True
        for _ in range(8):
            for task in tuple(self.tasks):
                task.cancel()
            await asyncio.sleep(0)

    def told(self, event_type: str) -> list[Any]:
        """
        Return the events of one type, in order.
        """
        return [event for _, event in self.events if event.type == event_type]

    def when(self, event_type: str) -> list[int]:
        """
        Return the instants of the events of one type, in ms of the world's time.
        """
        return [at_ms for at_ms, event in self.events if event.type == event_type]

    async def hears(self, event_type: str, *, count: int = 1, within_ms: int = 60_000) -> list[Any]:
        """
        Wait until *count* events of one type were told, and return all of that type.
        """
        await self.world.until(lambda: len(self.told(event_type)) >= count, within_ms=within_ms)
        return self.told(event_type)

    def _record(self, event: Event) -> None:
        if not self.dead:
            self.events.append((self.world.now_ms, event))
            self.world.stir()


@dataclass(frozen=True, slots=True)
class Note:
    """
    What a handler wrote down, and when in ms of the world's time.
    """

    at_ms: int
    node: str
    what: str
    slot: int
    attempt: int


class World:
    """
    A store, a time, and instances. `run` runs a story in it and cleans up.
    """

    def __init__(self, seed: int = 0) -> None:
        self.loop = VirtualLoop()
        self.seed = seed
        self.store_clock = VirtualClock(self.loop)
        self.store = MemoryStore(clock=self.store_clock)
        self.nodes: list[Node] = []
        self.notes: list[Note] = []
        self.bodies: dict[str, int] = {}
        self.bodies_max: dict[str, int] = {}
        self.problems: list[dict[str, Any]] = []
        self._latches: list[Latch] = []
        self._stirred = asyncio.Event()
        self._numbers = itertools.count(1)
        self.loop.set_exception_handler(lambda _, context: self.problems.append(context))
        self.loop.set_task_factory(_tracked)

    @property
    def now_ms(self) -> int:
        """
        The true time since the world began.
        """
        return self.store_clock.suspend_ms() - self.store_clock._overslept_ms

    @property
    def wall_ms(self) -> int:
        """
        The true time in milliseconds since 1970.
        """
        return START_MS + self.now_ms

    def latch(self) -> Latch:
        """
        Make a latch that is opened at the end at the latest.
        """
        latch = Latch()
        self._latches.append(latch)
        return latch

    def node(
        self,
        name: str = "",
        *,
        offset_ms: int = 0,
        claim_only: bool = False,
        backend: Backend | None = None,
        start_loop: LoopStarter = on_handlers_loop,
        threads_max: int | None = None,
        **options: Any,
    ) -> Node:
        """
        Make an instance: heartbeat 1 s, lease 3 s, no jitter, 5 s to stop.
        """
        name = name or f"node-{next(self._numbers)}"
        clock = VirtualClock(self.loop, offset_ms=offset_ms)
        faults = Faults()
        if backend is None:
            backend = MemoryClaimBackend(self.store) if claim_only else MemoryBackend(self.store)
        tokens = itertools.count(1)
        seed = f"{self.seed}:{name}:{len(self.nodes)}"
        runtime = Runtime(
            clock=clock,
            token=lambda: f"{seed}:{next(tokens)}",
            make_random=lambda: random.Random(seed),
            start_loop=start_loop,
            make_pool=DaemonPool if threads_max is None else lambda: _SmallPool(threads_max),
            early_ms=0,
        )
        options = {"heartbeat": "1s", "jitter": 0, "stop_timeout": 5, **options}
        scheduler = Scheduler(
            FaultyBackend(backend, faults), instance_id=name, runtime=runtime, **options
        )
        node = Node(self, name, scheduler, clock, faults)
        self.nodes.append(node)
        return node

    def note(self, ctx: RunContext, what: str = "ran") -> None:
        """
        Write down that a handler has got here.
        """
        self.notes.append(Note(self.now_ms, ctx.instance_id, what, ctx.slot, ctx.attempt))
        self.stir()

    def slots(self, what: str = "ran") -> list[int]:
        """
        Return the slots that were noted, in seconds since the world began.
        """
        return [(note.slot - START_MS) // 1_000 for note in self.notes if note.what == what]

    @contextlib.contextmanager
    def body(self, ctx: RunContext) -> Iterator[None]:
        """
        Count the handlers of a job that are in their bodies at the same time.
        """
        self.bodies[ctx.job] = now = self.bodies.get(ctx.job, 0) + 1
        self.bodies_max[ctx.job] = max(now, self.bodies_max.get(ctx.job, 0))
        try:
            yield
        finally:
            self.bodies[ctx.job] -= 1

    async def history(self, job: str | None = None) -> list[RunRecord]:
        """
        Read the store's records, oldest first.
        """
        backend = MemoryBackend(self.store)
        await backend.open(timeout_ms=1_000)
        records = await backend.history(job, limit=10_000, timeout_ms=1_000)
        await backend.close()
        return sorted(records, key=lambda record: (record.slot, record.attempt))

    def stir(self) -> None:
        """
        Let whoever waits for a condition look again.
        """
        self._stirred.set()

    async def pass_ms(self, duration_ms: int) -> None:
        """
        Let time pass.
        """
        await asyncio.sleep(duration_ms / 1_000)

    async def until(self, condition: Callable[[], object], *, within_ms: int = 60_000) -> None:
        """
        Wait for a condition; it is looked at whenever something is told or noted, and ten times a second.
        """
        async with asyncio.timeout(within_ms / 1_000):
            while not condition():
                self._stirred.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(0.1):
                        await self._stirred.wait()

    def run(self, story: Coroutine[Any, Any, T]) -> T:
        """
        Run a story to its end, stop what it left running, and fail on whatever nobody caught.
        """
        try:
            result = self.loop.run_until_complete(self._live(story))
        finally:
            self.loop.run_until_complete(self._bury())
            self.loop.close()
        assert [] == self.problems, self.problems
        return result

    async def _live(self, story: Coroutine[Any, Any, T]) -> T:
        try:
            return await story
        finally:
            for latch in self._latches:
                latch.open()
            for node in self.nodes:
                if node.started:
                    await node.stop()

    async def _bury(self) -> None:
        me = asyncio.current_task()
        for _ in range(20):
            left = [task for task in asyncio.all_tasks() if task is not me]
            if not left:
                break
            for task in left:
                task.cancel()
            await asyncio.wait(left, timeout=1)
        await self.loop.shutdown_asyncgens()


def _tracked(
    loop: asyncio.AbstractEventLoop,
    coroutine: Coroutine[Any, Any, Any] | Generator[Any, None, Any],
    /,
    **options: Any,
) -> asyncio.Task[Any]:
    """
    Make a task, and write down whose it is.
    """
    task: asyncio.Task[Any] = asyncio.Task(coroutine, loop=loop, **options)
    context = options.get("context")
    node = _NODE.get() if context is None else context.get(_NODE)
    if node is not None:
        node.tasks.add(task)
    return task
