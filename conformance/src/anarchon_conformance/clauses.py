"""
The clauses that a backend is judged by: id, level, what they need, and one sentence.

`specs/backend.md` states the same sentences, with their reasons; a test keeps the two
alike. The table stands here because a wheel of the kit travels without the specs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

__all__ = ["CLAUSES", "NEEDS", "Clause", "Level", "family_of"]


class Level(StrEnum):
    """
    How much a clause weighs. SHOULD decides only when the kit runs strictly.
    """

    MUST = "MUST"
    SHOULD = "SHOULD"


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """
    One sentence that a backend is held to.

    ``needs`` names what has to be declared for the clause to apply.
    """

    id: str
    level: Level
    needs: tuple[str, ...]
    text: str


NEEDS = MappingProxyType(
    {
        "leases": "leases are not declared",
        "claim-only": "leases are declared",
        "memory": "claim_memory_ms is not declared",
        "clock": "store_clock is not declared",
        "hints": "hints are not declared",
        "processes": "the declared reach is one process",
        "proxy": "the profile has no proxy",
        "line": "the profile has no line that falls silent",
    }
)
"""
What a clause may need, and why it does not apply where that is missing.
"""


_ENTRY = re.compile(r"^([A-Z]{3}-\d+) (MUST|SHOULD) \[([a-z, -]*)\]\n((?:    .*\n)+)", re.MULTILINE)

_TABLE = """
LIF-1 MUST []
    A backend that is open refuses a second open() with a BackendStateError.
LIF-2 MUST []
    A call before open() or after close() raises a BackendStateError.
LIF-3 MUST []
    Closing twice is no error.
LIF-4 MUST []
    close() ends the calls in flight: each of them answers or raises a BackendError, and none
    hangs.
LIF-5 MUST []
    clone() returns an unopened backend to the same store whose life is its own.
LIF-6 MUST [clock]
    time() tells the store's clock in milliseconds, and every answer carries that same clock.
LIF-7 MUST []
    The backend is what its capabilities declare, speaks this version of the protocol, and says
    in words what it serves.
LIF-8 MUST [line]
    A call to a store that has fallen silent ends by its timeout, with a StoreUnavailableError
    if it was not answered.
LIF-9 MUST []
    close() while open() is under way ends it with a BackendStateError, and the backend is
    closed.
LIF-10 MUST []
    A backend whose open() was cancelled is unopened: open() may be called again.
LIF-11 MUST [line]
    An open() that finds its store silent ends by its timeout with a StoreUnavailableError, and
    may be called again.
BAT-1 MUST []
    A batch of mixed requests is answered in the order of the requests, each as if it were
    alone.
BAT-2 MUST []
    An item that cannot be served is answered with a BackendError in its place, and its
    neighbours are served.
BAT-3 MUST []
    An empty batch is answered empty, without a round trip.
BAT-4 MUST []
    Several claims for one run in one batch have one winner.
BAT-5 MUST [leases]
    Batches that name the same jobs in different orders never block each other.
BAT-6 SHOULD []
    A batch costs less time than its requests one at a time.
CLM-1 MUST []
    Among claims from many tasks and connections at once, exactly one token wins each run.
CLM-2 MUST []
    Among claims from event loops in several threads, exactly one token wins each run.
CLM-3 MUST [processes]
    Among claims from several processes, exactly one token wins each run.
CLM-4 MUST []
    A claim that is repeated with its own token is won again, with the same previous high.
CLM-5 MUST []
    A claim that loses changes nothing: the winner's record and its rights stay as they were.
CLM-6 MUST []
    A finished slot stays finished: no new token ever wins it.
CLM-7 MUST []
    Pruning old records never lets an old slot be won again.
CLM-8 MUST [leases]
    The answer won carries the high that stood before, so that its holder can tell which slots
    were missed.
LAT-1 MUST [leases]
    A slot older than the newest one is late (superseded), whether it was ever claimed or not.
LAT-2 MUST [leases]
    A slot older than max_lateness by the store's clock is late (too old), and nothing changes.
LAT-3 MUST [clock]
    A claim that arrives after its not_after is late (expired) and changes nothing.
LAT-4 MUST [clock]
    A repeated claim that had been granted is won again even after its not_after.
LAT-5 MUST [clock]
    A slot more than 500 ms ahead of the store's clock is early, with the wait, and changes
    nothing.
LAT-6 MUST [clock, processes]
    An instance whose clock is ten minutes off gets the same answers as every other one.
LAT-7 MUST [clock]
    A slot up to 500 ms ahead of the store's clock is granted.
LAT-8 MUST [leases]
    A skip repeated with its own token is overlap again even after its not_after, with the same
    range.
TKO-1 MUST [leases]
    A claim for a run whose lease holds is answered running, with its slot, attempt, remaining
    lease and label.
