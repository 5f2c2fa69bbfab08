"""
The seam to the machine: threads, tokens, labels and clocks.
"""

from __future__ import annotations

import asyncio
import contextvars
import gc
import os
import socket
import threading
import time
import weakref

import pytest

from anarchon import Runtime, SystemClock, clock
from anarchon.runtime import DaemonPool, default_instance_id, on_handlers_loop, on_own_thread
from anarchon.testing import ManualClock

PATIENCE_S = 60


def test_pool_calls_in_daemon_threads_with_the_callers_context() -> None:
    """
    The result and the context variables come through; the thread never keeps a process alive.
    """
    pool, variable = DaemonPool(), contextvars.ContextVar("variable", default=0)
    variable.set(7)

    def call(a: int, *, b: int) -> tuple[threading.Thread, int, int]:
        return threading.current_thread(), variable.get(), a + b

    thread, value, total = pool.submit(call, 1, b=2).result(PATIENCE_S)

    assert thread.daemon
    assert thread.name.startswith("anarchon-handler-")
    assert (7, 3) == (value, total)
    pool.shutdown()


def test_pool_hands_errors_on() -> None:
    """
    SystemExit too: it belongs to whoever waits.
    """
    pool = DaemonPool()

    def leave() -> None:
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        pool.submit(leave).result(PATIENCE_S)

    assert 5 == pool.submit(lambda: 5).result(PATIENCE_S)
    pool.shutdown()


def test_pool_bounds_its_threads_and_reuses_idle_ones() -> None:
    """
    More calls wait their turn, in order.
    """
    pool, release, begun = DaemonPool(threads_max=2), threading.Event(), threading.Semaphore(0)
    order: list[int] = []

    def work(number: int) -> int:
        begun.release()
        release.wait(PATIENCE_S)
        order.append(number)
        return number

    futures = [pool.submit(work, number) for number in range(6)]
    for _ in range(2):
        assert begun.acquire(timeout=PATIENCE_S)

    assert not begun.acquire(blocking=False)
    release.set()

    assert list(range(6)) == [future.result(PATIENCE_S) for future in futures]
    assert {"anarchon-handler-1", "anarchon-handler-2"} >= {
        pool.submit(lambda: threading.current_thread().name).result(PATIENCE_S) for _ in range(4)
    }
    assert 2 == pool._threads
    pool.shutdown()


def test_call_that_is_cancelled_before_its_turn_never_runs() -> None:
    """
    Nobody waits for it any more.
    """
    pool, release = DaemonPool(threads_max=1), threading.Event()
    ran: list[int] = []
    first = pool.submit(release.wait, PATIENCE_S)
    second = pool.submit(ran.append, 1)

    assert second.cancel()
    release.set()
    first.result(PATIENCE_S)
    pool.submit(lambda: None).result(PATIENCE_S)

    assert [] == ran
    pool.shutdown()


def test_pool_takes_no_calls_after_its_shutdown_and_its_threads_end() -> None:
    """
    Calls that were taken are finished first.
    """
    pool = DaemonPool()
    thread = pool.submit(threading.current_thread).result(PATIENCE_S)
    last = pool.submit(lambda: 5)
    pool.shutdown(wait=False)
    thread.join(PATIENCE_S)

    assert not thread.is_alive()
    assert 5 == last.result(PATIENCE_S)
    with pytest.raises(RuntimeError, match="the pool was shut down"):
        pool.submit(lambda: None)


def test_idle_thread_keeps_nothing_of_its_last_call_alive() -> None:
    """
    A handler's arguments may be large.
    """

    class Large:
        """
        Something that can be watched.
        """

    pool, large = DaemonPool(), Large()
    watched = weakref.ref(large)
    pool.submit(lambda thing: None, large).result(PATIENCE_S)
    del large
    pool.submit(lambda: None).result(PATIENCE_S)
    gc.collect()

    assert None is watched()
    pool.shutdown()


def test_tokens_and_random_numbers_differ() -> None:
    """
    Tokens come from the system's source of secrets, at each claim.
    """
    runtime = Runtime()

    assert 1_000 == len({runtime.token() for _ in range(1_000)})
    assert len(runtime.token()) >= 32
    assert runtime.make_random().random() != runtime.make_random().random()


def test_label_names_host_and_process() -> None:
    """
    It is shown to people.
    """
    assert f"{socket.gethostname()}:{os.getpid()}" == default_instance_id()


def test_loop_on_its_own_thread_is_a_daemon() -> None:
    """
    It returns at once, and never keeps a process alive.
    """
    ran: list[threading.Thread] = []
    done = threading.Event()

    async def main() -> None:
        ran.append(threading.current_thread())
        done.set()

    on_own_thread(main, name="a-name")

    assert done.wait(PATIENCE_S)
    assert ("a-name", True) == (ran[0].name, ran[0].daemon)


async def test_loop_of_the_handlers_can_be_shared() -> None:
    """
    For tests: the same loop, as a task that is not lost.
    """
    done = asyncio.Event()

    async def main() -> None:
        await asyncio.sleep(0)
        done.set()

    on_handlers_loop(main, name="a-name")
    gc.collect()
    async with asyncio.timeout(PATIENCE_S):
        await done.wait()


def test_system_clock_reads_the_wall_and_a_clock_that_counts_suspends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """
    Whole milliseconds; where no such clock exists, the monotonic one is the best there is.
    """
    system = SystemClock()
    before_ms = time.time_ns() // 1_000_000

    assert before_ms <= system.wall_ms() <= time.time_ns() // 1_000_000
    suspend_ms = system.suspend_ms()

    assert suspend_ms <= time.clock_gettime_ns(clock._SUSPEND_CLOCK) // 1_000_000
    monkeypatch.setattr(clock, "_SUSPEND_CLOCK", -1)
    before_ms = time.monotonic_ns() // 1_000_000

    assert before_ms <= system.suspend_ms() <= time.monotonic_ns() // 1_000_000


def test_manual_clock_moves_by_hand() -> None:
    """
    Time passes on both clocks; a step moves the wall clock alone.
    """
    manual = ManualClock(5_000)
    manual.advance(100)
    manual.step(-1_000)

    assert (4_100, 100) == (manual.wall_ms(), manual.suspend_ms())
