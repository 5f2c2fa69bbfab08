"""
End while backends are open: `leave.py PATH` leaves one to a closed loop and one to a thread.

What a plain function that outlasts stop() leaves behind is the second: renewals that go
on, on a daemon thread with a loop of its own.
"""

from __future__ import annotations

import asyncio
import sys
import threading

from anarchon_sqlite import SqliteBackend

going = threading.Event()


async def open_and_read(path: str) -> SqliteBackend:
    """
    Open both connections of a backend.
    """
    backend = SqliteBackend(path)
    await backend.open(timeout_ms=30_000)
    await backend.history(None, limit=1, timeout_ms=30_000)
    return backend


async def go_on(path: str) -> None:
    """
    Ask for ever.
    """
    backend = await open_and_read(path)
    while True:
        await backend.time(timeout_ms=30_000)
        going.set()


left = asyncio.run(open_and_read(sys.argv[1]))
threading.Thread(target=lambda: asyncio.run(go_on(sys.argv[1])), daemon=True).start()
assert going.wait(30)
sys.stdout.write("over\n")
