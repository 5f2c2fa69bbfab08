"""
Start instances in processes of their own, and hear what they saw.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Final

from anarchon_conformance.harness import World

__all__ = ["STARTING", "Child", "start_child"]

STARTING: Final = 4
"""
How many patiences a process may take to start. What it has to import is no matter of the store's, and a machine that is
busy is slow with it.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """
    One instance in a process of its own.
    """

    process: asyncio.subprocess.Process
    patience_ms: int

    async def hear(self, *, patiences: int = 1) -> dict[str, Any]:
        """
        Read the next thing that it says, within so many times the patience of a test.

        Raises:
            AssertionError: It ended without a word; what it complained of is shown.
        """
        assert self.process.stdout is not None
        async with asyncio.timeout(patiences * self.patience_ms / 1_000):
            line = await self.process.stdout.readline()
        if not line:
            assert self.process.stderr is not None
            complaint = (await self.process.stderr.read()).decode(errors="replace")
            message = f"a child process ended without an answer:\n{complaint}"
            raise AssertionError(message)
        told: dict[str, Any] = json.loads(line)
        return told

    def tell(self, line: str) -> None:
        """
        Send it a line.
        """
        assert self.process.stdin is not None
        self.process.stdin.write(line.encode() + b"\n")

    async def kill(self) -> None:
        """
        End it as a crash would: nothing of it gets to clean up.
        """
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        await self.process.communicate()


@contextlib.asynccontextmanager
async def start_child(
    world: World, errand: str, *, label: str, offset_ms: int = 0, **more: Any
) -> AsyncIterator[Child]:
    """
    Start one that is ready to go; it dies with the context.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "anarchon_conformance.child",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    child = Child(process=process, patience_ms=world.bench.patience_ms)
    order = {
        "errand": errand,
        "label": label,
        "namespace": world.namespace,
        "offset_ms": offset_ms,
        "origin": world.bench.profile.origin,
        "path": sys.path,
        **more,
    }
    try:
        child.tell(json.dumps(order))
        assert {"ready": True} == await child.hear(patiences=STARTING)
        yield child
    finally:
        await child.kill()
