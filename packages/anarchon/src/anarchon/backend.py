"""
The protocol between anarchon and a store: what a backend is asked, and answers.

Implementations need not inherit from anything here. `specs/backend.md` is the
normative text; the names in brackets are its clauses. `anarchon.protocol` holds
the table of answers as pure functions, which a backend is free to use.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Literal, Protocol, Self, runtime_checkable

from anarchon.capabilities import Capabilities
from anarchon.errors import BackendError
from anarchon.records import Reason, RunRecord, Status

__all__ = [
    "EARLY_TOLERANCE_MS",
    "PROTOCOL_VERSION",
    "AnswerReason",
    "Backend",
    "ClaimAnswer",
    "ClaimRequest",
    "CloseAnswer",
    "FinishRequest",
    "LeaseBackend",
    "Overlap",
    "RegisterAnswer",
    "RegisterRequest",
    "ReleaseRequest",
    "RenewAnswer",
    "RenewRequest",
    "RunView",
    "Verdict",
]

PROTOCOL_VERSION = 1
"""
The version of this protocol; a backend that says another one is refused.
"""

EARLY_TOLERANCE_MS = 500
"""
How far ahead of the store's clock a slot may be claimed, in milliseconds.
"""

Overlap = Literal["skip", "wait"]


class Verdict(StrEnum):
    """
    What a store answers to a claim.

    A claim-only backend answers WON or TAKEN, and EARLY or LATE where it can
    tell; a lease backend never answers TAKEN.
    """

    WON = "won"
    TAKEN = "taken"
    RUNNING = "running"
    OVERLAP = "overlap"
    DONE = "done"
    NONE = "none"
    LATE = "late"
    EARLY = "early"


class AnswerReason(StrEnum):
    """
    Which of several ways led to DONE or LATE.
    """

    ENDED = "ended"
    GIVEN_UP = "given_up"
    EXPIRED = "expired"
    SUPERSEDED = "superseded"
    TOO_OLD = "too_old"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """
    An unfinished run as the store sees it: what a backup watches.

    ``remaining_ms`` is what is left of its lease by the store's clock; 0 says
    that the lease has run out or that the run was released.
    """

    slot: int
    attempt: int
    remaining_ms: int
    instance_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRequest:
    """
    Ask for attempt *attempt* of the run (*job*, *slot*).

    Args:
        job: The job's name.

        slot: Milliseconds since 1970.

        attempt: 1 is a first claim; n + 1 is the takeover of attempt n.

        token: A random value that belongs to this attempt and to no other.

        instance_id: A label for people; it never decides anything.

        lease_ms: How long the lease lasts, in milliseconds. 0 to a claim-only backend.

        not_after_ms: An instant on the store's clock; a claim that arrives later
            is answered LATE (expired), unless it had been granted before. None
            where the store tells no time.

        overlap: What happens while an older slot of the job is unfinished: "skip"
            records this slot as skipped, "wait" changes nothing.

        max_lateness_ms: Refuse a slot that is older than this by the store's clock.

        max_crashes: Give a run up when its runner has died this often.

        takeover: False closes a dead attempt without starting another.

        fingerprint: The schedule's fingerprint; None never counts as a change.

        zone_digests: The digests of the schedule's zone rules, as opaque text.
    """

    job: str
    slot: int
    attempt: int = 1
    token: str
    instance_id: str
    lease_ms: int = 0
    not_after_ms: int | None = None
    overlap: Overlap = "skip"
    max_lateness_ms: int | None = None
    max_crashes: int = 3
    takeover: bool = True
    fingerprint: str | None = None
    zone_digests: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimAnswer:
    """
    Say what became of a claim.

    Args:
        verdict: The answer.

        reason: Which way led to it, for DONE and LATE.

        store_now_ms: The store's wall clock; None where the store tells no time.

        high: The job's newest slot that was ever granted, skipped or registered.

        previous_high: With WON and with a recorded OVERLAP, the `high` that stood
            before: the slots between were missed, and whoever holds this answer
            reports them.

        since_ms: When the schedule last changed; nothing before it is ever missed.

        recorded: With OVERLAP, that the slot was recorded as skipped by this token.

        run: The run that is live, with every answer but WON; None if there is
            none. Whoever hears of it becomes a backup.

        wait_ms: With EARLY, how long to wait before asking again.
    """

    verdict: Verdict
    reason: AnswerReason | None = None
    store_now_ms: int | None = None
    high: int | None = None
    previous_high: int | None = None
    since_ms: int | None = None
    recorded: bool = False
    run: RunView | None = None
    wait_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RenewRequest:
    """
    Push the lease of an attempt forward: the heartbeat.

    ``started_ago_ms`` is how long ago the handler began, so that the store can
    date it by its own clock; None when it has not begun.
    """

    job: str
    slot: int
    attempt: int
    token: str
    lease_ms: int
    started_ago_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RenewAnswer:
    """
    Say whether the attempt is still the caller's.
    """

    held: bool
    store_now_ms: int
    high: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishRequest:
    """
    Close an attempt whose handler has ended.

    A lease backend takes SUCCESS and FAILED. A claim-only backend also takes
    INTERRUPTED, for a run in progress at stop: nothing can take it over there.
    ``token`` is the attempt's; ``started_ago_ms`` as in RenewRequest.
    """

    job: str
    slot: int
    attempt: int
    token: str
    status: Status
    reason: Reason | None = None
    error: str | None = None
    started_ago_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseRequest:
    """
    Hand an attempt over: any backup may start the next one at once.

    With ``takeover`` off the run is closed instead.
    """

    job: str
    slot: int
    attempt: int
    token: str
    takeover: bool = True
    started_ago_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseAnswer:
    """
    Say whether a finish or a release was accepted; refused, it changed nothing.
    """

    accepted: bool
    store_now_ms: int | None = None
    high: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterRequest:
    """
    Make a job known to the store.

    ``slot`` is the schedule's last slot at the time that the store told; None
    when its first slot is still to come.
    """

    job: str
    slot: int | None
    fingerprint: str | None = None
    zone_digests: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterAnswer:
    """
    Say what the store knew of the job.

    ``fingerprint`` and ``zone_digests`` are what stood there before; ``run`` is
    an unfinished run; ``new`` says that the job was unknown.
    """

    new: bool
    store_now_ms: int
    high: int | None = None
    since_ms: int | None = None
    fingerprint: str | None = None
    zone_digests: str | None = None
    run: RunView | None = None


@runtime_checkable
class Backend(Protocol):
    """
    One store, seen by one instance: what every backend offers.

    Every call takes a sequence and answers with one of the same length and
    order. An item's answer may be a BackendError, which concerns that item
    alone; a call that raises leaves every item's outcome unknown. An empty
    sequence costs no round trip. A call has ended by *timeout_ms*
    (milliseconds): it answers, or it raises StoreUnavailableError. Cancelling
    a caller leaves the backend usable, and each of its items wholly done or
    not done at all.

    A backend belongs to one event loop from open() to close(); clone() gives
    another one for another loop.
    """

    protocol_version: ClassVar[int]

    @property
    def capabilities(self) -> Capabilities:
        """
        What this backend promises. Known before open().
        """

    @property
    def service(self) -> str:
        """
        The store in words: server, version, where. Shown to people, without passwords.
        """

    def clone(self) -> Self:
        """
        Return an unopened backend to the same store, with its own connection.
        """

    async def open(self, *, timeout_ms: int) -> None:
        """
        Connect, check the server and prepare the store.

        Raises:
            StoreUnavailableError: The store did not answer; asking again may help.

            BackendError: The store refused; asking again will not help.

            BackendStateError: The backend is open already.
        """

    async def close(self) -> None:
        """
        End calls in flight and the connection. Closing twice is no error.
        """

    async def time(self, *, timeout_ms: int) -> int | None:
        """
        Tell the store's wall clock in milliseconds since 1970; None if it has none.

        It makes a round trip either way, so that it also tells whether the
        store answers.
        """

    async def claim(
        self, requests: Sequence[ClaimRequest], *, timeout_ms: int
    ) -> Sequence[ClaimAnswer | BackendError]:
        """
        Record that the caller executes these runs, unless they are taken.

        Each claim is one atomic step, judged by the store's own clock. The same
        token asked again gets the same answer.
        """

    async def finish(
        self, requests: Sequence[FinishRequest], *, timeout_ms: int
    ) -> Sequence[CloseAnswer | BackendError]:
        """
        Close attempts whose handlers have ended.

        Accepted once for the attempt's own token, and again when repeated.
        """

    async def history(self, job: str | None, *, limit: int, timeout_ms: int) -> Sequence[RunRecord]:
        """
        Return the newest records of one job, or of all, newest first.

        The order is by slot, then job, then attempt, each descending but the
        job. It needs no job to be registered.
        """


@runtime_checkable
class LeaseBackend(Backend, Protocol):
    """
    A backend that also keeps leases: takeover, no overlap, catch-up, hand-over.
    """

    async def register(
        self, requests: Sequence[RegisterRequest], *, timeout_ms: int
    ) -> Sequence[RegisterAnswer | BackendError]:
        """
        Make jobs known, and hear what the store knew of them.

        A new job gets its `slot` as `high`: it has missed nothing. A slot ahead
        of the store's clock is refused with a RequestError.
        """

    async def renew(
        self, requests: Sequence[RenewRequest], *, timeout_ms: int
    ) -> Sequence[RenewAnswer | BackendError]:
        """
        Push leases forward. Valid as long as nobody has taken the run over.
        """

    async def release(
        self, requests: Sequence[ReleaseRequest], *, timeout_ms: int
    ) -> Sequence[CloseAnswer | BackendError]:
        """
        Hand attempts over, their handlers having ended.
        """

    async def next_hint(
        self, runs: Sequence[tuple[str, int, int]], *, timeout_ms: int
    ) -> frozenset[str]:
        """
        Wait until one of the watched runs may have changed.

        *runs* are (job, slot, attempt). Returns the jobs to look at; empty at
        the timeout. A hint only shortens waiting: all may be lost. Only called
        when the capability is declared.
        """