TKO-2 MUST [leases]
    Of many takers of a run whose lease has run out, exactly one wins the next attempt.
TKO-3 MUST [leases]
    A takeover compares the attempt: only attempt n + 1 can take over attempt n.
TKO-4 MUST [leases]
    A lease holds at least as long as it was asked for.
TKO-5 MUST [leases]
    A takeover closes the record of the old attempt as interrupted (lease expired) and opens its
    own.
TKO-6 MUST [leases]
    A released run can be taken over at once.
TKO-7 MUST [leases]
    A run whose runners died max_crashes times is given up: done, interrupted (max crashes), and
    nothing is live.
TKO-8 MUST [leases]
    Hand-overs are not counted as crashes.
TKO-9 MUST [leases]
    Crashes are counted for each run: the next slot starts from zero.
TKO-10 MUST [leases]
    With takeover off a dead run is given up: done, interrupted (takeover off), and not started
    again.
TKO-11 MUST [leases]
    A takeover of a run that the store does not know is answered none, and changes nothing.
TKO-12 MUST [leases]
    A takeover carries the previous high of the run's first attempt.
TKO-13 MUST [leases, processes]
    A run whose process was killed is taken over from another process.
TKO-14 MUST [leases]
    Every answer to a claim but won names the run that is live, if there is one.
OVL-1 MUST [leases]
    With overlap skip, a slot that comes due while an older run goes on is recorded as skipped,
    once, and becomes high.
OVL-2 MUST [leases]
    A skip repeated with its own token is answered as the first time; any other token hears
    done.
OVL-3 MUST [leases]
    With overlap wait nothing is recorded and high stays, until the older run has ended.
OVL-4 MUST [leases]
    The answer overlap names the run in the way, with remaining 0 once its lease has run out.
OVL-5 MUST [leases]
    A later slot wins over an older run whose lease has run out, and closes it as interrupted
    (superseded).
OVL-6 MUST [leases]
    A later slot wins over an older run that was released.
OVL-7 MUST [leases]
    Two slots of one job that are claimed at the same instant are never both live.
OVL-8 MUST [leases]
    The older run goes on undisturbed while later slots are skipped.
OVL-9 MUST [leases]
    The takeover of a run that a later slot has superseded is late.
RNW-1 MUST [leases]
    A renewal gives the lease its whole length again, counted from now.
RNW-2 MUST [leases]
    A renewal is valid after the lease has run out, as long as nobody has taken over.
RNW-3 MUST [leases]
    A renewal with another token, attempt or slot, or of an unknown job, is refused and changes
    nothing.
RNW-4 MUST [leases]
    A renewal of a run that has ended is refused.
RNW-5 MUST [leases]
    A repeated claim gives the lease its whole length again.
RNW-6 MUST [leases]
    A renewal that is repeated is answered as the first time.
FIN-1 MUST []
    A finish with success or failed closes the attempt, and its record tells how it ended.
FIN-2 MUST [leases]
    A finish with any other status is refused with an error, and changes nothing.
FIN-3 MUST []
    A finish repeated with its own token is accepted again, and the record stays as it was.
FIN-4 MUST []
    A finish with another token is refused and changes nothing.
FIN-5 MUST [leases]
    A finish is valid after the lease has run out, as long as nobody has taken over.
FIN-6 MUST [leases]
    After a finish nothing of the job is live: the next slot wins without waiting for a lease.
REL-1 MUST [leases]
    A release closes the record as interrupted (handed over).
REL-2 MUST [leases]
    A release takes the token away: a renewal, claim or finish with it is refused.
REL-3 MUST [leases]
    A release repeated with its own token is accepted again, and changes nothing, also after a
    takeover.
REL-4 MUST [leases]
    A release with takeover off closes the run.
REL-5 MUST [leases]
    A release with another token is refused and changes nothing.
REG-1 MUST [leases]
    A new job gets the registered slot as its high: it has missed nothing.
REG-2 MUST [leases]
    A slot ahead of the store's clock is refused with an error, and the job stays unknown.
REG-3 MUST [leases]
    A job registered without a slot is known from then on, with an empty high.
REG-4 MUST [leases]
    Registering a known job moves no high, and tells the high and the unfinished run.
REG-5 MUST [leases]
    A registration tells the fingerprint and zone digests that stood before, and writes the
    given ones.
REG-6 MUST [leases]
    A fingerprint that replaces another sets since to the store's clock; the same one, or none,
    does not.
REG-7 MUST [leases]
    A grant writes its fingerprint, and sets since when it replaces another.
REG-8 MUST [leases]
    Zone digests alone never set since.
REG-9 MUST [leases]
    Among registrations of one job at once, exactly one hears that it is new.
