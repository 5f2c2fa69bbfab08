"""
What is used of asyncio without a public way is as it is said to be, on this Python.
"""

from __future__ import annotations

import asyncio
from typing import Any

from anarchon_simulation.inside_asyncio import enter_loop, is_task_step


def test_a_loop_can_be_made_the_running_one() -> None:
    """
    After enter_loop(loop) that loop is the running one of this thread; after None there is none.
    """
    loop = asyncio.new_event_loop()
    try:
        enter_loop(loop)
        seen = asyncio.get_running_loop()
    finally:
        enter_loop(None)
        loop.close()

    assert loop is seen


def test_steps_of_tasks_are_told_from_other_callbacks(world: Any) -> None:
    """
    The first step of a task, and each that follows an await, are known as such; call_soon and timers are not.
    """
    seen: list[tuple[bool, str]] = []
    instance = world.instance()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        loop.call_soon(future.set_result, None)
        await future
        await asyncio.sleep(0)

    world.begin(instance, main)
    lane = instance.loops[0].lane
    push = lane.push

    def watch(work: Any, *, is_step: bool = False) -> None:
        seen.append((is_step, repr(work._called)))
        push(work, is_step=is_step)

    lane.push = watch
    world.pass_s(1)
    steps = [name for is_step, name in seen if is_step]
    others = [name for is_step, name in seen if not is_step]

    assert len(steps) >= 3
    assert all("Task" in name for name in steps)
    assert any("set_result" in name for name in others)
    assert not any("Task" in name and "wakeup" in name.lower() for name in others)


def test_plain_functions_are_no_steps() -> None:
    """
    A bound method of something else than a task is none.
    """
    assert not is_task_step(print)
    assert not is_task_step([].append)
