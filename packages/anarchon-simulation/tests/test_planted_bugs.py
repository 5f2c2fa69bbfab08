"""
Bugs planted one at a time, in the scheduler or in the store: the simulation finds each.

A rule that no planted bug breaks is not yet a check.
"""

from __future__ import annotations

import asyncio
import importlib
import sys
from collections.abc import Callable, Coroutine, Generator
from dataclasses import replace
from typing import Any

import pytest

from anarchon.backend import ClaimAnswer, Verdict
from anarchon.errors import StoreUnavailableError
from anarchon.memory import MemoryBackend
from anarchon.memory.store import MemoryStore
from anarchon.protocol import Now, claims, closing
from anarchon.scheduler import executor, lease_runner, leases, registering
from anarchon.scheduler.ending import Ending
from anarchon.scheduler.grants import Grants
from anarchon.scheduler.lease_runner import LeaseRunner
from anarchon.scheduler.leases import HeldLease
from anarchon.scheduler.ledger import LeaseLedger
from anarchon.scheduler.renewals import Renewals
from anarchon.scheduler.reports import Reports
from anarchon.scheduler.runs import ActiveRun
from anarchon.scheduler.timers import JobTimers
from anarchon_simulation.clocks import MachineClock
from anarchon_simulation.cluster import Cluster
from anarchon_simulation.drawing import draw_plan
from anarchon_simulation.instance import Instance
from anarchon_simulation.plan import Plan
from anarchon_simulation.scenario import run_plan
from anarchon_simulation.store import SimulatedStore

table: Any = importlib.import_module("anarchon.memory.lease")
"""
Where the memory store looks its decisions up.
"""

starting: Any = importlib.import_module("anarchon.scheduler.engine")
"""
Where a scheduler that starts looks its parts up.
"""

SEEDS_MAX = 400
"""
How many seeds a bug may take to be found.
"""

Patch = pytest.MonkeyPatch


# In the scheduler.


def lease_counted_from_the_reply(patch: Patch) -> None:
    """
    The lease is counted from when the answer came, not from when it was asked for.
    """
    settle, lease_of = Renewals._settle, Grants._lease

    def settle_late(self: Renewals, lease: HeldLease, answer: Any, _: int) -> None:
        settle(lease, answer, self._clock.suspend_ms())

    def lease_late(self: Grants, job: Any, pursuit: Any) -> HeldLease | None:
        pursuit.sent_ms = self._clock.suspend_ms()
        return lease_of(self, job, pursuit)

    patch.setattr(Renewals, "_settle", settle_late)
    patch.setattr(Grants, "_lease", lease_late)


def no_high_water_mark_in_catch_up(patch: Patch) -> None:
    """
    Catching up begins at the first slot that there ever was.
    """
    patch.setattr(lease_runner, "chase_from", lambda *_: -1)


def release_before_drain(patch: Patch) -> None:
    """
    stop() releases runs while their handlers still go on.
    """
    drain = Ending.drain
    asking: list[Any] = []

    async def release_first(self: Ending, *args: Any) -> None:
        if isinstance(self._ledger, LeaseLedger):
            for run in self._executor.runs:
                request = self._ledger._release_request(run)
                asking.append(asyncio.ensure_future(self._ledger._releases.ask(request)))
        await drain(self, *args)

    patch.setattr(Ending, "drain", release_first)


def timer_before_its_slot(patch: Patch) -> None:
    """
    A timer fires two seconds before its slot.
    """
    push = JobTimers._push

    def push_early(self: JobTimers, armed: Any) -> None:
        armed.fire_ms -= 2_000
        push(self, armed)

    patch.setattr(JobTimers, "_push", push_early)


class Ungated:
    """
    A gate that lets every step through.
    """

    def __init__(self, coroutine: Coroutine[Any, Any, Any], guard: object) -> None:
        self._coroutine = coroutine

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._coroutine.__await__()


def gate_left_out(patch: Patch) -> None:
    """
    A handler goes on after a freeze as if nothing had been.
    """
    patch.setattr(executor, "Gate", Ungated)


def no_self_fencing(patch: Patch) -> None:
    """
    Nobody looks at the lease when its fence falls.
    """
    patch.setattr(ActiveRun, "arm_fence", lambda *_: None)


def fence_after_the_lease(patch: Patch) -> None:
    """
    The fence falls a second after the lease has run out.
    """
    patch.setattr(leases, "fence_margin_ms", lambda _: -1_000)


