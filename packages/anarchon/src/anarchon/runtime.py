"""
The seam to the machine: randomness, tokens, threads and loops, each replaceable.

A simulation passes another Runtime; nothing else in the core starts a thread or
draws a random number.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import queue
import random
import secrets
import socket
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from typing import Any, ParamSpec, Protocol, TypeVar

from anarchon.clock import Clock, SystemClock

__all__ = [
    "DaemonPool",
    "LoopStarter",
    "Runtime",
    "default_instance_id",
    "on_handlers_loop",
    "on_own_thread",
    "run_program",
]

P = ParamSpec("P")
T = TypeVar("T")

_Main = Callable[[], Coroutine[Any, Any, None]]

_POOL_THREADS_MAX = 64


class LoopStarter(Protocol):
    """
    Start an event loop that runs *main* to its end, somewhere else than here.
    """

    def __call__(self, main: _Main, *, name: str) -> None:
        """
        Start it and return at once.
        """


def on_own_thread(main: _Main, *, name: str) -> None:
    """
    Run *main* on a daemon thread with an event loop of its own.

    A daemon, so that a process ends although a handler's thread, and with it the
    renewals of its lease, outlasts stop().
    """
    threading.Thread(target=lambda: asyncio.run(main()), name=name, daemon=True).start()


def run_program(main: _Main) -> None:
    """
    Run *main* on a loop of this thread: what a program of its own does.
    """
    asyncio.run(main())


# A loop keeps only weak references to its tasks.
_TASKS: set[asyncio.Task[None]] = set()


def on_handlers_loop(main: _Main, *, name: str) -> None:
    """
    Run *main* on the loop of the handlers, where one that blocks it starves it.

    For tests that show why renewals have a thread of their own.
    """
    task = asyncio.get_running_loop().create_task(main(), name=name)
    _TASKS.add(task)
    task.add_done_callback(_TASKS.discard)


class DaemonPool(Executor):
    """
    Worker threads for plain handlers, made as they are needed.

    The standard library's pool joins its threads when the interpreter exits, so a
    handler that never returns would keep the process alive for ever. These are
    daemon threads: the process ends, and the lease of such a run runs out.

    Args:
        threads_max: How many may work at a time; more calls wait their turn.
    """

    def __init__(self, threads_max: int = _POOL_THREADS_MAX) -> None:
        self._threads_max = threads_max
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._idle = 0
        self._closed = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """
        Call *fn* in a worker thread.

        Raises:
            RuntimeError: The pool was shut down.
        """
        future: Future[T] = Future()
        context = contextvars.copy_context()

        def call() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = context.run(fn, *args, **kwargs)
            except BaseException as error:  # noqa: BLE001 - it belongs to whoever waits for the future
                future.set_exception(error)
            else:
                future.set_result(result)

        with self._lock:
            if self._closed:
                msg = "the pool was shut down"
                raise RuntimeError(msg)
            self._calls.put(call)
            if self._idle > 0:
                self._idle -= 1
            elif self._threads < self._threads_max:
                self._threads += 1
                name = f"anarchon-handler-{self._threads}"
                threading.Thread(target=self._work, name=name, daemon=True).start()
        return future

    def shutdown(
        self,
        wait: bool = True,  # noqa: FBT001, FBT002, ARG002 - the signature of Executor
        *,
        cancel_futures: bool = False,  # noqa: ARG002 - the same
    ) -> None:
        """
        Take no more calls. Threads that work end when their calls have; nobody waits for them.
        """
        with self._lock:
            self._closed = True
            for _ in range(self._threads):
                self._calls.put(None)

    def _work(self) -> None:
        while True:
            call = self._calls.get()
            if call is None:
                return
            call()
            del (
                call
            )  # The last call's frame must not keep its arguments alive while this thread is idle.
            with self._lock:
                self._idle += 1


def default_instance_id() -> str:
    """
    Return ``hostname:pid``, a label for people. It decides nothing: in containers it collides.
    """
    return f"{socket.gethostname()}:{os.getpid()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """
    All that a scheduler takes from the machine.

    Args:
        clock: Wall clock and suspend-counting clock.

        token: Makes the random value of an attempt.

        make_random: Makes the generator of jitter and backoff, in start(), so that
            processes forked after import do not share one.

        start_loop: Starts the loop of the renewals.

        make_pool: Makes the executor of plain handlers.

        instance_id: Makes the default label of an instance.

        early_ms: How long before a slot a timer wakes the loop, which is then turned until
            the slot begins: timers round up. 0 where no time passes while a loop turns.
    """

    clock: Clock = field(default_factory=SystemClock)
    token: Callable[[], str] = secrets.token_urlsafe
    make_random: Callable[[], random.Random] = random.SystemRandom
    start_loop: LoopStarter = on_own_thread
    make_pool: Callable[[], Executor] = DaemonPool
    instance_id: Callable[[], str] = default_instance_id
    early_ms: int = 1
