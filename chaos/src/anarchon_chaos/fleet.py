"""
Instances as real processes: started, killed, frozen, asked to end.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from anarchon_chaos.evidence import now_ns
from anarchon_chaos.plans import WorkerPlan

__all__ = ["Worker", "spawn"]


class Worker:
    """
    One process. Made by `spawn`.
    """

    def __init__(self, name: str, process: Process) -> None:
        self.name = name
        self.process = process
        self.frozen = False
        self.leaving = False

    @property
    def pid(self) -> int:
        """
        The number of its process.
        """
        return self.process.pid

    @property
    def alive(self) -> bool:
        """
        Whether its process has not ended.
        """
        return self.process.returncode is None

    def command(self, line: str) -> None:
        """
        Send it a line.
        """
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n".encode())

    def start(self, plan: WorkerPlan) -> None:
        """
        Give it its plan.
        """
        self.command(plan.dump())

    async def kill(self) -> int:
        """
        End it as a crash would, and return when it was gone.
        """
        self.leaving = True
        with suppress(ProcessLookupError):
            self.process.kill()
        await self.process.wait()
        return now_ns()

    def terminate(self) -> int:
        """
        Ask it to hand over and end, and return when that was.
        """
        self.leaving = True
        with suppress(ProcessLookupError):
            self.process.terminate()
        return now_ns()

    async def freeze(self) -> int:
        """
        Stop its threads, and return when they stood still.
        """
        self.process.send_signal(signal.SIGSTOP)
        # To wait for a child to stop, and not to end, leaves its end for the event loop.
        await asyncio.to_thread(os.waitid, os.P_PID, self.pid, os.WSTOPPED | os.WNOWAIT)
        self.frozen = True
        return now_ns()

    def thaw(self) -> int:
        """
        Let it go on, and return when that was.
        """
        at_ns = now_ns()
        self.process.send_signal(signal.SIGCONT)
        self.frozen = False
        return at_ns

    async def ended(self, timeout_ms: int) -> int | None:
        """
        Return its exit status once it has ended; None if it has not in time.
        """
        try:
            async with asyncio.timeout(timeout_ms / 1_000):
                return await self.process.wait()
        except TimeoutError:
            return None


async def spawn(name: str, folder: Path, environment: Mapping[str, str]) -> Worker:
    """
    Start a process that waits for its plan.
    """
    with (folder / f"{name}.stderr").open("ab") as stderr:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "anarchon_chaos.worker",
            name,
            str(folder),
            stdin=PIPE,
            stdout=DEVNULL,
            stderr=stderr,
            env={**os.environ, **environment},
            start_new_session=True,
        )
    return Worker(name, process)