REG-10 MUST [leases]
    Every answer to a claim carries high and since.
FNC-1 MUST [leases]
    Once attempt n + 1 is granted, a renewal of attempt n is refused and changes nothing.
FNC-2 MUST [leases]
    Once attempt n + 1 is granted, a finish of attempt n is refused and changes nothing.
FNC-3 MUST [leases]
    Once attempt n + 1 is granted, a release of attempt n is refused and changes nothing.
FNC-4 MUST [leases]
    A late copy of an old claim is never granted.
FNC-5 MUST []
    Only the token decides: a claim with the same instance id and another token is a stranger's.
FNC-6 MUST [leases]
    Once a later slot has superseded a run, nothing that its old token sends is accepted.
FNC-7 MUST [leases]
    When work outlasts its lease, exactly one result of each run is accepted, and the history
    tells whose.
HIS-1 MUST []
    There is one record for each attempt, with job, slot, attempt, instance id and status.
HIS-2 MUST []
    Times are aware datetimes in UTC with whole milliseconds, by the store's clock where it has
    one.
HIS-3 MUST []
    The start of a handler is dated from started_ago_ms of a renewal or a finish.
HIS-4 MUST []
    The history comes newest first, by slot, then job ascending, then attempt descending, within
    the limit.
HIS-5 MUST []
    An error of any text is stored whole or as `storable_error` writes it, and never fails a
    finish.
HIS-6 MUST []
    A record that has ended never changes.
HIS-7 MUST []
    Records beyond the retention are pruned, the oldest first.
HIS-8 MUST []
    The record of an unfinished attempt is never pruned.
HIS-9 MUST []
    The history of a job that nobody has heard of is empty.
HIS-10 MUST []
    Records whose end is longer ago than the retention's age are pruned as the job goes on.
NAM-1 MUST []
    Jobs whose names differ only in case, punctuation, Unicode form, blanks or length never
    touch each other.
NAM-2 MUST []
    A name that is too long is an error or is kept whole, never cut.
NAM-3 MUST []
    Two namespaces of one store share nothing.
NAM-4 MUST []
    Instance ids of any text come back as they were.
NAM-5 MUST []
    Slots that are one millisecond apart are two runs.
CAN-1 MUST []
    A claim that is cancelled at any await is wholly made or not made, and asking again tells.
CAN-2 MUST []
    A finish that is cancelled at any await is wholly made or not made, and asking again
    succeeds.
CAN-3 MUST [leases]
    The same holds for renewals, releases and registrations.
CAN-4 MUST []
    Cancelling one caller leaves the backend usable, and the other callers' requests alone.
CAN-5 MUST [proxy]
    A request that is lost before the store, or whose reply is lost after it, ends in time and
    can be asked again.
CAN-6 MUST [leases, proxy]
    The same holds for renewals, releases and registrations.
GRW-1 MUST []
    Ten thousand runs of one job leave at most twice the retention and one batch of records.
HNT-1 MUST [leases, hints]
    A release wakes a watcher of the run.
HNT-2 MUST [leases, hints]
    A finish wakes a watcher of the run.
HNT-3 MUST [leases, hints]
    A run that has changed already is told at once.
HNT-4 MUST [leases, hints]
    A watch ends at its timeout, and tells of no job that is not watched.
CLO-1 MUST [claim-only]
    A claim is won or taken.
CLO-2 MUST [claim-only]
    A finish as interrupted is accepted, and recorded as interrupted (stopped).
CLO-3 MUST [claim-only]
    A slot older than the store's memory of claims is late (too old), never granted.
CLO-4 MUST [claim-only]
    Only attempt 1 is ever granted: a slot is executed at most once.
CLO-5 MUST [claim-only, memory]
    A slot within the declared memory of claims is granted, and one beyond it is late (too old).
CLO-6 MUST [claim-only]
    A slot that is older than a granted one is late (too old) where rising slots are declared,
    and granted elsewhere.
TBL-1 MUST [leases]
    Every answer to any sequence of requests is the one that the table of answers gives.
TBL-2 MUST [claim-only]
    Every answer to any sequence of requests is the one that the claim-only rules give.
"""


def _read(table: str) -> dict[str, Clause]:
    """
    Read the table above: a head line for each clause, its sentence indented below.
    """
    return {
        entry[1]: Clause(
            id=entry[1],
            level=Level(entry[2]),
            needs=tuple(need for need in entry[3].split(", ") if need),
            text=" ".join(entry[4].split()),
        )
        for entry in _ENTRY.finditer(table)
    }


CLAUSES = MappingProxyType(_read(_TABLE))
"""
Every clause by its id, in the order in which they are reported.
"""


def family_of(clause_id: str) -> str:
    """
    Return the family of a clause: CLM of CLM-3.
    """
    return clause_id.partition("-")[0]
