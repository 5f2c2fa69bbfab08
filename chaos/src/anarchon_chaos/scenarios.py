"""
The table of scenarios, as data: what runs, what is done to it, and what has to hold.
"""

from __future__ import annotations

from anarchon_chaos.history import Expectation
from anarchon_chaos.scenario import (
    ALIKE,
    HEARTBEAT_MS,
    LEASE_MS,
    PAST_LEASE_MS,
    STOP_TIMEOUT_MS,
    Instance,
    Load,
    Scenario,
)
from anarchon_chaos.server_steps import CountCalls
from anarchon_chaos.steps import (
    AwaitSlot,
    AwaitWork,
    Cut,
    Freeze,
    Kill,
    Leave,
    Pause,
    Roll,
    SetClock,
    Step,
    Witness,
)
from anarchon_chaos.store_scenarios import STORE_SCENARIOS
from anarchon_chaos.stores import STORES, StoreKind

__all__ = ["SCENARIOS", "cases", "scenario"]

_ON_SIBLINGS = ("crash", "cut-silent", "lost-reply-claim")
_ON_CLAIM_ONLY = (
    "deploy",
    "herd",
    "lost-reply-claim",
    "slow-latency",
    "store-crash",
)
_LEASES = frozenset({"leases"})
_NETWORK = frozenset({"network"})
_BOTH = _LEASES | _NETWORK

# The second attempt is still at work when the first one's runner is back.
_LONG_RUNS = (Load(name="long", count=8, work_ms=(12_000, 5_000)),)

_NO_TAKEOVER = Expectation(attempts_max=1, untold=("lost",))
_TAKEN_OVER = Expectation(attempts_max=2, takeovers_min=1)


def _cut(kind: str, says: str, *, bounded: bool = True) -> Scenario:
    return Scenario(
        name=f"cut-{kind}",
        says=f"{says}: the handler is cancelled before its lease ends, nothing overlaps, another goes on",
        needs=_BOTH,
        loads=_LONG_RUNS,
        steps=(AwaitWork(runs=8, ms=700), Cut(kind=kind, ms=PAST_LEASE_MS), Pause(ms=1_000)),
        expect=Expectation(attempts_max=2, takeovers_min=1, told=("lost", "outage", "recovered")),
        bounded=bounded,
    )


def _lost(
    name: str, says: str, *, steps: tuple[Step, ...], expect: Expectation, needs: frozenset[str]
) -> Scenario:
    work_ms = (2_500, 300) if name != "claim" else (400, 300)
    if name == "release":
        # Longer than the leaver waits for it; what another instance has won by chance still ends by itself.
        work_ms = (2 * STOP_TIMEOUT_MS, 300)
    return Scenario(
        name=f"lost-reply-{name}",
        says=says,
        needs=needs,
        loads=(Load(name="run", count=4, work_ms=work_ms),),
        steps=steps,
        expect=expect,
    )


def _slow(kind: str, says: str, *, bounded: bool = True) -> Scenario:
    return Scenario(
        name=f"slow-{kind}",
        says=f"{says}: no false takeover while renewals get through",
        needs=_NETWORK,
        loads=(Load(name="run", count=3, work_ms=(7_000, 300)),),
        steps=(
            AwaitSlot(ms=-1_500),
            Cut(kind=kind, who="all", ms=8_000, stalls=False),
            Pause(ms=500),
        ),
        expect=_NO_TAKEOVER,
        bounded=bounded,
    )


def _counted(step: Step) -> tuple[Step, ...]:
    # By default an instance asks for a slot at a random instant of its first two seconds.
    steps = (step, AwaitSlot(ms=3_000))
    return AwaitSlot(ms=-300), CountCalls(when="for the slot", steps=steps)


SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        name="calm",
        says="nothing is done, for longer than a lease: every run ends once, and nobody goes on with it",
        loads=(Load(name="run", count=6, work_ms=(300,)),),
        steps=(AwaitWork(runs=6), Pause(ms=PAST_LEASE_MS)),
        expect=Expectation(attempts_max=1, untold=("lost", "miss", "outage", "takeover")),
    ),
    Scenario(
        name="crash",
        says="taken over once, within the lease and two heartbeats; the history shows both attempts",
        needs=_LEASES,
        loads=(Load(name="long", count=10, work_ms=(9_000, 300)),),
        steps=(AwaitWork(runs=10, ms=700), Kill()),
        expect=_TAKEN_OVER,
    ),
    Scenario(
        name="freeze",
        says="taken over; the thawed runner takes no further step, and its finish changes nothing",
        needs=_LEASES,
        loads=_LONG_RUNS,
        steps=(AwaitWork(runs=8, ms=700), Freeze(ms=PAST_LEASE_MS), Pause(ms=2_000)),
        expect=Expectation(attempts_max=2, takeovers_min=1, told=("lost",)),
    ),
    Scenario(
        name="nap",
        says="a freeze within the lease costs nothing: the handler goes on, and nobody takes over",
        needs=_LEASES,
        loads=(Load(name="long", count=4, work_ms=(5_000, 300)),),
        steps=(AwaitWork(runs=4, ms=300), Freeze(ms=700)),
        expect=Expectation(attempts_max=1),
        bounded=False,
    ),
    Scenario(
        name="blocked-loop",
        says="a handler blocks its loop past three leases: told with the job's name, one run, no takeover",
        needs=_LEASES,
        loads=(
            Load(name="deaf", handler="block", work_ms=(LEASE_MS * 3 + 1_000, 300)),
            Load(name="beside", count=3, work_ms=(500, 300)),
        ),
        steps=(Witness(kind="loop blocked", job="deaf", ms_min=LEASE_MS * 3),),
        expect=Expectation(attempts_max=1, untold=("lost",), told=("block:deaf",)),
    ),
    Scenario(
        name="blocked-heartbeat",
        says="a handler blocks its loop past a heartbeat: told with the job's name, nothing else happens",
        needs=_LEASES,
        loads=(Load(name="deaf", handler="block", work_ms=(HEARTBEAT_MS * 3 // 2, 300)),),
        steps=(Witness(kind="loop blocked", job="deaf", ms_min=HEARTBEAT_MS),),
        expect=Expectation(attempts_max=1, untold=("lost",), told=("block:deaf",)),
        bounded=False,
    ),
    _cut("silent", "the wire goes silent"),
    _cut("half-open", "requests arrive and answers do not"),
    _cut("reset", "the connection is reset", bounded=False),
    _cut("down", "the connection is closed and a new one refused"),
    _lost(
        "claim",
        "one winner, and it knows: a claim whose answer was dropped is asked again with its token",
        needs=_NETWORK,
        steps=(AwaitSlot(ms=-300), Cut(kind="lost-reply", who="all", ms=1_100, stalls=False)),
        expect=Expectation(attempts_max=1),
    ),
    _lost(
        "renew",
        "a heartbeat without an answer is unknown, not lost: the handler goes on",
        needs=_BOTH,
        steps=(AwaitWork(runs=4, ms=200), Cut(kind="lost-reply", ms=1_100, stalls=False)),
        expect=_NO_TAKEOVER,
    ),
    _lost(
        "finish",
        "a finish is asked again with its token: the run ends once",
        needs=_NETWORK,
        steps=(AwaitSlot(ms=2_200), Cut(kind="lost-reply", who="all", ms=1_200, stalls=False)),
        expect=Expectation(attempts_max=1),
    ),
    _lost(
        "release",
        "a stop without answers ends in time, and another instance goes on",
        needs=_BOTH,
        steps=(
            AwaitWork(runs=4, ms=300),
            Leave(who="runner", losing_replies_after_ms=STOP_TIMEOUT_MS - 900),
        ),
        expect=Expectation(attempts_max=2, takeovers_min=1),
    ),
    _slow("latency", "answers take 150 to 350 ms"),
    _slow("sliced", "the wire passes a few bytes at a time", bounded=False),
    Scenario(
        name="slow-narrow",
        says="1 KB/s: whatever is lost by it, nothing overlaps, nothing runs twice at a time, deadlines hold",
        needs=_BOTH,
        loads=(Load(name="run", count=2, work_ms=(5_000, 300)),),
        steps=(
            AwaitWork(runs=2, ms=300),
            Cut(kind="narrow", ms=6_000, stalls=False),
            Pause(ms=500),
        ),
        expect=Expectation(attempts_max=2),
        bounded=False,
    ),
    Scenario(
        name="slow-crawl",
        says="answers take five seconds: as a cut",
        needs=_BOTH,
        loads=_LONG_RUNS,
        steps=(AwaitWork(runs=8, ms=700), Cut(kind="crawl", ms=PAST_LEASE_MS), Pause(ms=1_000)),
        expect=Expectation(attempts_max=2, takeovers_min=1, told=("lost", "outage")),
        bounded=False,
    ),
    Scenario(
        name="deploy",
        says="every instance is replaced every few seconds: every slot ran, or was handed over and went on",
        loads=(
            Load(name="tick", count=5, every_ms=1_000, work_ms=(200,)),
            Load(name="long", count=2, every_ms=4_000, work_ms=(1_500,)),
        ),
        instances=ALIKE,
        steps=(Pause(ms=1_500), Roll(rounds=1), Pause(ms=1_500)),
        expect=Expectation(complete=False),
    ),
    Scenario(
        name="herd",
        says="many processes and jobs in the same second: one winner each, nothing missed",
        loads=(Load(name="crowd", count=100, work_ms=(10,)),),
        instances=tuple(Instance(name=f"h{number}") for number in range(6)),
        steps=_counted(AwaitWork(runs=100)),
        expect=Expectation(attempts_max=1, untold=("miss",)),
        counts=True,
    ),
    Scenario(
        name="herd-20",
        says="20 processes and 200 jobs in the same second: one winner each, nothing missed",
        loads=(Load(name="crowd", count=200, work_ms=(10,)),),
        instances=tuple(Instance(name=f"h{number}") for number in range(20)),
        steps=_counted(AwaitWork(runs=200)),
        expect=Expectation(attempts_max=1, untold=("miss",)),
        counts=True,
        bounded=False,
    ),
    Scenario(
        name="clocks",
        says="instances ten minutes wrong, and one that steps back an hour: nothing early, nothing twice",
        needs=_LEASES,
        loads=(
            Load(name="tick", count=4, every_ms=1_000, work_ms=(30,)),
            Load(name="long", count=2, work_ms=(5_000,)),
        ),
        instances=(
            Instance(name="ahead", clock_ms=600_000),
            Instance(name="right"),
            Instance(name="stepping"),
            Instance(name="behind", clock_ms=-600_000),
        ),
        steps=(AwaitSlot(ms=1_500), SetClock(who="stepping", ms=-3_600_000), Pause(ms=5_000)),
        expect=Expectation(attempts_max=1, untold=("lost",), told=("clock:own",)),
    ),
    *STORE_SCENARIOS,
)


def scenario(name: str) -> Scenario:
    """
    Find a scenario by its name.

    Raises:
        KeyError: There is none, and these are.
    """
    for one in SCENARIOS:
        if one.name == name:
            return one
    raise KeyError(
        f"there is no scenario {name}; there are {', '.join(one.name for one in SCENARIOS)}"
    )


def cases(*, bounded: bool) -> list[tuple[Scenario, StoreKind]]:
    """
    Pair each scenario with each store that offers what it needs; of the bounded set alone, or all.
    """
    return [
        (one, store)
        for store in STORES
        for one in SCENARIOS
        if one.fits(store) and (not bounded or _is_bounded(one, store))
    ]


def _is_bounded(one: Scenario, store: StoreKind) -> bool:
    return (
        one.bounded
        and (not store.sibling or one.name in _ON_SIBLINGS)
        and (store.leases or one.name in _ON_CLAIM_ONLY)
    )
