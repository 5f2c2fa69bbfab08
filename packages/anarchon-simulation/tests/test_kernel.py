"""
The kernel: time that jumps, a choice that a seed decides, and mistakes that it finds.
"""

from __future__ import annotations

import asyncio
import gc
import random
from typing import Any

import pytest

from anarchon_simulation.kernel import DeadlockError, Kernel
from anarchon_simulation.lanes import Lane


def order_of(seed: int) -> list[str]:
    """
    Let three lanes do three things each, and say in which order they came.
    """

    class Thing:
        def __init__(self, name: str) -> None:
            self.name = name

        def call(self) -> None:
            done.append(self.name)

        def cancelled(self) -> bool:
            return False

    done: list[str] = []
    kernel = Kernel(seed)
    for lane_name in "abc":
        lane = Lane(kernel, number=kernel.number(), name=lane_name)
        for number in range(3):
            lane.push(Thing(f"{lane_name}{number}"))
    kernel.run(lambda: len(done) == 9)
    kernel.close()
    return done


def test_same_seed_chooses_alike() -> None:
    """
    A seed decides which lane runs next, and another one decides otherwise.
    """
    assert order_of(1) == order_of(1)
    assert 1 < len({tuple(order_of(seed)) for seed in range(10)})


def test_a_lane_keeps_its_own_order() -> None:
    """
    Within a lane it is first come, first served: that is what asyncio promises.
    """
    for seed in range(20):
        done = order_of(seed)

        assert ["a0", "a1", "a2"] == [name for name in done if name.startswith("a")]


def test_time_jumps_to_the_next_timer(world: Any) -> None:
    """
    A sleep of a year takes no time, and ends on the microsecond.
    """
    woken: list[float] = []

    async def main() -> None:
        await asyncio.sleep(31_536_000)  # On virtual time: nothing waits.
        woken.append(world.now_s)

    world.begin(world.instance(), main)
    world.pass_s(31_536_001)

    assert [31_536_000.0] == woken


def test_nothing_left_to_do_is_told() -> None:
    """
    Waiting for what can never come raises, and does not hang.
    """
    kernel = Kernel(1)

    with pytest.raises(DeadlockError, match="nothing can ever happen"):
        kernel.run(lambda: False)


def test_limit_is_told() -> None:
    """
    Waiting for what comes too late raises.
    """
    kernel = Kernel(1)
    kernel.at(10_000_000, lambda: None)

    with pytest.raises(DeadlockError, match="has not come by 5 s"):
        kernel.run(lambda: False, limit_us=5_000_000)


def test_spinning_is_told() -> None:
    """
    Callbacks that go on for ever at one instant raise.
    """
    kernel = Kernel(1, instant_steps_max=100)
    lane = Lane(kernel, number=1, name="a")

    class Again:
        def call(self) -> None:
            lane.push(self)

        def cancelled(self) -> bool:
            return False

    lane.push(Again())

    with pytest.raises(DeadlockError, match="something spins"):
        kernel.run(lambda: False)


def test_call_soon_across_threads_raises(world: Any) -> None:
    """
    A future that another thread's code resolves by set_result() is a bug that no single loop shows.
    """
    waiting: list[asyncio.Future[None]] = []
    caught: list[str] = []
    instance = world.instance()

    async def waits() -> None:
        waiting.append(asyncio.get_running_loop().create_future())
        await waiting[0]

    async def resolves() -> None:
        await asyncio.sleep(1)  # On virtual time: nothing waits.
        try:
            waiting[0].set_result(None)
        except RuntimeError as error:
            caught.append(str(error))

    world.begin(instance, waits, "waits")
    world.begin(instance, resolves, "resolves")
    world.pass_s(2)

    assert 1 == len(caught)
    assert "only call_soon_threadsafe() crosses threads" in caught[0]


def test_shuffled_steps_keep_plain_callbacks_in_order() -> None:
    """
    The order "task" shuffles the steps of tasks, and nothing else.
    """

    class Thing:
        def __init__(self, name: str) -> None:
            self.name = name

        def call(self) -> None:
            done.append(self.name)

        def cancelled(self) -> bool:
            return False

    orders = set()
    for seed in range(20):
        done: list[str] = []
        kernel = Kernel(seed, order="task")
        lane = Lane(kernel, number=1, name="a")
        for number in range(4):
            lane.push(Thing(f"step{number}"), is_step=True)
            lane.push(Thing(f"plain{number}"))
        kernel.run(lambda done=done: len(done) == 8)  # type: ignore[misc]  # a default binds the list of this turn
        orders.add(tuple(name for name in done if name.startswith("step")))

        assert [f"plain{number}" for number in range(4)] == [
            name for name in done if name.startswith("plain")
        ]
    assert 1 < len(orders)


def test_collector_is_put_back(world: Any) -> None:
    """
    The collector of garbage rests while the kernel runs, for finalizers would come at random.
    """
    seen: list[bool] = []
    world.kernel.at(1, lambda: seen.append(gc.isenabled()))

    world.pass_s(1)

    assert [False] == seen
    assert gc.isenabled()


def test_sets_of_tasks_iterate_alike(world: Any) -> None:
    """
    asyncio.wait keeps tasks in a set: its order is by number here, and not by address.
    """
    names: list[list[str]] = []

    async def main() -> None:
        dice = random.Random(1)
        tasks = {asyncio.ensure_future(asyncio.sleep(dice.random())) for _ in range(20)}
        done, _ = await asyncio.wait(tasks)
        names.append([task.get_name() for task in done])

    first = world.instance()
    world.begin(first, main)
    world.pass_s(2)
    world.begin(first, main)
    world.pass_s(2)
    numbers = [[int(name.split("-")[1]) for name in each] for each in names]

    assert [number - min(numbers[0]) for number in sorted(numbers[0])] == [
        number - min(numbers[1]) for number in sorted(numbers[1])
    ]
    assert 20 == len(numbers[0])
