"""
Backends that are wrong about what has been.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from anarchon.backend import CloseAnswer, FinishRequest
from anarchon.errors import StoreRefusedError
from anarchon.memory import MemoryStore
from anarchon.protocol import Change, Now, RecordView
from anarchon.records import RunRecord, Status
from kit_mutants.base import Sound, State, trips

Records = Sequence[RunRecord]


class _Retold(Sound):
    """
    Tells the history through a function.
    """

    retell: ClassVar[Callable[[Any, list[RunRecord]], Records]]

    async def history(self, job: str | None, *, limit: int, timeout_ms: int) -> Records:
        records = await super().history(job, limit=1_000_000, timeout_ms=timeout_ms)
        return self.retell(list(records))[:limit]


@trips("HIS-1")
class OneRecordARun(_Retold):
    """
    An attempt that was taken over is written over.
    """

    def retell(self, records: list[RunRecord]) -> Records:
        newest: dict[tuple[str, int], RunRecord] = {}
        for record in records:
            newest.setdefault((record.job, record.slot), record)
        return list(newest.values())


@trips("HIS-1")
class ForgetsWhoRan(_Retold):
    """
    The history does not say which instance it was.
    """

    def retell(self, records: list[RunRecord]) -> Records:
        return [replace(record, instance_id="") for record in records]


@trips("HIS-2")
class DatesInSeconds(_Retold):
    """
    Times are cut to seconds.
    """

    def retell(self, records: list[RunRecord]) -> Records:
        return [
            replace(record, claimed_at=record.claimed_at.replace(microsecond=0))
            for record in records
        ]


@trips("HIS-2")
class DatesWithoutAZone(_Retold):
    """
    Times come back without saying where they hold.
    """

    def retell(self, records: list[RunRecord]) -> Records:
        return [
            replace(record, claimed_at=record.claimed_at.replace(tzinfo=None)) for record in records
        ]


@trips("HIS-4")
class OrdersByClaim(_Retold):
    """
    The newest record is the one that was written last.
    """

    def retell(self, records: list[RunRecord]) -> Records:
        return sorted(records, key=lambda record: (record.claimed_at, record.job), reverse=True)


@trips("HIS-4")
class IgnoresTheLimit(Sound):
    """
    Whoever asks for two records gets them all.
    """

    async def history(self, job: str | None, *, limit: int, timeout_ms: int) -> Records:
        return await super().history(job, limit=1_000_000, timeout_ms=timeout_ms)


@trips("HIS-5")
class ChokesOnNul(Sound):
    """
    A text that the store cannot keep makes the finish fail.
    """

    def on_finish(
        self, state: State, record: RecordView | None, request: FinishRequest, now: Now
    ) -> Change[CloseAnswer]:
        if request.error is not None and "\x00" in request.error:
            raise StoreRefusedError("invalid byte sequence")
        return super().on_finish(state, record, request, now)


@trips("HIS-5")
class CutsErrorsSilently(_Retold):
    """
    A long text ends somewhere, and nobody can see that it went on.
    """

    def retell(self, records: list[RunRecord]) -> Records:
        return [
            replace(record, error=None if record.error is None else record.error[:1_000])
            for record in records
        ]


class PrunesTheNewest(MemoryStore):
    """
    A store whose pruning begins at the wrong end.
    """

    def _prune(self, records: dict[Any, Any]) -> None:
        surplus = len(records) - self.retention.records_per_job
        for key in list(records)[-surplus - 1 : -1] if surplus > 0 else ():
            if records[key].record.status is not Status.RUNNING:
                del records[key]


@trips("HIS-7")
class KeepsTheOldest(Sound):
    """
    What is pruned are the newest records.
    """

    store_type = PrunesTheNewest


class PrunesAnything(MemoryStore):
    """
    A store whose pruning does not look at what it throws away.
    """

    def _prune(self, records: dict[Any, Any]) -> None:
        while len(records) > self.retention.records_per_job:
            del records[next(iter(records))]


@trips("HIS-8")
class PrunesTheRunning(Sound):
    """
    The record of a run that goes on is pruned as any other.
    """

    store_type = PrunesAnything


class PrunesNothing(MemoryStore):
    """
    A store that keeps everything.
    """

    def _prune(self, records: dict[Any, Any]) -> None:
        return


@trips("GRW-1", "HIS-7", "HIS-10")
class NeverPrunes(Sound):
    """
    The history of a job grows for ever.
    """

    store_type = PrunesNothing


@trips("HIS-9")
class UnknownJobIsAnError(Sound):
    """
    Reading the history of a job that nobody has heard of fails.
    """

    async def history(self, job: str | None, *, limit: int, timeout_ms: int) -> Records:
        if job is not None and job not in self._store.records:
            raise KeyError(job)
        return await super().history(job, limit=limit, timeout_ms=timeout_ms)
