"""
Removing what nobody needs any more: ended runs beyond the retention whose slots are too old to be claimed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from anarchon.errors import BackendError, StoreUnavailableError
from anarchon.records import Retention
from anarchon_nats.history import Kept, kept_of
from anarchon_nats.instants import ServerTime, instant_ms
from anarchon_nats.options import Options
from anarchon_nats.stream import Stream
from anarchon_nats.subjects import Subjects
from anarchon_nats.wire import Wire

__all__ = ["Pruner", "prunable"]

logger = logging.getLogger("anarchon")

_LEAST_TURN = 64
_MOST_TURN = 4_096
_PIECE = 128
_TIMEOUT_MS = 30_000


def prunable(
    kept: Kept, retention: Retention, *, safe_until: int, aged_until: int | None
) -> tuple[list[int], list[int]]:
    """
    Say which ended runs of a job can go.

    Args:
        kept: The job's slots.

        retention: How many records it may have.

        safe_until: The newest slot that no instance can be granted any more.

        aged_until: The newest slot that can have ended too long ago; None keeps any age.

    Returns:
        Those beyond the count, and those that go if their end says that it is too long ago.
        A run that nobody has ended is in neither.
    """
    beyond = [slot for slot in kept.ended[retention.records_per_job :] if slot <= safe_until]
    if aged_until is None:
        return beyond, []
    bound = min(safe_until, aged_until)
    return beyond, [slot for slot in kept.ended[: retention.records_per_job] if slot <= bound]


class Pruner:
    """
    Prunes a job now and then, beside the calls of the backend.

    Each instance counts the runs that it wins of a job: the first one, and then every so many,
    has the job looked at. A job that goes on is bounded by that, whoever runs it.

    Args:
        wire: The connection.

        stream: The stream.

        subjects: The names.

        options: What the user wants.

        time: What is known of the server's clock.

        fresh: Looks at the server's clock if that is due.
    """

    def __init__(
        self,
        *,
        wire: Wire,
        stream: Stream,
        subjects: Subjects,
        options: Options,
        time: ServerTime,
        fresh: Callable[[], Awaitable[object]],
    ) -> None:
        self._wire = wire
        self._stream = stream
        self._subjects = subjects
        self._options = options
        self._time = time
        self._fresh = fresh
        self._left: dict[str, int] = {}
        self._due: dict[str, None] = {}
        self._task: asyncio.Task[None] | None = None

    def won(self, job: str) -> None:
        """
        Count a run.
        """
        left = self._left.get(job, 1) - 1
        if left > 0:
            self._left[job] = left
            return
        self._left[job] = _LEAST_TURN
        self._due[job] = None
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._work())

    async def close(self) -> None:
        """
        Stop. What is left to prune is left to the next instance.
        """
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def idle(self) -> None:
        """
        Wait until nothing is due.
        """
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    async def _work(self) -> None:
        while self._due:
            job = next(iter(self._due))
            del self._due[job]
            try:
                await self._wire.bounded(lambda: self._prune(job), timeout_ms=_TIMEOUT_MS)  # noqa: B023 - awaited here
            except StoreUnavailableError:
                self._left[job] = 1  # The calls tell of an outage; the next run asks again.
            except BackendError as error:
                # A right that is missing is told here alone.
                logger.warning("the history of job %r could not be pruned: %s", job, error)

    async def _prune(self, job: str) -> None:
        await self._fresh()
        found = await self._stream.subjects_of(self._subjects.both(job))
        kept = kept_of(self._subjects, found).get(job)
        if kept is None:
            return
        now_ms = self._time.now_ms()
        retention = self._options.retention
        aged_until = None if retention.age_ms is None else now_ms - retention.age_ms
        beyond, aged = prunable(
            kept, retention, safe_until=now_ms - self._options.kept_ms - 1, aged_until=aged_until
        )
        for start in range(0, len(aged), _PIECE):
            part = aged[start : start + _PIECE]
            beyond += await self._ended_by(job, part, aged_until or 0)
        for start in range(0, len(beyond), _PIECE):
            part = beyond[start : start + _PIECE]
            await self._stream.purge([self._subjects.both(job, slot) for slot in part])
        left = len(kept.ended) - len(beyond)
        self._left[job] = min(max(_LEAST_TURN, left // 4), _MOST_TURN)

    async def _ended_by(self, job: str, slots: Sequence[int], until_ms: int) -> list[int]:
        """
        Name those of some runs that ended at an instant or before.
        """
        ends = await self._stream.read([self._subjects.end(job, slot) for slot in slots])
        return [
            slot
            for slot, end in zip(slots, ends, strict=True)
            if end is not None and instant_ms(end["time"]) <= until_ms
        ]
