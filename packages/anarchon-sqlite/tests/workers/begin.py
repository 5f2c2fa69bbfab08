"""
Open a file with others: `begin.py PATH NAME` says "ready", and opens when it is sent a line.
"""

from __future__ import annotations

import asyncio
import sys

from anarchon.backend import RegisterAnswer, RegisterRequest
from anarchon_sqlite import SqliteBackend


async def main(path: str) -> None:
    """
    Open, and register a job that all register.
    """
    backend = SqliteBackend(path)
    await backend.open(timeout_ms=30_000)
    (answer,) = await backend.register([RegisterRequest(job="job", slot=1)], timeout_ms=30_000)
    assert isinstance(answer, RegisterAnswer)
    sys.stdout.write("new\n" if answer.new else "known\n")
    await backend.close()


sys.stdout.write("ready\n")
sys.stdout.flush()
sys.stdin.readline()
asyncio.run(main(sys.argv[1]))
