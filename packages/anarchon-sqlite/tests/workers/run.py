"""
Win a run and keep it: `run.py PATH JOB SLOT LEASE_MS` says "won"; sent a line, it renews.

The answer to the renewal is printed: "held" or "lost".
"""

from __future__ import annotations

import asyncio
import sys

from anarchon.backend import ClaimAnswer, ClaimRequest, RenewAnswer, RenewRequest
from anarchon_sqlite import SqliteBackend


async def main(path: str, job: str, slot: int, lease_ms: int) -> None:
    """
    Claim, wait, renew.
    """
    backend = SqliteBackend(path)
    await backend.open(timeout_ms=30_000)
    claim = ClaimRequest(
        job=job, slot=slot, token="worker", instance_id="worker", lease_ms=lease_ms
    )
    (answer,) = await backend.claim([claim], timeout_ms=30_000)
    assert isinstance(answer, ClaimAnswer)
    sys.stdout.write(f"{answer.verdict}\n")
    sys.stdout.flush()
    sys.stdin.readline()
    renewal = RenewRequest(job=job, slot=slot, attempt=1, token="worker", lease_ms=lease_ms)
    (renewed,) = await backend.renew([renewal], timeout_ms=30_000)
    assert isinstance(renewed, RenewAnswer)
    sys.stdout.write("held\n" if renewed.held else "lost\n")
    await backend.close()


asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
