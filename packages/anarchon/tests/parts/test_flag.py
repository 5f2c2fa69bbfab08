"""
A flag is raised once, and wakes loops and threads.
"""

from __future__ import annotations

import asyncio
import threading

from anarchon.flag import Flag

PATIENCE_S = 60


async def test_waiting_in_a_loop_ends_when_the_flag_is_raised_there() -> None:
    """
    From the same loop, by several waiters, and at once when it is up already.
    """
    flag = Flag()
    waiting = [asyncio.ensure_future(flag.wait()) for _ in range(3)]
    await asyncio.sleep(0)

    assert not any(task.done() for task in waiting)
    flag.set()
    await asyncio.gather(*waiting)
    await flag.wait()

    assert flag.is_set()
    assert [] == flag._wakers


async def test_waiting_in_a_loop_ends_when_a_thread_raises_the_flag() -> None:
    """
    It may be raised from anywhere.
    """
    flag = Flag()
    waiting = asyncio.ensure_future(flag.wait())
    await asyncio.sleep(0)
    threading.Thread(target=flag.set).start()
    async with asyncio.timeout(PATIENCE_S):
        await waiting


async def test_waiting_in_a_thread_ends_when_the_loop_raises_the_flag() -> None:
    """
    A plain handler waits for ctx.stopping without a loop.
    """
    flag, entered = Flag(), threading.Event()

    def wait() -> bool:
        entered.set()
        return flag.wait_blocking(PATIENCE_S)

    waiting = asyncio.ensure_future(asyncio.to_thread(wait))
    assert await asyncio.to_thread(entered.wait, PATIENCE_S)
    flag.set()

    assert await waiting
    assert [] == flag._wakers


def test_waiting_in_a_thread_has_a_bound_and_says_how_it_ended() -> None:
    """
    False after the timeout; True without waiting when it is up.
    """
    flag = Flag()

    assert not flag.wait_blocking(0.001)
    flag.set()

    assert flag.wait_blocking(PATIENCE_S)
    assert flag.wait_blocking()


async def test_waiter_that_is_cancelled_is_forgotten() -> None:
    """
    Nobody wakes a waiter that has gone; one that was cancelled while it is woken is left alone.
    """
    flag = Flag()
    gone, late = asyncio.ensure_future(flag.wait()), asyncio.ensure_future(flag.wait())
    await asyncio.sleep(0)
    gone.cancel()
    await asyncio.gather(gone, return_exceptions=True)

    assert 1 == len(flag._wakers)
    flag.set()
    late.cancel()
    await asyncio.gather(late, return_exceptions=True)

    assert late.cancelled()
    assert [] == flag._wakers


def test_flag_that_is_raised_between_the_two_looks_is_seen() -> None:
    """
    A thread raises it after the first look and before the waker is there: nobody would wake the waiter.
    """

    class Late(Flag):
        """
        A flag that is raised by somebody else just after the first look.
        """

        __slots__ = ()

        @property
        def _raised(self) -> bool:
            return False

        @_raised.setter
        def _raised(self, value: bool) -> None: ...

        def is_set(self) -> bool:
            """
            By now it is up.
            """
            return True

    asyncio.run(asyncio.wait_for(Late().wait(), PATIENCE_S))

    assert Late().wait_blocking(PATIENCE_S)
