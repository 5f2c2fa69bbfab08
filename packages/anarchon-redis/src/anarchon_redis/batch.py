"""
A batch of requests: cut into pieces, sent in one round trip, answered item by item.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

from anarchon.errors import BackendError, RequestError, StoreRefusedError, StoreUnavailableError
from anarchon_redis.answers import packed
from anarchon_redis.keys import Keys
from anarchon_redis.operations import Operation, Plan
from anarchon_redis.requests import AnyRequest
from anarchon_redis.scripts import Script
from anarchon_redis.trouble import item_error
from anarchon_redis.wire import Piece, Wire

__all__ = ["PIECE_MAX", "Batches"]

PIECE_MAX = 32
"""
How many items one call of a script carries: a millisecond or two, in which nobody else is served.
"""

Request = TypeVar("Request", bound=AnyRequest)
Answer = TypeVar("Answer")
Item = TypeVar("Item")


class Batches:
    """
    Serves batches on one connection.

    Args:
        wire: The connection.

        plan: The strategy.

        keys: The keys of the prefix.

        where: The server in words.

        prepared: Turns a script into the one to run.
    """

    def __init__(
        self,
        wire: Wire,
        plan: Plan,
        keys: Keys,
        *,
        where: str,
        prepared: Callable[[Script], Script],
    ) -> None:
        self._wire = wire
        self._plan = plan
        self._keys = keys
        self._where = where
        self._prepared = prepared
        self._settings = json.dumps(plan.settings)
        self._indexed: set[str] = set()

    async def serve(
        self,
        operation: Operation[Request, Answer],
        requests: Sequence[Request],
        *,
        timeout_ms: int,
        replicas: tuple[int, int] | None = None,
    ) -> list[Answer | BackendError]:
        """
        Answer requests in their order.

        Args:
            operation: Their kind.

            requests: The batch.

            timeout_ms: When the call has ended.

            replicas: How many must have the writes, and how long to wait for them.
        """
        answers: dict[int, Answer | BackendError] = {}
        fit: list[tuple[int, Request]] = []
        for place, request in enumerate(requests):
            unfit = operation.check(request)
            if unfit is None:
                fit.append((place, request))
            else:
                answers[place] = unfit
        if fit:
            parts = self._parts(fit, lambda item: item[1].job)
            pieces = (self._piece(operation, [request for _, request in part]) for part in parts)
            told = await self._wire.bounded(
                lambda: self._run(pieces, fit, replicas), timeout_ms=timeout_ms
            )
            for part, (now_text, *items) in zip(parts, told, strict=True):
                for (place, request), item in zip(part, items, strict=True):
                    answers[place] = (
                        self._item_error(item[1], request.job, alone=len(fit) == 1)
                        if item[0] == "error"
                        else operation.read(request, item, int(now_text))
                    )
        return [answers[place] for place in range(len(requests))]

    async def changed(
        self, look: Script, runs: Sequence[tuple[str, int, int]], *, timeout_ms: int
    ) -> frozenset[str]:
        """
        Name the jobs whose watched run nobody executes any more.
        """
        if not runs:
            return frozenset()
        parts = self._parts(runs, lambda run: run[0])
        pieces = [
            Piece(
                self._prepared(look),
                [key for job, slot, _ in part for key in self._plan.keys(self._keys, job, slot)],
                [self._settings, *[packed([str(slot), str(number)]) for _, slot, number in part]],
            )
            for part in parts
        ]
        told = await self._wire.bounded(lambda: self._wire.run(pieces), timeout_ms=timeout_ms)
        return frozenset(
            job
            for part, answers in zip(parts, told, strict=True)
            for (job, _, _), answer in zip(part, answers[1:], strict=True)
            if answer == "changed"
        )

    async def _run(
        self,
        pieces: Iterable[Piece],
        items: Sequence[tuple[int, AnyRequest]],
        replicas: tuple[int, int] | None,
    ) -> list[Any]:
        if self._wire.cluster:
            # The index of jobs lies on a node of its own, out of a script's reach.
            new = sorted({request.job for _, request in items} - self._indexed)
            if new:
                names = [self._keys.encoded(job) for job in new]
                await self._wire.command("SADD", self._keys.index, *names)
                self._indexed.update(new)
        return await self._wire.run(pieces, wait=replicas)

    def _parts(self, items: Sequence[Item], job_of: Callable[[Item], str]) -> list[list[Item]]:
        """
        Cut a batch into what one call of a script may carry.

        In a Cluster that is one job: another one's keys may lie on another node.
        """
        groups: list[list[Item]] = [list(items)]
        if self._wire.cluster:
            jobs: dict[str, list[Item]] = {}
            for item in items:
                jobs.setdefault(job_of(item), []).append(item)
            groups = list(jobs.values())
        return [
            group[start : start + PIECE_MAX]
            for group in groups
            for start in range(0, len(group), PIECE_MAX)
        ]

    def _piece(self, operation: Operation[Request, Answer], requests: Sequence[Request]) -> Piece:
        keys = [
            key
            for request in requests
            for key in self._plan.keys(self._keys, request.job, request.slot)
        ]
        if not self._wire.cluster:
            keys.append(self._keys.index)
        fields = [packed(operation.fields(request)) for request in requests]
        return Piece(self._prepared(operation.script), keys, [self._settings, *fields])

    def _item_error(self, words: str, job: str, *, alone: bool) -> RequestError:
        """
        Return the error of an item; raise one that concerns the whole server.
        """
        error = item_error(words, job, self._where)
        if isinstance(error, RequestError):
            return error
        if isinstance(error, StoreRefusedError) and not alone:
            msg = f"{error}; a part of the batch may have been written"
            raise StoreUnavailableError(msg)
        raise error
