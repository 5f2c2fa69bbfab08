"""
One scenario on one store while it runs: the processes, their wires, and what has been done to them.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

from anarchon_chaos.evidence import Mark, Tail, Told, now_ns
from anarchon_chaos.fleet import Worker, spawn
from anarchon_chaos.history import Count, Exit, Fault
from anarchon_chaos.places import Store
from anarchon_chaos.plans import JobPlan, WorkerPlan
from anarchon_chaos.proxies import Proxies, Wire

__all__ = ["PATIENCE_MS", "ChaosError", "SlowStartError", "Stage", "wall_ms"]

_LOOK_S = 0.02
PATIENCE_MS = 60_000


class ChaosError(Exception):
    """
    A scenario could not be played as it is written.
    """


def wall_ms() -> int:
    """
    Read the machine's wall clock, in milliseconds.
    """
    return time.time_ns() // 1_000_000


class SlowStartError(ChaosError):
    """
    The machine was so busy that the scenario's slot had passed before its instances had started, or that a fault which
    is to be short became a long one.
    """


class Stage:
    """
    Where steps act. ``product`` is a folder whose packages stand before those that are installed: a broken copy.
    """

    def __init__(
        self,
        *,
        folder: Path,
        store: Store,
        proxies: Proxies | None,
        options: Mapping[str, object],
        product: Path | None = None,
        seed: int = 0,
    ) -> None:
        self.folder = folder
        self.store = store
        self.options = dict(options)
        self.workers: dict[str, Worker] = {}
        self.wires: dict[str, Wire] = {}
        self.faults: list[Fault] = []
        self.deaths: dict[int, int] = {}
        self.exits: list[Exit] = []
        self.counts: list[Count] = []
        self.marks: list[Mark] = []
        self.told: list[Told] = []
        self.seed = seed
        self.jobs: tuple[JobPlan, ...] = ()
        self.slot_ms = 0
        self.first_ms = 0
        self.last_ms = 0
        self._proxies = proxies
        self._product = product
        self._tails = Tail(folder / "marks"), Tail(folder / "events")

    # Processes.

    async def add(self, name: str, *, clock_ms: int = 0) -> Worker:
        """
        Start an instance's process, with a wire of its own where the store is reached over a network.
        """
        if self._proxies is not None and name not in self.wires:
            kind = self.store.kind
            self.wires[name] = await self._proxies.wire(
                name, self.store.upstream, hello=kind.hello, long_hello=kind.long_hello
            )
        environment = {}
        if self._product is not None:
            paths = [str(self._product), *filter(None, [os.environ.get("PYTHONPATH")])]
            environment["PYTHONPATH"] = os.pathsep.join(paths)
        worker = await spawn(name, self.folder, environment)
        if clock_ms:
            worker.command(f"clock {clock_ms}")
        self.workers[name] = worker
        return worker

    async def ready(self, *names: str) -> None:
        """
        Return when processes have imported what they need.
        """
        for name in names:
            pid = self.workers[name].pid
            await self.until(partial(self.heard, pid, "ready"), f"{name} to be ready")

    def start(self, name: str, options: Mapping[str, object] | None = None) -> None:
        """
        Give a process the plan of this scenario.
        """
        wire = self.wires.get(name)
        url = self.store.url(wire.port if wire is not None else None)
        given = {**self.options, **(options or {})}
        self.workers[name].start(WorkerPlan(url=url, jobs=self.jobs, options=given))

    async def started(self, *names: str) -> None:
        """
        Return when the schedulers of processes have started.
        """
        for name in names:
            pid = self.workers[name].pid
            await self.until(partial(self.heard, pid, "scheduler_started"), f"{name} to start")

    def heard(self, pid: int, kind: str) -> bool:
        """
        Say whether a process has told an event.
        """
        return any(told.pid == pid and told.type == kind for told in self.told)

    async def leave(self, *names: str) -> None:
        """
        Ask processes to stop, all at once, and note how they end.
        """
        asked = {name: self.workers[name].terminate() for name in names}
        allowed_ms = PATIENCE_MS // 2

        async def end(name: str) -> None:
            worker = self.workers[name]
            status = await worker.ended(allowed_ms)
            took_ms = (now_ns() - asked[name]) // 1_000_000
            self.exits.append(Exit(instance=name, status=status, took_ms=took_ms))
            if status is None:
                self.deaths[worker.pid] = await worker.kill()

        await asyncio.gather(*(end(name) for name in names))

    # Looking.

    def look(self) -> None:
        """
        Read what has been written since.
        """
        marks, events = self._tails
        self.marks += [Mark(**line) for line in marks.news()]
        self.told += [Told(**line) for line in events.news()]

    async def until(
        self, condition: Callable[[], bool], what: str, *, patience_ms: int = PATIENCE_MS
    ) -> None:
        """
        Return when a condition holds, looked at again and again: a file does not tell when it grows.

        Raises:
            ChaosError: It did not come in time, or a process ended by itself.
        """
        end_s = time.monotonic() + patience_ms / 1_000
        while True:
            self.look()
            if condition():
                return
            for worker in self.workers.values():
                if not worker.alive and not worker.leaving:
                    raise ChaosError(f"{worker.name} ended by itself{self.complaint(worker.name)}")
            if time.monotonic() > end_s:
                raise ChaosError(f"{patience_ms} ms were not enough for {what}")
            await asyncio.sleep(_LOOK_S)

    def complaint(self, name: str) -> str:
        """
        Give the end of what a process wrote to its standard error.
        """
        path = self.folder / f"{name}.stderr"
        text = path.read_text(errors="replace")[-2_000:] if path.exists() else ""
        return f":\n{text}" if text else ""

    def running(self) -> Counter[str]:
        """
        Count the bodies that each instance is at work on.
        """
        open_bodies: dict[tuple[str, int, int, int], str] = {}
        for mark in self.marks:
            key = (mark.job, mark.slot, mark.attempt, mark.pid)
            if mark.what in ("end", "cleanup"):
                open_bodies.pop(key, None)
            else:
                open_bodies[key] = mark.instance
        return Counter(
            name
            for (_, _, _, pid), name in open_bodies.items()
            if pid not in self.deaths and self.workers[name].pid == pid
        )

    def resolve(self, who: str) -> list[str]:
        """
        Name the instances that a step means: "all", "runner" (the one that is at work on most runs), or a name.
        """
        if who == "all":
            return [name for name, worker in self.workers.items() if worker.alive]
        if who == "runner":
            (busiest,) = self.running().most_common(1) or [("", 0)]
            if not busiest[0]:
                raise ChaosError("no instance is at work")
            return [busiest[0]]
        return [who]

    # Faults.

    async def probe_while(self, names: list[str], ms: int) -> int:
        """
        Let time pass, and count how often the wires of instances were seen to be spoilt meanwhile.
        """
        wires = [self.wires[name] for name in names]
        end_ns, bites = now_ns() + ms * 1_000_000, 0
        while (left_ms := (end_ns - now_ns()) // 1_000_000) > 0:
            hits = await asyncio.gather(*(wire.bitten() for wire in wires))
            bites += sum(hits)
            left_ms = (end_ns - now_ns()) // 1_000_000
            if left_ms > 0:
                await asyncio.sleep(min(left_ms / 1_000, 0.5))
        return bites

    async def connections(self) -> Mapping[str, int]:
        """
        Count the connections that each instance has tried so far, a look at its wire too; nothing where no proxy tells.
        """
        if self._proxies is None:
            return {}
        counted = await self._proxies.connections()
        # A wire is there before its process is.
        return {
            name: counted[self.wires[name].name]
            for name in self.resolve("all")
            if name in self.wires and self.wires[name].name in counted
        }

    def note(self, fault: Fault) -> None:
        """
        Write down what was done.
        """
        self.faults.append(fault)

    async def count(self, when: str, *, since_ns: int | None = None) -> None:
        """
        Write down how many calls have reached the store since its counter began anew, where it has one.

        Args:
            since_ns: When calls could reach it again, where those of a second are meant.
        """
        if self.store.calls is not None:
            calls = await self.store.calls.read()
            ms = 1_000 if since_ns is None else (now_ns() - since_ns) // 1_000_000
            self.counts.append(Count(when=when, calls=calls, ms=ms))

    async def count_from_now(self) -> None:
        """
        Let the counter of the store begin anew, where it has one.
        """
        if self.store.calls is not None:
            await self.store.calls.begin()

    async def close(self) -> None:
        """
        End what still runs.
        """
        for worker in tuple(self.workers.values()):
            if worker.alive:
                await worker.kill()
            assert worker.process.stdin is not None
            worker.process.stdin.close()
        for wire in tuple(self.wires.values()):
            with suppress(Exception):  # The Toxiproxy may be gone, and its proxies with it.
                await wire.remove()
