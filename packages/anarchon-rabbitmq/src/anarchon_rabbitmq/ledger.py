"""
What one instance knows of the log, and what follows from it; no I/O.

The first record of a slot in the log has the slot, and that is the same record for everybody.
Memory is bounded, so that an instance may have forgotten a record or never read it. It then
refuses every slot whose record that could have been: it may err on the side of running nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from anarchon.backend import AnswerReason, ClaimAnswer, ClaimRequest, Verdict
from anarchon.protocol import decide_claim_only
from anarchon_rabbitmq.entries import ClaimEntry, FinishEntry, Message
from anarchon_rabbitmq.options import CLOCK_TOLERANCE_MS

__all__ = ["CLAIMS_PER_JOB_MAX", "Claim", "Ledger"]

CLAIMS_PER_JOB_MAX: Final = 1_000
"""
How many claims of one job are kept in mind at least, while they are not too old.
"""


@dataclass(slots=True)
class Claim:
    """
    Who has a slot. ``own`` says that it was won here.
    """

    token: str
    instance_id: str
    claimed_ms: int
    finished: bool = False
    own: bool = False


@dataclass(slots=True)
class _Job:
    claims: dict[int, Claim] = field(default_factory=dict)
    # No slot up to here is granted any more: its record may have been forgotten.
    floor: int | None = None


class Ledger:
    """
    The claims that this instance has read.

    Args:
        memory_ms: A slot that is older than this is refused, in milliseconds.

        window_ms: How long a record that was read is kept in mind, in milliseconds.
    """

    def __init__(self, *, memory_ms: int, window_ms: int) -> None:
        self._memory_ms = memory_ms
        self._window_ms = window_ms
        self._jobs: dict[str, _Job] = {}
        self._read: deque[tuple[int, str, int]] = deque()
        # What was won here and has not ended yet is never forgotten: it is to be finished.
        self._running: dict[tuple[str, int], Claim] = {}
        self._blind_until: int | None = None

    def __len__(self) -> int:
        """
        Count the claims that are kept in mind.
        """
        return sum(len(job.claims) for job in self._jobs.values())

    def holder(self, job: str, slot: int) -> Claim | None:
        """
        Return who has a slot; None if that is not known.
        """
        known = self._jobs.get(job)
        found = None if known is None else known.claims.get(slot)
        return found or self._running.get((job, slot))

    def decide(self, request: ClaimRequest, now_ms: int) -> ClaimAnswer:
        """
        Answer a claim from what is known: WON says that the log has to be asked, unless the token has it already.
        """
        holder = self.holder(request.job, request.slot)
        known = self._jobs.get(request.job)
        floors = (
            self._blind_until,
            None if known is None else known.floor,
            now_ms - self._memory_ms - 1,
        )
        floor = max(each for each in floors if each is not None)
        return decide_claim_only(
            None if holder is None else holder.token, floor, request, now_ms=None
        )

    def own(self, job: str, slot: int) -> None:
        """
        Keep a claim in mind until it has ended: it was won here.
        """
        claim = self.holder(job, slot)
        if claim is not None and not claim.finished:
            claim.own = True
            self._running[job, slot] = claim

    def apply(self, message: Message, read_ms: int) -> list[ClaimAnswer]:
        """
        Take the next message of the log in.

        Args:
            message: The message.

            read_ms: When it was read, by a clock that does not step.

        Returns:
            The answer to each of its claims, in their order.
        """
        answers = []
        for entry in message.entries:
            if isinstance(entry, ClaimEntry):
                answers.append(self._claim(entry, message.written_ms, read_ms))
            else:
                self._finish(entry)
        self._forget_old(read_ms)
        return answers

    def blind(self, written_ms: int) -> None:
        """
        Refuse what may stand in a part of the log that was not read.

        ``written_ms`` is when that part had ended, by the clock of an instance. A claim
        is made at its slot's time or later, so that newer slots cannot be in it.
        """
        until = written_ms + CLOCK_TOLERANCE_MS
        self._blind_until = max(until, self._blind_until or until)

    def _claim(self, entry: ClaimEntry, written_ms: int, read_ms: int) -> ClaimAnswer:
        job = self._jobs.setdefault(entry.job, _Job())
        holder = self.holder(entry.job, entry.slot)
        if holder is not None:
            won = holder.token == entry.token
            return ClaimAnswer(verdict=Verdict.WON if won else Verdict.TAKEN)
        floors = [each for each in (self._blind_until, job.floor) if each is not None]
        if floors and entry.slot <= max(floors):
            # An earlier record may have been forgotten while this one was on its way.
            return ClaimAnswer(verdict=Verdict.LATE, reason=AnswerReason.TOO_OLD)
        job.claims[entry.slot] = Claim(entry.token, entry.instance_id, written_ms)
        self._read.append((read_ms, entry.job, entry.slot))
        if len(job.claims) > 2 * CLAIMS_PER_JOB_MAX:
            self._forget(job, sorted(job.claims)[:-CLAIMS_PER_JOB_MAX])
        return ClaimAnswer(verdict=Verdict.WON)

    def _finish(self, entry: FinishEntry) -> None:
        claim = self.holder(entry.job, entry.slot)
        if claim is not None and claim.token == entry.token:
            claim.finished = True
            self._running.pop((entry.job, entry.slot), None)

    def _forget_old(self, read_ms: int) -> None:
        while self._read and read_ms - self._read[0][0] > self._window_ms:
            _, name, slot = self._read.popleft()
            job = self._jobs[name]
            if slot in job.claims:
                self._forget(job, [slot])

    def _forget(self, job: _Job, slots: Sequence[int]) -> None:
        for slot in slots:
            del job.claims[slot]
        newest = max(slots)
        job.floor = newest if job.floor is None else max(newest, job.floor)
