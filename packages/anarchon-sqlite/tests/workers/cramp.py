"""
Write until the files may not grow any more: `cramp.py PATH` prints what happened.

A limit on the size of files makes the system refuse a write, as a broken disk would.
"""

from __future__ import annotations

import asyncio
import resource
import sys
from pathlib import Path

from anarchon.backend import ClaimAnswer, ClaimRequest
from anarchon.errors import StoreUnavailableError
from anarchon_sqlite import SqliteBackend


def claims(start: int, slot: int) -> list[ClaimRequest]:
    """
    Write a batch of claims that has never been asked.
    """
    return [
        ClaimRequest(job=f"job-{number}", slot=slot, token="t", instance_id="i", lease_ms=60_000)
        for number in range(start, start + 100)
    ]


def size_of(path: str) -> int:
    """
    Tell the size of a file.
    """
    return Path(path).stat().st_size


async def main(path: str) -> None:
    """
    Claim, be cramped, claim, be freed, claim.
    """
    backend = SqliteBackend(path)
    await backend.open(timeout_ms=30_000)
    slot = await backend.time(timeout_ms=30_000)
    assert slot is not None
    await backend.claim(claims(0, slot), timeout_ms=30_000)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_of(f"{path}-wal"), hard))
    try:
        await backend.claim(claims(100, slot), timeout_ms=30_000)
    except StoreUnavailableError as error:
        sys.stdout.write(f"{error}\n")
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    answers = await backend.claim(claims(100, slot), timeout_ms=30_000)
    verdicts = {answer.verdict.value for answer in answers if isinstance(answer, ClaimAnswer)}
    sys.stdout.write(f"{sorted(verdicts)}\n")
    await backend.close()


asyncio.run(main(sys.argv[1]))
