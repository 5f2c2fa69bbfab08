"""
An instance of another process, which acts while this loop stands still.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from anarchon import ClaimAnswer, ClaimRequest, MemoryBackend, MemoryStore, Verdict

__all__ = ["at_once", "steal"]


def at_once(call: Coroutine[Any, Any, Any]) -> Any:
    """
    Run a coroutine that waits for nothing, without a loop.
    """
    try:
        call.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("memory answers at once")


def steal(store: MemoryStore, job: str) -> None:
    """
    Take the job's run over, as another process does.
    """
    live = store.states[job].live
    assert live is not None
    thief = MemoryBackend(store)
    request = ClaimRequest(
        job=job,
        slot=live.slot,
        attempt=live.attempt + 1,
        token="thief",
        instance_id="thief",
        lease_ms=60_000,
    )
    at_once(thief.open(timeout_ms=1))
    answers: list[ClaimAnswer] = at_once(thief.claim([request], timeout_ms=1))
    assert [Verdict.WON] == [answer.verdict for answer in answers]
