"""
A backend whose line to the store can be cut, slowed, and made to lie about what happened.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

from anarchon import (
    PROTOCOL_VERSION,
    Backend,
    BackendError,
    Capabilities,
    ClaimAnswer,
    ClaimRequest,
    CloseAnswer,
    FinishRequest,
    RegisterAnswer,
    RegisterRequest,
    ReleaseRequest,
    RenewAnswer,
    RenewRequest,
    RunRecord,
)

__all__ = [
    "Action",
    "Call",
    "Faults",
    "FaultyBackend",
    "Served",
    "answer_late",
    "arrive_late",
    "fail",
    "fail_items",
    "hang",
    "lose_answer",
]


@dataclass(frozen=True, slots=True)
class Served:
    """
    What the store would do, once for each time it is called.
    """

    call: Callable[[], Coroutine[Any, Any, Any]]
    items: int

    async def __call__(self) -> Any:
        """
        Reach the store.
        """
        return await self.call()


Action: TypeAlias = Callable[[Served], Awaitable[Any]]


async def hang(_: Served) -> Any:
    """
    Never reach the store, and never answer.
    """
    await asyncio.Event().wait()


def fail(error: BaseException) -> Action:
    """
    Raise instead of reaching the store.
    """

    async def action(_: Served) -> Any:
        raise error

    return action


def lose_answer(error: BaseException) -> Action:
    """
    Reach the store, and raise instead of handing its answer on.
    """

    async def action(served: Served) -> Any:
        await served()
        raise error

    return action


def fail_items(error: BackendError) -> Action:
    """
    Answer every item with an error of its own, without reaching the store.
    """

    async def action(served: Served) -> Any:
        return [error] * served.items

    return action


def arrive_late(duration_s: float) -> Action:
    """
    Reach the store after a while, whether or not anybody still waits for the answer.
    """

    async def action(served: Served) -> Any:
        async def delayed() -> Any:
            await asyncio.sleep(duration_s)
            return await served()

        return await asyncio.shield(asyncio.ensure_future(delayed()))

    return action


def answer_late(duration_s: float) -> Action:
    """
    Reach the store at once, and answer after a while.
    """

    async def action(served: Served) -> Any:
        answers = await served()
        await asyncio.sleep(duration_s)
        return answers

    return action


@dataclass(frozen=True, slots=True)
class Call:
    """
    A call that was made: when (loop time in ms), over which connection, for how many items.
    """

    at_ms: int
    method: str
    connection: int
    items: int


class Faults:
    """
    What goes wrong between one instance and the store, on all of its connections.

    Attributes:
        down: While set, every call raises it.

        dead: The process is dead, or its network is: no call ever comes back.

        down_connections: Connections by number that are a black hole. 0 is the handlers'.
    """

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.down: BaseException | None = None
        self.dead = False
        self.down_connections: set[int] = set()
        self.connections = 0
        self._next: defaultdict[str, deque[Action]] = defaultdict(deque)
        self._always: dict[str, Action] = {}

    def next(self, method: str, *actions: Action) -> None:
        """
        Let the next calls of *method* go wrong, one after the other.
        """
        self._next[method].extend(actions)

    def always(self, method: str, action: Action | None) -> None:
        """
        Let every call of *method* go wrong from now on; None heals it.
        """
        if action is None:
            self._always.pop(method, None)
        else:
            self._always[method] = action

    def count(self, method: str) -> int:
        """
        Say how many calls of *method* were made.
        """
        return sum(call.method == method for call in self.calls)

    async def carry(self, connection: int, method: str, served: Served) -> Any:
        """
        Carry a call to the store, as well as it goes today.
        """
        at_ms = int(asyncio.get_running_loop().time() * 1_000 + 1e-3)
        self.calls.append(Call(at_ms, method, connection, served.items))
        if self.dead or connection in self.down_connections:
            return await hang(served)
        if self.down is not None:
            raise self.down
        queue = self._next[method]
        action = queue.popleft() if queue else self._always.get(method)
        return await (served() if action is None else action(served))


class FaultyBackend:
    """
    A verified backend behind a line with faults.
    """

    protocol_version: ClassVar[int] = PROTOCOL_VERSION

    def __init__(self, inner: Backend, faults: Faults) -> None:
        self.inner: Any = inner
        self.faults = faults
        self.connection = faults.connections
        faults.connections += 1

    @property
    def capabilities(self) -> Capabilities:
        """
        The same as the backend's behind.
        """
        capabilities: Capabilities = self.inner.capabilities
        return capabilities

    @property
    def service(self) -> str:
        """
        The same as the backend's behind.
        """
        return f"{self.inner.service}, with faults"

    def clone(self) -> FaultyBackend:
        """
        Another connection with the same faults.
        """
        return FaultyBackend(self.inner.clone(), self.faults)

    async def open(self, *, timeout_ms: int) -> None:
        """
        Connect.
        """
        await self._carry("open", 1, lambda: self.inner.open(timeout_ms=timeout_ms))

    async def close(self) -> None:
        """
        Disconnect.
        """
        await self._carry("close", 1, self.inner.close)

    async def time(self, *, timeout_ms: int) -> int | None:
        """
        Ask the time.
        """
        told: int | None = await self._carry(
            "time", 1, lambda: self.inner.time(timeout_ms=timeout_ms)
        )
        return told

    async def claim(
        self, requests: Sequence[ClaimRequest], *, timeout_ms: int
    ) -> Sequence[ClaimAnswer | BackendError]:
        """
        Claim.
        """
        return await self._ask("claim", requests, timeout_ms)

    async def finish(
        self, requests: Sequence[FinishRequest], *, timeout_ms: int
    ) -> Sequence[CloseAnswer | BackendError]:
        """
        Finish.
        """
        return await self._ask("finish", requests, timeout_ms)

    async def register(
        self, requests: Sequence[RegisterRequest], *, timeout_ms: int
    ) -> Sequence[RegisterAnswer | BackendError]:
        """
        Register.
        """
        return await self._ask("register", requests, timeout_ms)

    async def renew(
        self, requests: Sequence[RenewRequest], *, timeout_ms: int
    ) -> Sequence[RenewAnswer | BackendError]:
        """
        Renew.
        """
        return await self._ask("renew", requests, timeout_ms)

    async def release(
        self, requests: Sequence[ReleaseRequest], *, timeout_ms: int
    ) -> Sequence[CloseAnswer | BackendError]:
        """
        Release.
        """
        return await self._ask("release", requests, timeout_ms)

    async def next_hint(
        self, runs: Sequence[tuple[str, int, int]], *, timeout_ms: int
    ) -> frozenset[str]:
        """
        Wait for a hint.
        """
        hinted: frozenset[str] = await self._carry(
            "next_hint", len(runs), lambda: self.inner.next_hint(runs, timeout_ms=timeout_ms)
        )
        return hinted

    async def history(self, job: str | None, *, limit: int, timeout_ms: int) -> Sequence[RunRecord]:
        """
        Read the history.
        """
        records: Sequence[RunRecord] = await self._carry(
            "history", 1, lambda: self.inner.history(job, limit=limit, timeout_ms=timeout_ms)
        )
        return records

    async def _ask(self, method: str, requests: Sequence[Any], timeout_ms: int) -> list[Any]:
        call = getattr(self.inner, method)
        answers: list[Any] = await self._carry(
            method, len(requests), lambda: call(requests, timeout_ms=timeout_ms)
        )
        return answers

    async def _carry(
        self, method: str, items: int, call: Callable[[], Coroutine[Any, Any, Any]]
    ) -> Any:
        return await self.faults.carry(self.connection, method, Served(call, items))
