"""
The processes of the demo: started, listened to, signalled, and all ended in the end.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

__all__ = ["DemoError", "Fleet", "Told", "now_ms"]

Told = dict[str, Any]
"""
An event of an instance, as worker.py writes it.
"""

QUIET_MS = 600
QUIET_S_MAX = 3


class DemoError(Exception):
    """
    The demo could not show what it wanted to show.
    """


def now_ms() -> int:
    """
    Read the wall clock.
    """
    return time.time_ns() // 1_000_000


class Fleet:
    """
    The instances by their names, and all that they have told so far.

    Args:
        heard: Called with each event as it arrives.
    """

    def __init__(self, heard: Callable[[Told], None]) -> None:
        self._heard = heard
        self._processes: dict[str, Process] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._news = asyncio.Event()
        self._signalled: set[str] = set()
        self._told: list[Told] = []
        self._trouble: str | None = None
        self.exits: dict[str, int] = {}

    @property
    def alive(self) -> list[str]:
        """
        The instances that still run.
        """
        return [name for name in self._processes if name not in self.exits]

    async def start(self, name: str, *arguments: str | Path) -> None:
        """
        Start one instance, in a session of its own: Ctrl-C is for this process to handle.
        """
        worker = Path(__file__).with_name("worker.py")
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            worker,
            name,
            *arguments,
            stdin=PIPE,
            stdout=PIPE,
            start_new_session=True,
        )
        self._processes[name] = process
        self._tasks.append(asyncio.create_task(self._listen(name, process)))

    def pid(self, name: str) -> int:
        """
        Return the number of an instance's process.
        """
        return self._processes[name].pid

    def signal(self, name: str, number: signal.Signals) -> int:
        """
        Send a signal to an instance that is to end, and return when that was.
        """
        self._signalled.add(name)
        sent_ms = now_ms()
        self._processes[name].send_signal(number)
        return sent_ms

    async def seen(self, wanted: Callable[[Told], bool]) -> Told:
        """
        Return the first event that is wanted, told already or still to come.

        Raises:
            DemoError: An instance has ended by itself.
        """
        looked_at = 0
        while True:
            for told in self._told[looked_at:]:
                if wanted(told):
                    return told
            looked_at = len(self._told)
            await self._wait_for_news()

    async def up(self) -> None:
        """
        Return when every instance has heard from the store.
        """
        waiting = set(self._processes)
        while waiting:
            started = await self.seen(
                lambda told: told["type"] == "scheduler_started" and told["instance"] in waiting
            )
            waiting.discard(started["instance"])

    async def ended(self, name: str) -> int:
        """
        Return the exit status of an instance when it has ended.
        """
        while name not in self.exits:
            await self._wait_for_news()
        return self.exits[name]

    async def quiet(self) -> None:
        """
        Return shortly after a tick has run, when no other one is about to begin for a while.

        A signal that comes then meets one job in the middle of a run and not two. On a machine
        that is too slow for that, any moment will do after a few seconds.
        """
        asked_ms = now_ms()

        def just_over(told: Told) -> bool:
            if told["type"] != "finish" or told["job"] != "tick":
                return False
            slot: int = told["slot"]
            return slot >= asked_ms and now_ms() - slot < QUIET_MS

        try:
            async with asyncio.timeout(QUIET_S_MAX):
                await self.seen(just_over)
        except TimeoutError:
            return

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for process in self._processes.values():
            if process.returncode is None:
                process.kill()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _listen(self, name: str, process: Process) -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            told: Told = json.loads(line)
            self._told.append(told)
            self._heard(told)
            self._news.set()
        self.exits[name] = await process.wait()
        if name not in self._signalled:
            self._trouble = f"{name} ended by itself, with status {self.exits[name]}"
        self._news.set()

    async def _wait_for_news(self) -> None:
        if self._trouble is not None:
            raise DemoError(self._trouble)
        self._news.clear()
        await self._news.wait()
