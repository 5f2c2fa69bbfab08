"""
Instances: their clocks, their threads, and what can happen to them.
"""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from anarchon_simulation.clocks import START_MS


def ticking(world: Any, ticks: list[float]) -> Any:
    """
    Make a program that ticks once a second.
    """

    async def main() -> None:
        try:
            while True:
                await asyncio.sleep(1)  # On virtual time: nothing waits.
                ticks.append(round(world.now_s, 3))
        finally:
            ticks.append(-1.0)

    return main


def test_frozen_instance_does_nothing_and_its_clocks_go_on(world: Any) -> None:
    """
    After SIGCONT what came due meanwhile comes at once, and late.
    """
    ticks: list[float] = []
    instance = world.instance()
    world.begin(instance, ticking(world, ticks))
    world.pass_s(2.5)

    instance.freeze()
    world.pass_s(3)
    frozen = list(ticks)
    instance.thaw()
    world.pass_s(1)

    assert [1.0, 2.0] == frozen
    assert [1.0, 2.0, 5.5, 6.5] == ticks


def test_suspended_machine_does_not_count_the_time(world: Any) -> None:
    """
    After a suspend the monotonic clock goes on from where it stood; the other one has counted.
    """
    ticks: list[float] = []
    instance = world.instance()
    world.begin(instance, ticking(world, ticks))
    world.pass_s(2.5)

    instance.suspend()
    world.pass_s(3)
    instance.resume()
    world.pass_s(1)

    assert [1.0, 2.0, 6.0] == ticks
    assert 6_500 == instance.clock.suspend_ms()
    assert 3_500_000 == instance.clock.monotonic_us()


def test_crash_is_a_power_cut(world: Any) -> None:
    """
    Nothing runs after a crash, not even a `finally`, as long as the world lasts.
    """
    ticks: list[float] = []
    instance = world.instance()
    world.begin(instance, ticking(world, ticks))
    world.pass_s(2.5)

    instance.crash()
    world.pass_s(60)

    assert [1.0, 2.0] == ticks


def test_clock_that_drifts_fires_its_timers_by_its_own_time(world: Any) -> None:
    """
    A clock that is one percent fast reaches its hundredth second early.
    """
    ticks: list[float] = []

    async def main() -> None:
        await asyncio.sleep(101)  # On virtual time: nothing waits.
        ticks.append(world.now_s)

    world.begin(world.instance(drift_ppm=10_000), main)
    world.pass_s(200)

    assert [pytest.approx(100, abs=1e-3)] == ticks


def test_wall_clock_is_wrong_and_steps(world: Any) -> None:
    """
    The wall clock has an offset and can be stepped; the others do not notice.
    """
    instance = world.instance(offset_ms=-5_000)
    world.pass_s(10)

    instance.clock.step(60_000)

    assert START_MS + 10_000 - 5_000 + 60_000 == instance.clock.wall_ms()
    assert 10_000 == instance.clock.suspend_ms()


def test_blocking_callback_holds_its_own_loop_alone(world: Any) -> None:
    """
    time.sleep in an async function blocks its loop; the other loop of the instance goes on.
    """
    seen: list[tuple[str, float]] = []
    instance = world.instance()

    async def blocks() -> None:
        time.sleep(5)  # noqa: ASYNC251 - on virtual time, to block the loop is what is tested
        await asyncio.sleep(0)
        seen.append(("blocked", world.now_s))

    async def goes_on() -> None:
        for _ in range(3):
            await asyncio.sleep(1)  # On virtual time: nothing waits.
            seen.append(("other", round(world.now_s, 3)))

    world.begin(instance, blocks, "first")
    world.begin(instance, goes_on, "second")
    world.pass_s(10)

    assert [("other", 1.0), ("other", 2.0), ("other", 3.0), ("blocked", 5.0)] == seen


def test_threads_take_virtual_time(world: Any) -> None:
    """
    A call in a thread sleeps virtually, and its result comes back to the loop.
    """
    seen: list[tuple[str, float]] = []

    def works() -> str:
        time.sleep(3)  # On virtual time: nothing waits.
        return threading.current_thread().name

    async def main() -> None:
        name = await asyncio.to_thread(works)
        seen.append((name, world.now_s))

    world.begin(world.instance(), main)
    world.pass_s(5)

    assert [("anarchon-simulated-thread", 3.0)] == seen


def test_threads_wait_for_events(world: Any) -> None:
    """
    threading.Event.wait ends when the event is set, or when its virtual time is over.
    """
    heard: list[tuple[bool, float]] = []

    async def main() -> None:
        event = threading.Event()
        asyncio.get_running_loop().call_later(2, event.set)

        def waits() -> None:
            heard.append((event.wait(1), world.now_s))
            heard.append((event.wait(5), world.now_s))

        await asyncio.to_thread(waits)

    world.begin(world.instance(), main)
    world.pass_s(10)

    assert [(False, 1.0), (True, 2.0)] == heard


def test_thread_pool_is_bounded(world: Any) -> None:
    """
    With one thread, calls wait for their turn.
    """
    ends: list[float] = []

    async def main() -> None:
        async def one() -> None:
            await asyncio.to_thread(time.sleep, 2)  # On virtual time: nothing waits.
            ends.append(world.now_s)

        await asyncio.gather(one(), one(), one())

    world.begin(world.instance(threads_max=1), main)
    world.pass_s(10)

    assert [2.0, 4.0, 6.0] == ends


def test_real_time_is_back_afterwards(world: Any) -> None:
    """
    Outside of a run, time.sleep and threading.Event are the real ones.
    """
    before = (time.sleep, threading.Event)  # On virtual time: nothing waits.
    during: list[Any] = []
    world.kernel.at(1, lambda: during.append(time.sleep))  # On virtual time: nothing waits.

    world.pass_s(1)

    assert before == (time.sleep, threading.Event)  # On virtual time: nothing waits.
    assert before[0] is not during[0]


def test_what_nobody_caught_is_told(world: Any) -> None:
    """
    A callback that raises does not end the world; it is told.
    """

    async def main() -> None:
        asyncio.get_running_loop().call_soon(lambda: 1 // 0)
        await asyncio.sleep(1)  # On virtual time: nothing waits.

    world.begin(world.instance(), main)
    world.pass_s(2)

    assert ["ZeroDivisionError"] == [
        type(trouble["exception"]).__name__ for trouble in world.troubles
    ]


def test_loop_that_ends_cancels_what_is_left(world: Any) -> None:
    """
    A loop ends as asyncio.run ends it: its tasks are cancelled, and it is closed.
    """
    ended: list[str] = []
    instance = world.instance()

    async def left() -> None:
        try:
            await asyncio.sleep(100)  # On virtual time: nothing waits.
        finally:
            ended.append("left")

    async def main() -> None:
        instance.keep = asyncio.ensure_future(left())
        await asyncio.sleep(1)  # On virtual time: nothing waits.

    world.begin(instance, main)
    world.pass_s(2)

    assert ["left"] == ended
    assert () == instance.loops


def test_error_that_ends_a_loop_is_told(world: Any) -> None:
    """
    What main() raises is nobody's to catch: it is told, and the loop ends.
    """
    instance = world.instance()

    async def main() -> None:
        msg = "broken"
        raise ValueError(msg)

    world.begin(instance, main)
    world.pass_s(1)

    assert ["broken"] == [str(trouble["exception"]) for trouble in world.troubles]
    assert () == instance.loops