def lease_on_a_clock_that_sleeps(patch: Patch) -> None:
    """
    A runner judges its lease by a clock that stands while its machine is suspended.
    """
    patch.setattr(MachineClock, "suspend_ms", lambda self: self.monotonic_us() // 1_000)


def token_reused(patch: Patch) -> None:
    """
    A process uses one token for all that it claims.
    """
    patch.setattr(Instance, "token", lambda self: f"{self.name}:{self.number}")


def error_taken_for_a_win(patch: Patch) -> None:
    """
    A claim whose answer did not come counts as won.
    """
    send = LeaseRunner._send

    async def send_bravely(self: LeaseRunner, pursuits: Any) -> Any:
        try:
            return await send(self, pursuits)
        except StoreUnavailableError:
            return [ClaimAnswer(verdict=Verdict.WON) for _ in pursuits]

    patch.setattr(LeaseRunner, "_send", send_bravely)


def backup_that_does_not_watch(patch: Patch) -> None:
    """
    Who loses a claim forgets the run.
    """
    patch.setattr(LeaseRunner, "_watch", lambda *_, **__: None)


def backup_that_trusts_hints(patch: Patch) -> None:
    """
    Who watches a run waits for word of it, where the store offers hints, and never looks by itself.
    """
    later = LeaseRunner._later

    def wait_for_word(self: LeaseRunner, view: Any, watch: Any, pause_ms: int) -> None:
        hints = self._backend.capabilities.hints
        later(self, view, watch, 3_600_000 if hints else pause_ms)

    patch.setattr(LeaseRunner, "_later", wait_for_word)


def registered_by_a_slow_clock(patch: Patch) -> None:
    """
    A job's last slot is taken at the instance's own time, where that is behind.
    """
    register = starting.register_jobs

    async def by_own_clock(*args: Any, store_ms: int, **options: Any) -> Any:
        loop: Any = asyncio.get_running_loop()
        own_ms = min(store_ms, loop._clock.wall_ms())
        return await register(*args, store_ms=own_ms, **options)

    patch.setattr(starting, "register_jobs", by_own_clock)


def zone_rules_told_blindly(patch: Patch) -> None:
    """
    Digests of a zone's rules are taken to differ wherever there are some.
    """
    patch.setattr(registering, "differing_years", lambda *_: ["2026"])


def miss_not_told(patch: Patch) -> None:
    """
    Nobody tells the slots that were missed.
    """
    patch.setattr(Reports, "missed", lambda *_: None)


def plain_function_begun_when_lost(patch: Patch) -> None:
    """
    A plain function that waited for a thread begins although its run is lost.
    """

    async def in_thread(self: executor.Executor, run: ActiveRun, call: Callable[[], Any]) -> Any:
        run.in_thread = True
        return await asyncio.get_running_loop().run_in_executor(self._pool, call)

    patch.setattr(executor.Executor, "_in_thread", in_thread)


def renewals_end_with_stop(patch: Patch) -> None:
    """
    stop() ends the renewals, and the lease of a plain function that goes on is never given back.
    """
    drain = Ending.drain

    async def forget(self: Ending, *args: Any) -> None:
        assert self._renewals is not None or not isinstance(self._ledger, LeaseLedger)
        await drain(self, *args)
        await asyncio.sleep((self._executor.runs and 10.0) or 0.0)

    patch.setattr(Ending, "drain", forget)


# In the store.


def no_high_water_mark(patch: Patch) -> None:
    """
    The store grants an old slot after a newer one.
    """
    decide = table.decide_claim

    def forgetful(state: Any, request: Any, now: Now) -> Any:
        if state is not None and state.high is not None and request.slot < state.high:
            state = replace(state, high=None)
        return decide(state, request, now)

    patch.setattr(table, "decide_claim", forgetful)


def old_attempt_left_open(patch: Patch) -> None:
    """
    A takeover does not close the attempt before in the history.
    """
    patch.setattr(claims, "_close", lambda *_: ())


def claim_granted_after_its_deadline(patch: Patch) -> None:
    """
    A claim that its sender has given up is granted.
    """
    decide = table.decide_claim
    patch.setattr(
        table,
        "decide_claim",
        lambda state, request, now: decide(state, replace(request, not_after_ms=None), now),
    )


def attempt_not_compared(patch: Patch) -> None:
    """
    Whoever claims a run whose lease is over wins it, whatever attempt it asked for.
    """
    decide = table.decide_claim

    def generous(state: Any, request: Any, now: Now) -> Any:
        live = None if state is None else state.live
        if live is not None and live.slot == request.slot and live.token != request.token:
            request = replace(request, attempt=live.attempt + 1)
        return decide(state, request, now)

    patch.setattr(table, "decide_claim", generous)


def lease_judged_by_the_callers_clock(patch: Patch) -> None:
    """
    The store believes what its caller says the time is.
    """
    clusters: list[Cluster] = []
    caller: list[str] = [""]
    begin, serve = Cluster.start, SimulatedStore.serve

    def start(self: Cluster, *args: Any) -> Any:
        clusters[:] = [self]
        return begin(self, *args)

    def serve_noting(self: SimulatedStore, method: str, requests: Any, sender: str) -> Any:
        caller[0] = sender
        return serve(self, method, requests, sender)

    def now(self: MemoryStore) -> Now:
        process = clusters[0].process(caller[0]) if clusters else None
        lease_ms = self.clock.suspend_ms()
        if process is not None:
            lease_ms += process.instance.clock.wall_ms() - self.clock.wall_ms()
        return Now(self.clock.wall_ms(), lease_ms)

    patch.setattr(Cluster, "start", start)
    patch.setattr(SimulatedStore, "serve", serve_noting)
    patch.setattr(MemoryStore, "now", now)


def finish_without_a_token(patch: Patch) -> None:
    """
    Whoever finishes the live run finishes it.
    """
    patch.setattr(closing, "_own", lambda state, _: None if state is None else state.live)


def release_that_keeps_the_token(patch: Patch) -> None:
    """
    A released run still knows its runner, which a doubled claim brings it back to.
    """
    decide = table.decide_release

    def keep(state: Any, record: Any, request: Any, now: Now) -> Any:
        change = decide(state, record, request, now)
        live = None if change.state is None else change.state.live
        if live is not None and live.token is None:
            kept = replace(live, token=request.token)
            change = replace(change, state=replace(change.state, live=kept))
        return change

    patch.setattr(table, "decide_release", keep)


def overlap_not_looked_at(patch: Patch) -> None:
    """
    A newer slot is granted while an older one goes on.
    """
    decide = table.decide_claim

    def blind(state: Any, request: Any, now: Now) -> Any:
        live = None if state is None else state.live
        if live is not None and live.slot < request.slot:
            state = replace(state, live=None)
        return decide(state, request, now)

    patch.setattr(table, "decide_claim", blind)


def history_oldest_first(patch: Patch) -> None:
    """
    The history begins with the oldest record.
    """
    history = MemoryBackend.history

    async def backwards(self: MemoryBackend, *args: Any, **options: Any) -> Any:
        return list(reversed(await history(self, *args, **options)))

    patch.setattr(MemoryBackend, "history", backwards)


BUGS = [
    lease_counted_from_the_reply,
    no_high_water_mark_in_catch_up,
    release_before_drain,
    timer_before_its_slot,
    gate_left_out,
    no_self_fencing,
    fence_after_the_lease,
    lease_on_a_clock_that_sleeps,
    token_reused,
    error_taken_for_a_win,
    backup_that_does_not_watch,
    backup_that_trusts_hints,
    registered_by_a_slow_clock,
    zone_rules_told_blindly,
    miss_not_told,
    plain_function_begun_when_lost,
    renewals_end_with_stop,
    no_high_water_mark,
    old_attempt_left_open,
    claim_granted_after_its_deadline,
    attempt_not_compared,
    lease_judged_by_the_callers_clock,
    finish_without_a_token,
    release_that_keeps_the_token,
    overlap_not_looked_at,
    history_oldest_first,
]


def seeds_until_found(first: Plan) -> tuple[int, str]:
    """
    Run a plan that was found before, then seeds, until a rule breaks; returns how many it took, and the rule.
    """
    for seed in range(SEEDS_MAX):
        outcome = run_plan(draw_plan(seed - 1) if seed else first)
        if not outcome.ok:
            return seed + 1, outcome.broken[0]
    return 0, "nothing"


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("plant", BUGS, ids=lambda plant: plant.__name__)
def test_planted_bug_is_found(
    plant: Callable[[Patch], None], monkeypatch: Patch, queued_plan: Plan
) -> None:
    """
    Each bug breaks a rule within a bounded number of seeds; `pytest -rP` shows how many it took.
    """
    plant(monkeypatch)

    seeds, rule = seeds_until_found(queued_plan)

    sys.stdout.write(f"{plant.__name__}: found after {seeds} seeds: {rule}\n")
    assert 0 < seeds
