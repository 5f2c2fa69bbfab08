"""
Play scenarios, several at a time: they mostly wait.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Self

import anarchon_testbed as testbed
from anarchon import RunRecord
from anarchon_chaos.checker import Finding, judge
from anarchon_chaos.evidence import now_ns
from anarchon_chaos.history import History
from anarchon_chaos.places import Servers, opened
from anarchon_chaos.plans import JobPlan
from anarchon_chaos.proxies import Proxies
from anarchon_chaos.scenario import (
    HEARTBEAT_MS,
    LEASE_MS,
    STOP_TIMEOUT_MS,
    Load,
    Scenario,
)
from anarchon_chaos.stage import ChaosError, SlowStartError, Stage, wall_ms
from anarchon_chaos.stores import StoreKind

__all__ = ["Case", "Player", "Result", "play_all"]

_HOUR_MS = 3_600_000
_LEAD_MS = 3_500
_STARTS_MAX = 3
_THREADS_EACH = 16
_OPTIONS = {
    "heartbeat": HEARTBEAT_MS / 1_000,
    "lease": LEASE_MS / 1_000,
    "stop_timeout": STOP_TIMEOUT_MS / 1_000,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """
    One scenario on one store. ``product`` is a folder with a broken copy of the packages, None for those installed;
    ``keep`` one for the evidence of what did not hold.
    """

    scenario: Scenario
    store: StoreKind
    seed: int | None = None
    product: Path | None = None
    keep: Path | None = None

    @property
    def name(self) -> str:
        """
        The name by which people ask for it.
        """
        return f"{self.scenario.name}-{self.store.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """
    What came of a case. ``trouble`` says why it could not be played; its history is None then. ``missing`` is what this
    machine does not have for it.
    """

    case: Case
    history: History | None
    findings: Sequence[Finding]
    trouble: str | None = None
    missing: testbed.ServerUnavailableError | None = None

    @property
    def held(self) -> bool:
        """
        Whether everything held.
        """
        return self.trouble is None and not self.findings


class Player:
    """
    Plays cases, with the servers that they share. Entered with `async with`.
    """

    def __init__(self) -> None:
        self._stack = AsyncExitStack()
        self._servers = Servers()
        self._proxies: Proxies | None = None
        self._lock = asyncio.Lock()

    async def __aenter__(self) -> Self:
        await self._stack.enter_async_context(self._servers)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def play(self, case: Case) -> Result:
        """
        Play one case from its first process to its last, and judge what it left.
        """
        trouble = ""
        for attempt in range(_STARTS_MAX):
            with tempfile.TemporaryDirectory(prefix="anarchon-chaos-") as name:
                try:
                    history = await self._play(case, Path(name), patience=2**attempt)
                except SlowStartError as error:
                    trouble = str(error)  # Nothing has been seen of the product yet: once more.
                except testbed.ServerUnavailableError as error:
                    return Result(
                        case=case, history=None, findings=(), trouble=str(error), missing=error
                    )
                except Exception as error:  # noqa: BLE001 - One stage that breaks is not to end the others.
                    trouble = f"{type(error).__name__}: {error}"
                    break
                else:
                    # Twenty minutes take seconds to judge, in which the other stages have to go on.
                    findings = await asyncio.to_thread(judge, history)
                    if findings and case.keep is not None:
                        _keep(Path(name), case.keep / case.name, history)
                    return Result(case=case, history=history, findings=findings)
        return Result(case=case, history=None, findings=(), trouble=trouble)

    async def _play(self, case: Case, folder: Path, *, patience: int) -> History:
        scenario, kind = case.scenario, case.store
        async with opened(
            kind, self._servers, folder, place=scenario.place, counts=scenario.counts
        ) as store:
            proxies = await self._wires() if store.server is not None else None
            stage = Stage(
                folder=folder,
                store=store,
                proxies=proxies,
                options=_OPTIONS,
                product=case.product,
                seed=case.seed or 0,
            )
            begun_ns, begun_wall_ms = now_ns(), wall_ms()
            try:
                await _set_up(stage, scenario, patience)
                for step in scenario.steps:
                    await step.play(stage)
                stage.last_ms = wall_ms() - 500
                await _settle(stage, scenario)
                await stage.leave(*(name for name, each in stage.workers.items() if each.alive))
                stage.look()
                swallowed = {
                    name: await wire.swallowed()
                    for name, wire in stage.wires.items()
                    if wire.swallows
                }
                records = await store.records([job.name for job in stage.jobs])
            finally:
                await stage.close()
            history = _history(case, stage, records)
            return replace(
                history, begun_ns=begun_ns, begun_wall_ms=begun_wall_ms, swallowed=swallowed
            )

    async def _wires(self) -> Proxies:
        async with self._lock:
            if self._proxies is None:
                server = await self._stack.enter_async_context(testbed.toxiproxy(own=True))
                self._proxies = Proxies(server)
        return self._proxies


def _keep(folder: Path, target: Path, history: History) -> None:
    """
    Keep what was written, and what was done, for whoever wants to know why.
    """
    target.mkdir(parents=True, exist_ok=True)
    for path in (*folder.glob("*.stderr"), folder / "marks", folder / "events"):
        if path.exists():
            shutil.copy(path, target / path.name)
    faults = [asdict(fault) for fault in history.faults]
    records = [asdict(record) for record in history.records]
    for name, lines in (("faults", faults), ("records", records)):
        text = "".join(f"{json.dumps(line, default=str)}\n" for line in lines)
        (target / name).write_text(text, encoding="utf-8")


async def _set_up(stage: Stage, scenario: Scenario, patience: int) -> None:
    names = [instance.name for instance in scenario.instances]
    asked_ms = wall_ms()
    for instance in scenario.instances:
        await stage.add(instance.name, clock_ms=instance.clock_ms)
    await stage.ready(*names)
    # A machine that took long to start the processes is busy, and takes long for what comes now.
    lead_ms = patience * max(_LEAD_MS + 150 * len(names), wall_ms() - asked_ms)
    stage.slot_ms = (wall_ms() + lead_ms) // 100 * 100
    stage.jobs = tuple(plan for load in scenario.loads for plan in _plans(load, stage.slot_ms))
    for instance in scenario.instances:
        stage.start(instance.name, instance.options)
    await stage.started(*names)
    stage.first_ms = wall_ms() + 100
    if stage.first_ms >= stage.slot_ms:
        raise SlowStartError("the instances took so long to start that the slot had passed")


def _plans(load: Load, slot_ms: int) -> list[JobPlan]:
    names = [load.name] if load.count == 1 else [f"{load.name}-{n}" for n in range(load.count)]
    every_ms = load.every_ms or _HOUR_MS
    return [
        JobPlan(
            name=name,
            every_ms=every_ms,
            offset_ms=0 if load.every_ms else slot_ms % _HOUR_MS,
            handler=load.handler,
            work_ms=load.work_ms,
            options=load.options,
        )
        for name in names
    ]


def _slots(stage: Stage) -> list[tuple[str, int]]:
    """
    Compute, without the product, the slots that were due while every instance was asked to be there.
    """
    found = []
    for job in stage.jobs:
        first = (stage.first_ms - job.offset_ms) // job.every_ms + 1
        last = (stage.last_ms - job.offset_ms) // job.every_ms
        found += [(job.name, job.offset_ms + n * job.every_ms) for n in range(first, last + 1)]
    return found


async def _settle(stage: Stage, scenario: Scenario) -> None:
    """
    Wait until every slot has come to its end or was told as missed, at most as long as the scenario allows.
    """
    wanted = set(_slots(stage))

    def settled() -> bool:
        ended = {mark.run for mark in stage.marks if mark.what == "end"}
        return wanted <= ended

    try:
        await stage.until(settled, "the slots", patience_ms=scenario.expect.settle_ms)
    except ChaosError as error:
        if "ended by itself" in str(error):
            raise


def _history(case: Case, stage: Stage, records: Sequence[RunRecord]) -> History:
    return History(
        scenario=case.scenario.name,
        store=case.store.name,
        leases=case.store.leases,
        lease_ms=LEASE_MS,
        heartbeat_ms=HEARTBEAT_MS,
        stop_timeout_ms=STOP_TIMEOUT_MS,
        begun_ns=0,
        ended_ns=now_ns(),
        expect=case.scenario.expect,
        marks=tuple(stage.marks),
        told=tuple(stage.told),
        records=tuple(records),
        faults=tuple(stage.faults),
        deaths=dict(stage.deaths),
        exits=tuple(stage.exits),
        counts=tuple(stage.counts),
        slots=tuple(_slots(stage)),
    )


async def play_all(
    cases: Sequence[Case], *, at_once: int, done: Callable[[Result], None]
) -> list[Result]:
    """
    Play cases, so many at a time, and say of each when it is done.
    """
    gate = asyncio.Semaphore(at_once)
    # What waits for a server or a process blocks a thread; by default two cores have six for all of it.
    threads = ThreadPoolExecutor(_THREADS_EACH * at_once, thread_name_prefix="chaos")
    asyncio.get_running_loop().set_default_executor(threads)
    async with Player() as player:

        async def play(case: Case) -> Result:
            async with gate:
                result = await player.play(case)
            done(result)
            return result

        return await asyncio.gather(*map(play, cases))
