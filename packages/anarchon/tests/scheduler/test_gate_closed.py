"""
A gate whose loop has gone before its handler ended.
"""

from __future__ import annotations

import asyncio

from anarchon.scheduler.gate import Gate


class Doubtful:
    """
    A guard that has to ask before each step but the first.
    """

    def __init__(self) -> None:
        self.looks = 0
        self.asked = 0

    def doubtful(self) -> bool:
        """
        Doubt all but the first step.
        """
        self.looks += 1
        return self.looks > 1

    async def confirm(self) -> bool:
        """
        Say yes.
        """
        self.asked += 1
        return True

    def enter(self) -> None:
        """
        A step begins.
        """

    def leave(self) -> None:
        """
        A step has ended.
        """


def test_closed_handler_asks_nobody() -> None:
    """
    A handler's coroutine that is closed unwinds at once: without a loop there is nobody to ask about its lease.
    """
    unwound: list[str] = []
    guard = Doubtful()

    async def handler() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            unwound.append("finally")

    async def run() -> None:
        await Gate(handler(), guard)

    async def begin() -> None:
        coroutine = run()
        coroutine.send(None)
        coroutine.close()

    asyncio.run(begin())

    assert ["finally"] == unwound
    assert 0 == guard.asked
