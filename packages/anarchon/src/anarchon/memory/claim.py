"""
The memory backend with claims alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from anarchon.backend import (
    PROTOCOL_VERSION,
    ClaimAnswer,
    ClaimRequest,
    CloseAnswer,
    FinishRequest,
    Verdict,
)
from anarchon.capabilities import Capabilities, Reach
from anarchon.errors import BackendError
from anarchon.memory.opened import OpenedMemory
from anarchon.protocol import (
    Now,
    RecordClose,
    RecordOpen,
    check_finish_status,
    decide_claim_only,
)
from anarchon.protocol.closing import started_ms_of
from anarchon.records import Reason, Status, storable_error

__all__ = ["MemoryClaimBackend"]

_BATCH_MAX = 256


class MemoryClaimBackend(OpenedMemory):
    """
    Keep claims, and nothing more, in the memory of this process.

    What a claim-only store promises is one winner per run, a history, and at
    most one execution.
    """

    protocol_version: ClassVar[int] = PROTOCOL_VERSION

    @property
    def capabilities(self) -> Capabilities:
        """
        Claims only, within one process.
        """
        return Capabilities(store_clock=True, reach=Reach.PROCESS, batch_max=_BATCH_MAX)

    async def claim(
        self,
        requests: Sequence[ClaimRequest],
        *,
        timeout_ms: int,  # noqa: ARG002 - memory answers at once
    ) -> Sequence[ClaimAnswer | BackendError]:
        """
        Grant each slot to the first token that asks for it.
        """
        return self._each(requests, self._claim)

    async def finish(
        self,
        requests: Sequence[FinishRequest],
        *,
        timeout_ms: int,  # noqa: ARG002 - memory answers at once
    ) -> Sequence[CloseAnswer | BackendError]:
        """
        Record how runs ended.
        """
        return self._each(requests, self._finish)

    def _claim(self, request: ClaimRequest, now: Now) -> ClaimAnswer:
        store = self._store
        claims = store.claims.setdefault(request.job, {})
        holder = claims.get(request.slot)
        answer = decide_claim_only(holder, store.forgotten.get(request.job), request, now.wall_ms)
        if answer.verdict is Verdict.WON and holder is None:
            claims[request.slot] = request.token
            opened = RecordOpen(
                slot=request.slot,
                attempt=1,
                token=request.token,
                instance_id=request.instance_id,
                status=Status.RUNNING,
                reason=None,
                claimed_ms=now.wall_ms,
            )
            store.write(request.job, (opened,))
            self._forget(request.job, claims)
        return answer

    def _forget(self, job: str, claims: dict[int, str]) -> None:
        """
        Drop the oldest claims, and refuse from now on what is not newer than they were.
        """
        while len(claims) > max(1, self._store.retention.records_per_job):
            oldest = min(claims)
            del claims[oldest]
            self._store.forgotten[job] = max(oldest, self._store.forgotten.get(job, oldest))

    def _finish(self, request: FinishRequest, now: Now) -> CloseAnswer:
        check_finish_status(request, leases=False)
        view = self._store.view(request.job, request.slot, request.attempt)
        if view is None or view.token != request.token:
            return CloseAnswer(accepted=False, store_now_ms=now.wall_ms)
        closed = RecordClose(
            slot=request.slot,
            attempt=request.attempt,
            status=request.status,
            reason=Reason.STOPPED if request.status is Status.INTERRUPTED else request.reason,
            finished_ms=now.wall_ms,
            started_ms=started_ms_of(request.started_ago_ms, now),
            error=None if request.error is None else storable_error(request.error),
        )
        self._store.write(request.job, (closed,))
        return CloseAnswer(accepted=True, store_now_ms=now.wall_ms)
