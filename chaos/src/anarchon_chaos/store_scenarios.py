"""
The scenarios in which the store itself is harmed, refuses, or leaps in time; and faults at random.
"""

from __future__ import annotations

from anarchon_chaos.history import Expectation
from anarchon_chaos.mixing import RandomFaults
from anarchon_chaos.refusing import Refuse
from anarchon_chaos.scenario import (
    ALIKE,
    HEARTBEAT_MS,
    LEASE_MS,
    PAST_LEASE_MS,
    TICKS,
    Instance,
    Load,
    Scenario,
)
from anarchon_chaos.server_steps import (
    FailOver,
    FallBehind,
    FreezeServer,
    KillServer,
    StepStoreClock,
)
from anarchon_chaos.steps import AwaitSlot, AwaitWork, Pause, Roll

__all__ = ["STORE_SCENARIOS"]

_LEASES = frozenset({"leases"})
_NETWORK = frozenset({"network"})

# Forty for each of three instances, which have seven jobs: what each has to ask in a second of that load, what the
# sockets of a frozen server have held, and as much again. Seen were 13 to 67.
_CALLS_BACK_MAX = 120

# Three pumps (claims, renewals, finishes) try five times in the first second, and up to 14 times in thirty with their
# growing pauses, some with two connections each. Seen were 3 to 5, and 13 to 38; without pauses, 71 to 262 in a second.
_KNOCKS_1S_MAX = 40
_KNOCKS_30S_MAX = 120


def _server_killed(name: str, down_ms: int, *, knocks_max: int, bounded: bool) -> Scenario:
    return Scenario(
        name=name,
        says="the schedulers reconnect and go on by themselves; no finished slot runs again",
        needs=_NETWORK,
        loads=TICKS,
        instances=ALIKE,
        steps=(Pause(ms=2_500), KillServer(down_ms=down_ms), Pause(ms=4_000)),
        expect=Expectation(
            complete=False,
            told=("outage", "recovered"),
            settle_ms=6_000,
            calls_back_max=_CALLS_BACK_MAX,
            knocks_max=knocks_max,
        ),
        place="durable",
        counts=True,
        bounded=bounded,
    )


def _server_frozen(
    name: str, ms: int, expect: Expectation, *, ms_max: int | None = None, bounded: bool
) -> Scenario:
    return Scenario(
        name=name,
        says="as a cut, for all at once; everybody comes back by themselves",
        needs=_NETWORK,
        loads=(*TICKS, Load(name="long", count=3, work_ms=(6_000, 300))),
        instances=ALIKE,
        steps=(AwaitSlot(ms=1_500), FreezeServer(ms=ms, ms_max=ms_max), Pause(ms=4_000)),
        expect=expect,
        place="own",
        counts=True,
        bounded=bounded,
    )


_REFUSALS = (
    ("full", "no room"),
    ("read-only", "a store that became read-only"),
    ("no-rights", "a user whose rights were taken away"),
    ("password", "a login that is refused from now on"),
)

_CLOCK = _LEASES | frozenset({"clock"})

