"""
Requests that nobody could have sent: the store must answer them, and change nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from anarchon.backend import ClaimRequest, FinishRequest, ReleaseRequest, RenewRequest
from anarchon.protocol.state import lease_end_ms
from anarchon.records import Status
from anarchon_simulation.store import SimulatedStore

__all__ = ["send_strays"]

_SENDER = "stray"
_LEASE_MS = 3_000


def send_strays(store: SimulatedStore, job: str) -> None:
    """
    Ask for a takeover of a run that the store does not know, and close the newest with a wrong token.

    While a lease holds, ask for a slot that would wait for its run, too.
    """
    state = store.memory.states.get(job)
    high = store.time() if state is None or state.high is None else state.high
    unknown = ClaimRequest(
        job=job,
        slot=high + 1,
        attempt=2,
        token=f"{_SENDER}:{high}",
        instance_id=_SENDER,
        lease_ms=_LEASE_MS,
    )
    store.serve("claim", [unknown], _SENDER)
    if not store.leases:
        return
    live = None if state is None else state.live
    if (
        live is not None
        and live.token is not None
        and lease_end_ms(live, store.memory.now()) > (store.memory.now().lease_ms)
    ):
        store.serve("claim", [replace(unknown, attempt=1, overlap="wait")], _SENDER)
    slot, attempt = (high, 1) if live is None else (live.slot, live.attempt)
    named: dict[str, Any] = {
        "job": job,
        "slot": slot,
        "attempt": attempt,
        "token": f"{_SENDER}:{high}",
    }
    store.serve("renew", [RenewRequest(lease_ms=_LEASE_MS, **named)], _SENDER)
    store.serve("release", [ReleaseRequest(**named)], _SENDER)
    store.serve("finish", [FinishRequest(status=Status.SUCCESS, **named)], _SENDER)
