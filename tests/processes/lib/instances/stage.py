"""
The stage: instances as real processes, what is done to them, and waiting for what they do.

Nothing here waits for a length of time in the hope that something has happened by then: it waits until the evidence
shows it. Every process is killed when the stage closes, and ends by itself when the stage's process is gone.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from anarchon import RunRecord
from anarchon_chaos.evidence import Mark, Tail, Told, now_ns
from anarchon_sqlite import SqliteBackend
from instances.plan import InstancePlan

__all__ = ["PATIENCE_S", "Instance", "Stage", "now_ms"]

T = TypeVar("T")

PATIENCE_S = 90.0
_LOOK_S = 0.01
_SEARCHED = [str(Path(__file__).parent.parent), *filter(None, [os.environ.get("PYTHONPATH")])]


def now_ms() -> int:
    """
    Read the wall clock, in milliseconds.
    """
    return time.time_ns() // 1_000_000


class Instance:
    """
    One process. Made by `Stage.spawn`.
    """

    def __init__(self, stage: Stage, name: str, process: subprocess.Popen[bytes]) -> None:
        self.stage = stage
        self.name = name
        self.process = process
        self.harmed = False

    @property
    def pid(self) -> int:
        """
        The number of its process.
        """
        return self.process.pid

    def command(self, line: str) -> None:
        """
        Send it a line.
        """
        assert self.process.stdin is not None
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def ask(self, line: str) -> Told:
        """
        Send it a command and return what it answers.
        """
        kind = line.partition(" ")[0]
        before = len(self.told(kind))
        self.command(line)
        self.stage.until(lambda: len(self.told(kind)) > before, f"{self.name} to answer {line!r}")
        return self.told(kind)[before]

    def told(self, kind: str) -> list[Told]:
        """
        Return what it has told of one type.
        """
        return [told for told in self.stage.told(kind) if told.pid == self.pid]

    def kill(self) -> int:
        """
        End it as a crash would, and return when that was (CLOCK_MONOTONIC, ns).
        """
        self.harmed = True
        self.process.kill()
        self.process.wait()
        at_ns = now_ns()
        self.stage.deaths[self.pid] = at_ns
        return at_ns

    def terminate(self) -> None:
        """
        Ask it to hand over and end.
        """
        self.harmed = True
        self.process.send_signal(signal.SIGTERM)

    def ended(self) -> int:
        """
        Return its exit status once it has ended.
        """
        self.harmed = True
        return self.stage.until(
            self.process.poll, f"{self.name} to end", found=lambda status: status is not None
        )  # type: ignore[return-value]  # None is what is waited past

    def freeze(self) -> None:
        """
        Stop its threads outside of a write transaction, which it would hold until it thaws.

        Whoever holds the file's one write lock knows that nobody else does.
        """
        with self.stage.locked():
            self.process.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOWAIT)

    def thaw(self) -> int:
        """
        Let it go on, and return when that was (CLOCK_MONOTONIC, ns).
        """
        at_ns = now_ns()
        self.process.send_signal(signal.SIGCONT)
        return at_ns


class Stage:
    """
    A folder with a store and the evidence, and the processes on it.

    Args:
        folder: An empty folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = folder / "store" / "jobs.db"
        self.store.parent.mkdir()
        self.instances: list[Instance] = []
        self.deaths: dict[int, int] = {}
        self._marks: list[Mark] = []
        self._told: list[Told] = []
        self._tails = Tail(folder / "marks"), Tail(folder / "events")

    # Processes.

    def spawn(self, name: str, *, clock_offset_ms: int = 0) -> Instance:
        """
        Start a process, which then waits for its plan.
        """
        with (self.folder / f"{name}.{len(self.instances)}.stderr").open("wb") as stderr:
            process = subprocess.Popen(
                [sys.executable, "-m", "instances.worker", name, ".", str(clock_offset_ms)],
                cwd=self.folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(_SEARCHED)},
            )
        instance = Instance(self, name, process)
        self.instances.append(instance)
        return instance

    def ready(self, *instances: Instance) -> None:
        """
        Return when the processes have imported what they need.
        """
        for instance in instances:
            self.until(partial(instance.told, "ready"), f"{instance.name} to be ready")

    def start(self, *instances: Instance, plan: InstancePlan) -> None:
        """
        Give processes a plan, and return when their schedulers have started.
        """
        self.ready(*instances)
        for instance in instances:
            instance.command(plan.dump())
        self.started(*instances)

    def started(self, *instances: Instance) -> None:
        """
        Return when the schedulers of the processes have started.
        """
        for instance in instances:
            self.until(partial(instance.told, "scheduler_started"), f"{instance.name} to start")

    def stop(self, *instances: Instance) -> list[int]:
        """
        Ask processes to end, all at once, and return their exit statuses.
        """
        for instance in instances:
            instance.terminate()
        return [instance.ended() for instance in instances]

    # Evidence.

    def marks(self, *, job: str | None = None, what: str | None = None) -> list[Mark]:
        """
        Return what the handlers have written.
        """
        self._read()
        return [
            mark for mark in self._marks if job in (None, mark.job) and what in (None, mark.what)
        ]

    def told(self, kind: str) -> list[Told]:
        """
        Return the events of one type.
        """
        self._read()
        return [told for told in self._told if told.type == kind]

    def records(self, job: str | None = None) -> Sequence[RunRecord]:
        """
        Return the history, the oldest attempt first.
        """

        async def read() -> Sequence[RunRecord]:
            backend = SqliteBackend(self.store)
            await backend.open(timeout_ms=10_000)
            try:
                return await backend.history(job, limit=100_000, timeout_ms=30_000)
            finally:
                await backend.close()

        records = asyncio.run(read())
        return sorted(records, key=lambda record: (record.job, record.slot, record.attempt))

    def until(
        self,
        look: Callable[[], T],
        what: str,
        *,
        found: Callable[[T], object] = bool,
        patience_s: float = PATIENCE_S,
    ) -> T:
        """
        Return what *look* returns once it is what is waited for.

        Raises:
            AssertionError: It did not come, or a process ended that nobody had asked to.
        """
        end_s = time.monotonic() + patience_s
        while not found(value := look()):
            for instance in self.instances:
                if not instance.harmed and instance.process.poll() is not None:
                    self._complain(f"{instance.name} ended by itself, waiting for {what}")
            if time.monotonic() > end_s:
                self._complain(f"{patience_s:g} s were not enough for {what}")
            time.sleep(_LOOK_S)  # A file does not tell when it grows.
        return value

    def until_count(self, instance: Instance, kind: str, count: int) -> None:
        """
        Return when an instance has told *count* events of a type.
        """
        self.until(
            lambda: len(instance.told(kind)) >= count, f"{instance.name} to tell {kind} {count}"
        )

    def until_wall_ms(self, instant_ms: int) -> None:
        """
        Return at an instant of the wall clock, which is a fault's own length, or a slot.
        """
        self.until(
            lambda: now_ms() >= instant_ms, f"the clock to show {instant_ms}", patience_s=3_600
        )

    # Faults of the store.

    @contextmanager
    def locked(self) -> Iterator[None]:
        """
        Hold the file's write lock.
        """
        other = sqlite3.connect(self.store, timeout=PATIENCE_S, isolation_level=None)
        try:
            other.execute("BEGIN EXCLUSIVE")
            yield
            other.execute("ROLLBACK")
        finally:
            other.close()

    @contextmanager
    def gone(self) -> Iterator[None]:
        """
        Take the folder of the store away, as a mount that is lost, and put it back.
        """
        away = self.folder / "away"
        self.store.parent.rename(away)
        try:
            yield
        finally:
            away.rename(self.store.parent)

    # The end.

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for instance in self.instances:
            instance.harmed = True
            instance.process.kill()
        for instance in self.instances:
            instance.process.wait()
            assert instance.process.stdin is not None
            instance.process.stdin.close()

    def _read(self) -> None:
        marks, events = self._tails
        self._marks += [Mark(**line) for line in marks.news()]
        self._told += [Told(**line) for line in events.news()]

    def _complain(self, trouble: str) -> None:
        self._read()
        said = [
            f"--- {path.name}\n{path.read_text(errors='replace')[-2_000:]}"
            for path in sorted(self.folder.glob("*.stderr"))
            if path.stat().st_size
        ]
        last = [str(line) for line in (*self._marks[-10:], *self._told[-10:])]
        raise AssertionError("\n".join([trouble, *last, *said]))