STORE_SCENARIOS: tuple[Scenario, ...] = (
    _server_killed("store-crash", 1_000, knocks_max=_KNOCKS_1S_MAX, bounded=True),
    _server_killed("store-crash-30s", 30_000, knocks_max=_KNOCKS_30S_MAX, bounded=False),
    _server_frozen(
        "store-freeze",
        1_000,
        Expectation(
            complete=False, attempts_max=1, settle_ms=6_000, calls_back_max=_CALLS_BACK_MAX
        ),
        ms_max=LEASE_MS - HEARTBEAT_MS,  # Who has renewed a heartbeat ago has as much left.
        bounded=False,
    ),
    _server_frozen(
        "store-freeze-past-lease",
        LEASE_MS + 2_000,
        Expectation(
            complete=False,
            told=("outage", "recovered"),
            settle_ms=6_000,
            calls_back_max=_CALLS_BACK_MAX,
        ),
        bounded=True,
    ),
    *(
        Scenario(
            name=f"refuses-{how}",
            says=f"{says}: told, retried, nobody starts without a claim on record, and all goes on when it is lifted",
            needs=frozenset({f"refuse:{how}"}),
            loads=TICKS,
            instances=ALIKE,
            steps=(Pause(ms=2_500), Refuse(how=how, ms=5_000), Pause(ms=4_000)),
            expect=Expectation(
                complete=False,
                told=("outage", "recovered"),
                quiet_after_ms=1_500,
                settle_ms=6_000,
            ),
            place="refusing",
            bounded=how in ("full", "no-rights"),
        )
        for how, says in _REFUSALS
    ),
    Scenario(
        name="store-clock-forward",
        says="the store's clock leaps an hour ahead: told; every lease is over for it, so that runs are taken over",
        needs=_CLOCK,
        loads=(Load(name="long", count=4, work_ms=(8_000, 300)),),
        steps=(AwaitWork(runs=4, ms=1_500), StepStoreClock(seconds=3_600), Pause(ms=4_000)),
        expect=Expectation(attempts_max=2, overlap=True, told=("clock:store",)),
        place="clock",
    ),
    Scenario(
        name="store-clock-back",
        says="the store's clock leaps an hour back: told; leases hold, and runs end once",
        needs=_CLOCK,
        loads=(Load(name="long", count=4, work_ms=(6_000, 300)),),
        steps=(AwaitWork(runs=4, ms=1_500), StepStoreClock(seconds=-3_600), Pause(ms=4_000)),
        expect=Expectation(attempts_max=1, told=("clock:store",)),
        place="clock",
        bounded=False,
    ),
    Scenario(
        name="fail-over",
        says="whoever leads the store's servers dies and another takes its place: the schedulers find it and go on",
        needs=frozenset({"group"}),
        loads=TICKS,
        instances=ALIKE,
        steps=(Pause(ms=2_500), FailOver(), Pause(ms=5_000)),
        expect=Expectation(
            complete=False, repeats=True, told=("outage", "recovered"), settle_ms=12_000
        ),
        place="group",
    ),
    Scenario(
        name="fail-over-standby",
        says="the primary dies, and the standby that each answer waited for is promoted: nothing answered is lost",
        needs=frozenset({"standby"}),
        loads=(*TICKS, Load(name="long", count=3, work_ms=(6_000, 300))),
        instances=ALIKE,
        steps=(AwaitSlot(ms=1_500), FailOver(), Pause(ms=5_000)),
        expect=Expectation(complete=False, told=("outage", "recovered"), settle_ms=6_000),
        place="group",
    ),
    Scenario(
        name="fail-over-behind",
        says="a standby that nobody waited for is promoted: what runs again is measured, nothing is promised",
        needs=frozenset({"standby"}),
        # Its claim is kept and its finish is not, which whoever starts after that takes for a runner that has died.
        loads=(*TICKS, Load(name="long", count=3, work_ms=(2_500, 300))),
        instances=ALIKE,
        steps=(AwaitSlot(ms=1_500), FallBehind(ms=3_000), FailOver(), Roll(), Pause(ms=2_000)),
        expect=Expectation(complete=False, repeats=True, overlap=True, settle_ms=6_000),
        place="behind",
        bounded=False,
    ),
    Scenario(
        name="store-amnesia",
        says="a server without durability forgets: what then runs again is measured, nothing is promised",
        needs=_NETWORK | frozenset({"refuse:full"}),
        # With leases, whoever watches over a run takes it up as one that nobody has had.
        loads=(*TICKS, Load(name="long", count=3, work_ms=(6_000, 300))),
        instances=ALIKE,
        steps=(AwaitSlot(ms=1_500), KillServer(down_ms=500), Pause(ms=4_000)),
        expect=Expectation(complete=False, repeats=True, overlap=True, settle_ms=6_000),
        place="own",
        bounded=False,
    ),
    Scenario(
        name="mixed",
        says="faults at random for half a minute, from a seed: every slot is accounted for",
        needs=_LEASES,
        loads=(
            Load(name="tick", count=3, every_ms=1_000, work_ms=(150,)),
            Load(name="long", count=2, every_ms=9_000, work_ms=(5_000, 1_000)),
        ),
        instances=tuple(Instance(name=name) for name in "abcde"),
        steps=(RandomFaults(ms=30_000, at_once=2), Pause(ms=PAST_LEASE_MS)),
        expect=Expectation(complete=False),
        place="durable",
    ),
    Scenario(
        name="mixed-20min",
        says="faults at random on twelve processes for twenty minutes, from a seed: every slot is accounted for",
        needs=_LEASES,
        loads=(
            Load(name="tick", count=6, every_ms=1_000, work_ms=(150,)),
            Load(name="long", count=4, every_ms=9_000, work_ms=(5_000, 1_000)),
        ),
        instances=tuple(Instance(name=name) for name in "abcdefghijkl"),
        steps=(RandomFaults(ms=1_200_000, at_once=3), Pause(ms=PAST_LEASE_MS)),
        expect=Expectation(complete=False, settle_ms=30_000),
        place="durable",
        bounded=False,
    ),
)
