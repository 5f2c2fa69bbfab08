"""
What one scenario left behind, in one value: the evidence, the faults, and what the store says.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from anarchon import RunRecord
from anarchon_chaos.evidence import Mark, Told

__all__ = [
    "BACK",
    "MS",
    "STEP_MS",
    "Body",
    "Count",
    "Exit",
    "Expectation",
    "Fault",
    "History",
    "bodies",
    "overlaps",
    "takeovers",
]

MS = 1_000_000
BACK = "in the first second after the store was back"
"""
When the calls are counted that a stampede would be made of.
"""

STEP_MS = 50
"""
How often a body writes a step.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """
    One thing that was done, to whom, from when to when (ns), and how often it was seen to bite.

    ``target`` is an instance's name, or "store". ``stalls`` is true where the target cannot renew leases meanwhile;
    ``arrives`` where it cannot know that it does: its requests are carried out, until its handler is cancelled.
    ``sure_ns`` is when it bit at the latest, where it takes a while to bring about: until then something may have got
    through. ``lost_ns`` is when a store has lost what it had acknowledged and not kept: nothing was acknowledged from
    the fault's beginning until then. None where nothing can be lost. ``knocks`` counts, by instance, the connections
    that were tried while the store's server was gone, where the proxies tell that.
    """

    kind: str
    target: str
    since_ns: int
    until_ns: int
    bites: int
    stalls: bool = True
    arrives: bool = False
    sure_ns: int | None = None
    lost_ns: int | None = None
    knocks: Mapping[str, int] = field(default_factory=dict)

    @property
    def stalled_ns(self) -> int:
        """
        From when on nothing got through.
        """
        return self.since_ns if self.sure_ns is None else self.sure_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """
    How a process ended that was asked to: its status (None: not in time), and how long it took.
    """

    instance: str
    status: int | None
    took_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """
    How many calls reached the store's server, by what was called, and when that was; for how long they were counted,
    where that was to be a second.
    """

    when: str
    calls: Mapping[str, int]
    ms: int = 1_000

    @property
    def total(self) -> int:
        """
        How many there were in all.
        """
        return sum(self.calls.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """
    What has to hold beside the invariants.

    Args:
        complete: Every slot has a body that came to its end; else to be accounted for is enough.

        attempts_max: How many attempts a run may have.

        takeovers_min: How many takeovers there are at least.

        repeats: The store was allowed to forget at its faults' ``lost_ns``: what had started before that may start
            once more after it.

        told: Event types that instances told of, as "type" or "type:job" or "type:words in it".

        untold: Event types that nobody told of.

        overlap: Two bodies may be at work at once: nobody can prevent it when the store's clock leaps.

        settle_ms: How long to wait for the slots after the last fault.

        calls_back_max: How many calls may reach the store in its first second after a fault, and in each that it took
            longer to count them.

        knocks_max: How many connections each instance may try while the store's server is gone.

        quiet_after_ms: Nobody starts between this long after a fault of the store begins and its end.
    """

    complete: bool = True
    attempts_max: int | None = None
    takeovers_min: int = 0
    repeats: bool = False
    told: tuple[str, ...] = ()
    untold: tuple[str, ...] = ()
    overlap: bool = False
    settle_ms: int = 15_000
    calls_back_max: int | None = None
    knocks_max: int | None = None
    quiet_after_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """
    Everything that is known of one scenario on one store after it. Instants are on the clock of the evidence, in
    ns; ``begun_wall_ms`` is what the wall clock said at its beginning. ``swallowed`` counts, by instance, the bytes
    that a wire took in and did not pass on, for those whose wire was to do so.
    """

    scenario: str
    store: str
    leases: bool
    lease_ms: int
    heartbeat_ms: int
    stop_timeout_ms: int
    begun_ns: int
    ended_ns: int
    expect: Expectation
    marks: Sequence[Mark]
    told: Sequence[Told] = ()
    records: Sequence[RunRecord] = ()
    faults: Sequence[Fault] = ()
    deaths: Mapping[int, int] = field(default_factory=dict)
    exits: Sequence[Exit] = ()
    slots: Sequence[tuple[str, int]] = ()
    begun_wall_ms: int = 0
    swallowed: Mapping[str, int] = field(default_factory=dict)
    counts: Sequence[Count] = ()

    @property
    def bound_ms(self) -> int:
        """
        Within what time of a runner's last renewal somebody else goes on: the lease and two heartbeats.
        """
        return self.lease_ms + 2 * self.heartbeat_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """
    One attempt as its handler wrote it.

    ``until_ns`` is until when it can have been at work: its end, its cancellation, the death of its process, or when
    the step after the last one that it has written was due. ``outcome`` is "ended", "cancelled", "died" or "unknown".
    """

    job: str
    slot: int
    attempt: int
    instance: str
    pid: int
    since_ns: int
    until_ns: int
    outcome: str

    @property
    def run(self) -> tuple[str, int]:
        """
        Which run it belongs to.
        """
        return self.job, self.slot

    def __str__(self) -> str:
        return f"{self.job} slot {self.slot} attempt {self.attempt} on {self.instance}"


def bodies(history: History) -> list[Body]:
    """
    Put the lines of each attempt together, in the order of their starts.
    """
    grouped: dict[tuple[str, int, int, int], list[list[Mark]]] = defaultdict(list)
    for mark in history.marks:
        starts = grouped[mark.job, mark.slot, mark.attempt, mark.pid]
        if mark.what == "start" or not starts:
            starts.append([])
        starts[-1].append(mark)
    found = [_body(lines, history) for starts in grouped.values() for lines in starts if lines]
    return sorted(found, key=lambda body: body.since_ns)


def _body(lines: Sequence[Mark], history: History) -> Body:
    first, last = lines[0], lines[-1]
    until_ns, outcome = last.at_ns, "unknown"
    if last.what == "end":
        outcome = "ended"
    elif last.what == "cleanup":
        outcome = "cancelled"
    elif (death_ns := history.deaths.get(first.pid)) is not None:
        until_ns, outcome = max(until_ns, death_ns), "died"
    if outcome != "ended":
        # A body that takes no step is not at work: it was frozen, or held until the store had spoken.
        worked_ns = max((mark.at_ns for mark in lines if mark.what != "cleanup"), default=until_ns)
        until_ns = min(until_ns, worked_ns + STEP_MS * MS)
    return Body(
        job=first.job,
        slot=first.slot,
        attempt=first.attempt,
        instance=first.instance,
        pid=first.pid,
        since_ns=first.at_ns,
        until_ns=until_ns,
        outcome=outcome,
    )


def overlaps(found: Iterable[Body]) -> list[tuple[Body, Body, float]]:
    """
    Give each pair of bodies of one job that were at work at the same time, and for how many milliseconds.
    """
    pairs = []
    last: dict[str, Body] = {}
    for body in found:
        before = last.get(body.job)
        if before is not None and body.since_ns < before.until_ns:
            both_ns = min(body.until_ns, before.until_ns) - body.since_ns
            pairs.append((before, body, both_ns / MS))
        if before is None or body.until_ns > before.until_ns:
            last[body.job] = body
    return pairs


def takeovers(history: History, found: Sequence[Body]) -> list[tuple[Body, Body, float | None]]:
    """
    Give each attempt with the one that went on, and how long after its runner was stalled that began, in milliseconds.

    None stands where no fault on the runner alone stalled it: a hand-over, or a store that was gone for everybody.
    """
    by_run: dict[tuple[str, int], dict[int, Body]] = defaultdict(dict)
    for body in found:
        by_run[body.run].setdefault(body.attempt, body)
    given = []
    for attempts in by_run.values():
        for attempt, after in sorted(attempts.items()):
            before = attempts.get(attempt - 1)
            if before is None:
                continue
            causes = [
                fault
                for fault in history.faults
                if fault.stalls
                and fault.target == before.instance
                and before.since_ns <= fault.since_ns <= after.since_ns
            ]
            stalled = [
                max(fault.stalled_ns, before.until_ns) if fault.arrives else fault.stalled_ns
                for fault in causes
            ]
            # Who is frozen or cut off too cannot take over, so that the bound says nothing.
            disturbed = any(
                fault not in causes
                and fault.kind != "stop"
                and fault.since_ns <= after.since_ns
                and fault.until_ns >= before.since_ns
                for fault in history.faults
            )
            took_ms = None
            if stalled and not disturbed:
                took_ms = (after.since_ns - min(stalled)) / MS
            given.append((before, after, took_ms))
    return given
