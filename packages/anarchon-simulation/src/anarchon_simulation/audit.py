"""
What must hold at every instant, checked whenever something happens.

The audit trusts nobody: it keeps books of its own, from what the store answered and
from what handlers did, and it compares them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from anarchon.backend import (
    EARLY_TOLERANCE_MS,
    ClaimAnswer,
    ClaimRequest,
    CloseAnswer,
    FinishRequest,
    RegisterAnswer,
    RegisterRequest,
    ReleaseRequest,
    RenewAnswer,
    RenewRequest,
    Verdict,
)
from anarchon.protocol import JobState, Live
from anarchon.records import RunRecord, Status
from anarchon_simulation.rows import row_of
from anarchon_simulation.store import SimulatedStore
from anarchon_simulation.trace import Trace

__all__ = ["Audit", "BrokenRuleError", "JobBooks", "Missed", "Reign", "Run"]

_REGISTRATION_MS_MAX = 30_000
"""
How long a registration may take from the store's time that it begins with, freezes and all.
"""

Run = tuple[int, int]
"""
(slot, attempt): what ``ctx.fence`` is.
"""


class BrokenRuleError(AssertionError):
    """
    An invariant does not hold.
    """


@dataclass(frozen=True, slots=True)
class Missed:
    """
    Slots between two that were granted or skipped: nobody will ever run them.
    """

    after: int
    before: int
    token: str


@dataclass(slots=True)
class Reign:
    """
    How long the store knew a job by one schedule.

    Args:
        fingerprint: The schedule's.

        since_ms: When it replaced another; None for the first one.

        high: The newest slot by its end.
    """

    fingerprint: str | None
    since_ms: int | None
    high: int | None


@dataclass(slots=True)
class JobBooks:
    """
    What is known of a job.
    """

    tokens: dict[Run, str] = field(default_factory=dict)
    newest: Run = (-1, 0)
    busy_us: int = 0
    live: Run | None = None
    lease_until_ms: int = 0
    released: bool = False
    ended: dict[int, str] = field(default_factory=dict)
    high: int | None = None
    first_high: int | None = None
    registered_ms: int | None = None
    missed: list[Missed] = field(default_factory=list)
    begun: dict[Run, str] = field(default_factory=dict)
    newest_begun: Run = (-1, 0)
    reigns: list[Reign] = field(default_factory=list)


class Audit:
    """
    Judges the store's answers and the handlers' steps.

    Args:
        store: The store; the audit watches it.

        trace: Where what happens is written down.

        now_us: Tells the true time.
    """

    def __init__(self, store: SimulatedStore, trace: Trace, now_us: Callable[[], int]) -> None:
        self._store = store
        self._trace = trace
        self._now_us = now_us
        self.jobs: dict[str, JobBooks] = {}
        self.rows: Counter[str] = Counter()
        self.claims: Counter[str] = Counter()
        self.broken: list[str] = []
        self.claim_checks: list[Callable[[ClaimRequest, str], None]] = []
        self.zones_differ: set[tuple[str, str]] = set()
        self._owners: dict[str, tuple[str, int, int]] = {}
        self._shown: dict[tuple[str, int, int], RunRecord] = {}
        self._newest_store_ms = store.time()
        store.observers.append(self)

    def books(self, job: str) -> JobBooks:
        """
        Return the books of a job.
        """
        return self.jobs.setdefault(job, JobBooks())

    def breaks(self, rule: str, job: str | None = None) -> None:
        """
        Write a broken rule down; the run ends at the next look.
        """
        self.broken.append(f"{self._now_us() / 1e6:.3f} s: {rule}")
        self._trace.add(self._now_us(), "store", "broken", f"BROKEN: {rule}", job)

    # The store.

    def answered(
        self,
        request: Any,
        answer: Any,
        *,
        before: JobState | None,
        after: JobState | None,
        sender: str,
    ) -> None:
        """
        Judge one answer.
        """
        self._newest_store_ms = max(self._newest_store_ms, self._store.time())
        lease_now_ms = self._store.clock.suspend_ms()
        if self._store.leases:
            row = row_of(
                request,
                answer,
                before=before,
                now_ms=self._store.time(),
                lease_now_ms=lease_now_ms,
            )
            self.rows[row] += 1
        books = self.books(request.job)
        if isinstance(request, ClaimRequest):
            self.claims[sender] += 1
            for look in self.claim_checks:
                look(request, sender)
        if isinstance(request, ClaimRequest) and isinstance(answer, ClaimAnswer):
            self._note_claim(request, answer, sender)
            self._named(request, answer, None if after is None else after.live)
            self._claim(books, request, answer, lease_now_ms)
        elif isinstance(request, RenewRequest) and isinstance(answer, RenewAnswer):
            self._renewal(books, request, answer, lease_now_ms, changed=before != after)
        elif isinstance(request, FinishRequest | ReleaseRequest) and isinstance(
            answer, CloseAnswer
        ):
            self._note_close(request, answer, sender)
            self._closing(books, request, answer, changed=before != after)
        elif isinstance(request, RegisterRequest) and isinstance(answer, RegisterAnswer):
            if answer.new:
                books.registered_ms = self._store.time()
            differs = answer.zone_digests not in (None, request.zone_digests)
            self.zones_differ |= {(sender, request.job)} if differs else set()
        if after is not None:
            self._high(books, request.job, after.high)
            self._reign(books, after)

    def looked(self, job: str | None, limit: int, records: Sequence[RunRecord]) -> None:
        """
        Judge what the history shows: so many, newest first, and what has ended stays as it was.
        """
        asked = "all jobs" if job is None else job
        keys = [(record.slot, record.attempt) for record in records]
        if len(records) > limit:
            self.breaks(f"the history of {asked} shows {len(records)} records of {limit}", job)
        if job is not None and keys != sorted(set(keys), reverse=True):
            self.breaks(f"the history of {job} is out of order: {keys}", job)
        for record in records:
            shown = self._shown.setdefault((record.job, record.slot, record.attempt), record)
            if shown.status is Status.RUNNING:
                self._shown[record.job, record.slot, record.attempt] = record
            elif (shown.status, shown.reason) != (record.status, record.reason):
                self.breaks(f"{shown} was shown, and then {record}", record.job)

    def _named(self, request: ClaimRequest, answer: ClaimAnswer, live: Live | None) -> None:
        """
        Whoever loses a claim hears of the run that is live, whatever it lost by.
        """
        if answer.verdict is Verdict.WON or not self._store.leases:
            return
        named = None if answer.run is None else (answer.run.slot, answer.run.attempt)
        if named != (None if live is None else (live.slot, live.attempt)):
            self.breaks(f"{request.job}: {answer.verdict} names {named}, but live is {live}")

    def _claim(
        self, books: JobBooks, request: ClaimRequest, answer: ClaimAnswer, lease_now_ms: int
    ) -> None:
        job, run = request.job, (request.slot, request.attempt)
        if answer.verdict is Verdict.OVERLAP and answer.recorded:
            self._missed(books, request, answer)
        if (
            answer.verdict is Verdict.DONE
            and books.live is not None
            and books.live[0] == request.slot
        ):
            books.live = None  # Given up: nothing is live any more.
        if answer.verdict is not Verdict.WON:
            return
        again = books.tokens.get(run)
        if again is not None and again != request.token:
            self.breaks(f"two winners of {job} {run}: {again} and {request.token}", job)
        owner = self._owners.setdefault(request.token, (job, *run))
        if owner != (job, *run):
            self.breaks(f"the token {request.token} of {owner} was used again for {job} {run}", job)
        if again is None:
            self._granted(books, request, lease_now_ms)
            if request.attempt == 1:
                self._missed(books, request, answer)
        elif self._store.leases and (books.live != run or books.released):
            self.breaks(f"{job} {run} was won again although it is over", job)
        books.lease_until_ms = lease_now_ms + request.lease_ms

    def _granted(self, books: JobBooks, request: ClaimRequest, lease_now_ms: int) -> None:
        """
        Judge a grant that was not made before.
        """
        job, run = request.job, (request.slot, request.attempt)
        store_ms = self._store.time()
        if request.slot < (books.registered_ms or 0) - _REGISTRATION_MS_MAX:
            self.breaks(f"{job} {run} was granted, and is older than the job", job)
        if self._store.leases and run <= books.newest:
            self.breaks(f"{job} {run} was granted after {books.newest}", job)
        if request.slot in books.ended:
            self.breaks(f"{job} {run} was granted although it is {books.ended[request.slot]}", job)
        early_ms = request.slot - self._newest_store_ms
        if early_ms > EARLY_TOLERANCE_MS:
            self.breaks(f"{job} {run} was granted {early_ms} ms before its slot", job)
        if request.not_after_ms is not None and store_ms > request.not_after_ms:
            self.breaks(f"{job} {run} was granted after its sender had given it up", job)
        live = books.live
        if live is not None and self._store.leases:
            if not books.released and lease_now_ms < books.lease_until_ms:
                self.breaks(f"{job} {run} was granted while the lease of {live} held", job)
            if live[0] == run[0] and run[1] != live[1] + 1:
                self.breaks(f"{job} {run} was granted after attempt {live[1]}", job)
            self._closed_before(job, live)
        books.tokens[run] = request.token
        books.newest = max(books.newest, run)
        books.busy_us = self._now_us()
        books.live, books.released = run, False

    def _closed_before(self, job: str, run: Run) -> None:
        """
        The attempt that another one replaces is closed in the history by then.
        """
        view = self._store.memory.view(job, *run)
        if view is not None and view.status == "running":
            self.breaks(f"{job} {run} was replaced, and its record was left running", job)

    def _missed(self, books: JobBooks, request: ClaimRequest, answer: ClaimAnswer) -> None:
        if answer.previous_high is not None:
            after = max(answer.previous_high, answer.since_ms or 0)
            if after < request.slot:
                books.missed.append(Missed(after, request.slot, request.token))

    def _renewal(
        self,
        books: JobBooks,
        request: RenewRequest,
        answer: RenewAnswer,
        lease_now_ms: int,
        *,
        changed: bool,
    ) -> None:
        job, run = request.job, (request.slot, request.attempt)
        if answer.held:
            if books.live != run or books.released or books.tokens.get(run) != request.token:
                self.breaks(f"a renewal of {job} {run} was accepted, but live is {books.live}", job)
            books.lease_until_ms = lease_now_ms + request.lease_ms
        elif changed:
            self.breaks(f"a refused renewal of {job} {run} changed something", job)

    def _closing(
        self,
        books: JobBooks,
        request: FinishRequest | ReleaseRequest,
        answer: CloseAnswer,
        *,
        changed: bool,
    ) -> None:
        job, run = request.job, (request.slot, request.attempt)
        if not self._store.leases:
            return
        if books.tokens.get(run) != request.token and answer.accepted:
            self.breaks(f"{job} {run} was closed with a token that it never had", job)
        if not answer.accepted or books.live != run or books.released:
            if changed:
                self.breaks(
                    f"a {type(request).__name__} of {job} {run} changed something, but live is {books.live}",
                    job,
                )
            return
        books.busy_us = self._now_us()
        if isinstance(request, FinishRequest):
            books.ended[request.slot] = str(request.status)
            books.live = None
        elif request.takeover:
            books.released = True
            books.lease_until_ms = self._store.clock.suspend_ms()
        else:
            books.live = None

    def _high(self, books: JobBooks, job: str, high: int | None) -> None:
        if books.high is not None and (high is None or high < books.high):
            self.breaks(f"the high of {job} went back from {books.high} to {high}", job)
        if books.first_high is None:
            books.first_high = high
        books.high = high

    def _reign(self, books: JobBooks, after: JobState) -> None:
        known = books.reigns[-1] if books.reigns else None
        if known is not None and (known.fingerprint, known.since_ms) == (
            after.fingerprint,
            after.since_ms,
        ):
            known.high = after.high
        else:
            books.reigns.append(Reign(after.fingerprint, after.since_ms, after.high))

    # Handlers.

    def begins(self, job: str, run: Run, token: str, where: str) -> None:
        """
        Judge the beginning of a handler.
        """
        books = self.books(job)
        if run in books.begun:
            self.breaks(f"{job} {run} began on {where}, and on {books.begun[run]} before", job)
        if run <= books.newest_begun and self._store.leases:
            self.breaks(f"{job} {run} began on {where} after {books.newest_begun}", job)
        if books.tokens.get(run) != token:
            self.breaks(f"{job} {run} began on {where} without a grant", job)
        early_ms = run[0] - max(self._newest_store_ms, self._store.time())
        if early_ms > EARLY_TOLERANCE_MS:
            self.breaks(f"{job} {run} began on {where} {early_ms} ms before its slot", job)
        books.begun[run] = where
        books.newest_begun = max(books.newest_begun, run)

    def steps(self, job: str, run: Run, where: str) -> None:
        """
        Judge a step of an async handler: it must be the newest that has begun.
        """
        newest = self.books(job).newest_begun
        if self._store.leases and newest > run:
            self.breaks(f"{job} {run} took a step on {where} although {newest} has begun", job)

    # Words.

    def _note_claim(self, request: ClaimRequest, answer: ClaimAnswer, sender: str) -> None:
        why = "" if answer.reason is None else f" ({answer.reason})"
        self._trace.add(
            self._now_us(),
            "store",
            "store",
            f"{sender} claims {request.job} {request.slot}.{request.attempt}: {answer.verdict}{why}",
            request.job,
        )

    def _note_close(
        self, request: FinishRequest | ReleaseRequest, answer: CloseAnswer, sender: str
    ) -> None:
        what = request.status if isinstance(request, FinishRequest) else "release"
        said = "accepted" if answer.accepted else "refused"
        self._trace.add(
            self._now_us(),
            "store",
            "store",
            f"{sender} {what} {request.job} {request.slot}.{request.attempt}: {said}",
            request.job,
        )
