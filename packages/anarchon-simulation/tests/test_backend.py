"""
The simulated backend, and the way to its store.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

import pytest

from anarchon import BackendStateError, ClaimRequest, LeaseBackend, StoreUnavailableError
from anarchon_simulation.backend import SimulatedBackend
from anarchon_simulation.clocks import MachineClock
from anarchon_simulation.faults import Cut, Lossy, Outage, Slow
from anarchon_simulation.network import Network
from anarchon_simulation.store import SimulatedStore

Story = Callable[[SimulatedBackend], Coroutine[Any, Any, Any]]


class Shore:
    """
    A store, a network, and one instance.
    """

    def __init__(self, world: Any) -> None:
        self.world = world
        self.store = SimulatedStore(MachineClock(lambda: world.kernel.now_us))
        self.fired: Counter[str] = Counter()
        self.network = Network(world.kernel, Random(1), delay_ms=(10, 10), fired=self.fired)
        self.instance = world.instance()

    def tell(self, story: Story, *, for_s: float = 30.0) -> Any:
        """
        Run a story with an open backend, and return what came of it.
        """
        results: list[Any] = []

        async def main() -> None:
            backend = SimulatedBackend(self.world.kernel, self.store, self.network, "a", hints=True)
            await backend.open(timeout_ms=1_000)
            try:
                results.append(await story(backend))
            except Exception as error:  # noqa: BLE001 - the test looks at it
                results.append(error)

        self.world.begin(self.instance, main)
        self.world.pass_s(for_s)
        (result,) = results
        return result

    def claim(self, **options: Any) -> ClaimRequest:
        """
        Make a claim for a slot that is due now.
        """
        slot = self.store.time()
        named: dict[str, Any] = {
            "job": "j",
            "slot": slot,
            "token": "t",
            "instance_id": "a",
            "lease_ms": 3_000,
        }
        return ClaimRequest(**{**named, **options})


@pytest.fixture
def shore(world: Any) -> Shore:
    """
    Give a store and a way to it.
    """
    return Shore(world)


def test_it_is_a_lease_backend(shore: Shore) -> None:
    """
    The core's own check of the protocol takes it.
    """
    backend = SimulatedBackend(shore.world.kernel, shore.store, shore.network, "a")

    assert isinstance(backend, LeaseBackend)


def test_a_call_takes_a_way_there_and_back(shore: Shore) -> None:
    """
    Ten milliseconds each way, for open() and for the call.
    """

    async def story(backend: SimulatedBackend) -> Any:
        await backend.time(timeout_ms=1_000)
        return shore.world.now_s

    assert pytest.approx(0.04) == shore.tell(story)


def test_lost_request_times_out_and_changes_nothing(shore: Shore) -> None:
    """
    A request that never arrives ends in StoreUnavailableError, and the store has not heard of it.
    """

    async def story(backend: SimulatedBackend) -> Any:
        shore.network.suffer(Cut(at_ms=0, instance="a", duration_ms=5_000))
        return await backend.claim([shore.claim()], timeout_ms=1_000)

    assert isinstance(shore.tell(story), StoreUnavailableError)
    assert {} == shore.store.memory.states


def test_lost_reply_comes_after_the_effect(shore: Shore) -> None:
    """
    Only the reply is lost: the store has granted the run.
    """

    async def story(backend: SimulatedBackend) -> Any:
        shore.network.suffer(Cut(at_ms=0, instance="a", duration_ms=5_000, lost="replies"))
        return await backend.claim([shore.claim()], timeout_ms=1_000)

    assert isinstance(shore.tell(story), StoreUnavailableError)
    assert ["j"] == list(shore.store.memory.states)


def test_freezing_the_caller_does_not_stop_its_request(shore: Shore) -> None:
    """
    A request that has left arrives, whatever became of its sender.
    """

    async def story(backend: SimulatedBackend) -> Any:
        shore.world.kernel.after(5_000, shore.instance.freeze)
        shore.world.kernel.after(8_000_000, shore.instance.thaw)
        shore.world.kernel.after(1_000_000, lambda: seen.append(list(shore.store.memory.states)))
        return await backend.claim([shore.claim()], timeout_ms=60_000)

    seen: list[list[str]] = []
    (answer,) = shore.tell(story)

    assert "won" == answer.verdict
    assert [["j"]] == seen


def test_refusing_store_raises_at_once(shore: Shore) -> None:
    """
    A store that refuses connections is told from one that is silent.
    """

    async def story(backend: SimulatedBackend) -> Any:
        shore.network.suffer(Outage(at_ms=0, duration_ms=5_000, refuses=True))
        began_s = shore.world.now_s
        with pytest.raises(StoreUnavailableError, match="refused"):
            await backend.time(timeout_ms=1_000)
        return shore.world.now_s - began_s

    assert pytest.approx(0.02) == shore.tell(story)


def test_doubled_request_is_served_twice(shore: Shore) -> None:
    """
    The store hears a doubled request twice; its caller hears one answer.
    """

    async def story(backend: SimulatedBackend) -> Any:
        shore.network.suffer(Lossy(at_ms=0, duration_ms=5_000, doubled=100))
        return await backend.claim([shore.claim()], timeout_ms=1_000)

    (answer,) = shore.tell(story)

    assert "won" == answer.verdict
    assert 1 == shore.fired["doubled"]


def test_slow_way_is_slow(shore: Shore) -> None:
    """
    Delays are drawn up to the bound, for the instance that is named alone.
    """

    async def story(backend: SimulatedBackend) -> Any:
        shore.network.suffer(Slow(at_ms=0, duration_ms=60_000, delay_ms=1_000, instance="b"))
        began_s = shore.world.now_s
        await backend.time(timeout_ms=10_000)
        shore.network.suffer(Slow(at_ms=0, duration_ms=60_000, delay_ms=1_000, instance="a"))
        between_s = shore.world.now_s
        await backend.time(timeout_ms=10_000)
        return between_s - began_s, shore.world.now_s - between_s

    fast_s, slow_s = shore.tell(story)

    assert pytest.approx(0.02) == fast_s
    assert slow_s > fast_s


def test_hint_comes_when_a_run_ends(shore: Shore) -> None:
    """
    A watcher hears of a run that is over, and of nothing at the timeout.
    """

    async def story(backend: SimulatedBackend) -> Any:
        claim = shore.claim()
        await backend.claim([claim], timeout_ms=1_000)
        quiet = await backend.next_hint([("j", claim.slot, 1)], timeout_ms=100)
        other = await backend.next_hint([("j", claim.slot, 2)], timeout_ms=100)
        return quiet, other

    assert (frozenset(), frozenset({"j"})) == shore.tell(story)


def test_unopened_and_closed_backends_say_so(shore: Shore) -> None:
    """
    Use before open() and after close() is an error, and so is a second open().
    """

    async def story(backend: SimulatedBackend) -> Any:
        with pytest.raises(BackendStateError):
            await backend.open(timeout_ms=1_000)
        with pytest.raises(BackendStateError):
            await backend.clone().time(timeout_ms=1_000)
        await backend.close()
        with pytest.raises(BackendStateError):
            await backend.time(timeout_ms=1_000)
        return asyncio.get_running_loop().time()

    assert pytest.approx(0.02) == shore.tell(story)
