"""
The store: the core's own table of answers, on a clock of its own, watched at each answer.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol, TypeVar

from anarchon.errors import BackendError
from anarchon.memory import MemoryBackend, MemoryClaimBackend, MemoryStore
from anarchon.protocol import JobState
from anarchon.records import RunRecord
from anarchon_simulation.clocks import MachineClock

__all__ = ["Observer", "SimulatedStore", "complete"]

T = TypeVar("T")


class Observer(Protocol):
    """
    Whoever watches the store's answers.
    """

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
        Hear of one request that was answered, and what it did to the job's state.
        """

    def looked(self, job: str | None, limit: int, records: Sequence[RunRecord]) -> None:
        """
        Hear of a look at the history, and what was shown.
        """


def complete(coroutine: Coroutine[Any, Any, T]) -> T:
    """
    Run a coroutine that never waits to its end.

    Raises:
        RuntimeError: It waits for something.
    """
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    coroutine.close()
    msg = "a coroutine of the store waits, which it must not"
    raise RuntimeError(msg)


class SimulatedStore:
    """
    One store for all instances.

    Args:
        clock: The store's clock.

        leases: A lease store; else one with claims alone.
    """

    def __init__(self, clock: MachineClock, *, leases: bool = True) -> None:
        self.clock = clock
        self.leases = leases
        self.memory = MemoryStore(clock=clock)
        self.observers: list[Observer] = []
        self._backend: Any = (
            MemoryBackend(self.memory) if leases else MemoryClaimBackend(self.memory)
        )
        complete(self._backend.open(timeout_ms=1))

    def serve(self, method: str, requests: Sequence[Any], sender: str) -> list[Any]:
        """
        Answer a batch, each item as if alone.
        """
        call = getattr(self._backend, method)
        return [self._serve_one(call, request, sender) for request in requests]

    def time(self) -> int:
        """
        Tell the wall clock, in milliseconds.
        """
        return self.clock.wall_ms()

    def history(self, job: str | None, limit: int) -> Sequence[RunRecord]:
        """
        Read the records, newest first.
        """
        records: Sequence[RunRecord] = complete(
            self._backend.history(job, limit=limit, timeout_ms=1)
        )
        for observer in self.observers:
            observer.looked(job, limit, records)
        return records

    def over(self, runs: Sequence[tuple[str, int, int]]) -> set[str]:
        """
        Find the jobs of which a watched run is not in progress any more.
        """
        found = set()
        for job, slot, attempt in runs:
            state = self.memory.states.get(job)
            live = None if state is None else state.live
            if live is None or live.token is None or (live.slot, live.attempt) != (slot, attempt):
                found.add(job)
        return found

    def watch(self, listener: Callable[[str], None]) -> Callable[[], None]:
        """
        Tell *listener* of jobs whose runs end; returns what ends the watch.
        """
        self.memory.listeners[listener] = None
        return lambda: self.memory.listeners.pop(listener, None)

    def _serve_one(self, call: Callable[..., Any], request: Any, sender: str) -> Any:
        before = self.memory.states.get(request.job)
        try:
            (answer,) = complete(call([request], timeout_ms=1))
        except BackendError as error:
            answer = error
        after = self.memory.states.get(request.job)
        for observer in self.observers:
            observer.answered(request, answer, before=before, after=after, sender=sender)
        return answer
