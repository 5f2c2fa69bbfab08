"""
How what a claim costs grows: with the jobs that a store knows, the instances that ask, the slots that it keeps.

Each line is taken in turns over its sizes, several times; the figure is the ratio to
the smallest size of the same turn.

    python -m bench.growth [--stores sqlite redis postgres] [--turns N] [--most SIZE] [--json PATH]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from urllib.parse import urlencode

from anarchon import backend_from_url
from anarchon.backend import FinishRequest, LeaseBackend
from anarchon.records import Status
from bench.claims import TIMEOUT_MS, Claims, claim, key_of
from bench.stores import STORES, url_of
from bench.tables import Sizes

CALLS = 40
JOBS = (1, 10, 100, 1_000, 10_000)
INSTANCES = (1, 2, 4, 8, 16)
KEPT = (0, 10, 100, 1_000)

# Slots that are made up lie in the past: many of one job are claimed within a millisecond. They
# are not so old that a claim of theirs would have expired.
AGO_MS = 500_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """
    What an item takes at each size: in microseconds, and to that at the smallest.
    """

    store: str
    what: str
    unit: str
    sizes: tuple[int, ...]
    item_us: tuple[float, ...]
    ratios: tuple[float, ...]


class Subject:
    """
    One store under measurement, as many instances of it as are asked for.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._stack = AsyncExitStack()
        self._count = 0

    async def open(self, **options: object) -> LeaseBackend:
        """
        Open a backend; it is closed with the subject.
        """
        sign = "&" if "?" in self._url else "?"
        url = f"{self._url}{sign}{urlencode(options)}" if options else self._url
        backend = backend_from_url(url)
        await backend.open(timeout_ms=TIMEOUT_MS)
        self._stack.push_async_callback(backend.close)
        return backend  # type: ignore[return-value] # every store here keeps leases

    async def close(self) -> None:
        """
        Close all of them.
        """
        await self._stack.aclose()


async def of_jobs(subject: Subject, size: int) -> float:
    """
    Claim and win jobs one at a time, in a store that knows so many.
    """
    backend = await subject.open()
    claims = Claims(backend, Sizes(rounds=1, singles=1, batch=1))
    names = [f"known-{number}" for number in range(size)]
    for start in range(0, size, 500):
        await claims.register(names[start : start + 500])
    slot = await claims.now_ms() - AGO_MS
    mine = [claim(slot + next(_slots), names[number % size]) for number in range(CALLS)]
    began = time.perf_counter()
    for each in mine:
        await claims.win([each])
        await backend.finish(
            [FinishRequest(**key_of(each), status=Status.SUCCESS)], timeout_ms=TIMEOUT_MS
        )
    return (time.perf_counter() - began) / CALLS


async def of_instances(subject: Subject, size: int) -> float:
    """
    Race for each slot with so many instances, and wait until all of them know.
    """
    backends = [await subject.open() for _ in range(size)]
    claims = [Claims(backend, Sizes(rounds=1, singles=1, batch=1)) for backend in backends]
    runs = await claims[0].make(CALLS)
    began = time.perf_counter()
    for run in runs:
        asked = [
            each.claim([replace(run, token=f"{run.token}{number}")])
            for number, each in enumerate(claims)
        ]
        await asyncio.gather(*asked)
    return (time.perf_counter() - began) / CALLS / size


async def of_kept(subject: Subject, size: int) -> float:
    """
    Claim and finish one job's slots, in a store that keeps so many of its records.
    """
    backend = await subject.open(retention_records_per_job=max(1, size))
    claims = Claims(backend, Sizes(rounds=1, singles=1, batch=1))
    job = f"kept-{size}"
    await claims.register([job])
    filled = size + 64 if job not in _filled else 0
    _filled.add(job)
    slot = await claims.now_ms() - AGO_MS
    began = 0.0
    for number in range(filled + CALLS):
        if number == filled:
            began = time.perf_counter()
        each = claim(slot + next(_slots), job)
        await claims.win([each])
        await backend.finish(
            [FinishRequest(**key_of(each), status=Status.SUCCESS)], timeout_ms=TIMEOUT_MS
        )
    return (time.perf_counter() - began) / CALLS


_slots = iter(range(1, 10_000_000))
_filled: set[str] = set()

Measure = Callable[[Subject, int], Awaitable[float]]

CURVES: list[tuple[str, str, Measure, Sequence[int]]] = [
    ("claim and finish, by jobs known", "jobs", of_jobs, JOBS),
    ("answer to a claim, by instances that race", "instances", of_instances, INSTANCES),
    ("claim and finish, by slots kept", "slots", of_kept, KEPT),
]


async def curve(
    store: str, url: str, what: tuple[str, str, Measure, Sequence[int]], turns: int, most: int
) -> Curve:
    """
    Take one line over its sizes.
    """
    name, unit, measure, all_sizes = what
    sizes = tuple(size for size in all_sizes if size <= most)
    taken: dict[int, list[float]] = {size: [] for size in sizes}
    for turn in range(turns + 1):
        for size in sizes if turn % 2 else reversed(sizes):
            subject = Subject(url)
            try:
                taken[size].append(await measure(subject, size))
            finally:
                await subject.close()
    # The first turn fills what is to be full, and warms up.
    counted = {size: found[1:] for size, found in taken.items()}
    return Curve(
        store=store,
        what=name,
        unit=unit,
        sizes=sizes,
        item_us=tuple(statistics.median(counted[size]) * 1_000_000 for size in sizes),
        ratios=tuple(
            statistics.median(
                mine / least for mine, least in zip(counted[size], counted[sizes[0]], strict=True)
            )
            for size in sizes
        ),
    )


def show(found: Curve) -> None:
    """
    Print a curve in two lines.
    """
    print(f"{found.store}: {found.what}")
    for size, item_us, ratio in zip(found.sizes, found.item_us, found.ratios, strict=True):
        print(f"    {size:6} {found.unit:10} {item_us:9.0f} us {ratio:6.2f}")


def main() -> None:
    """
    Measure, print, and write JSON where that is asked for.
    """
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--stores", nargs="+", choices=STORES, default=list(STORES))
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--most", type=int, default=max(JOBS), help="the greatest size")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    curves: list[Curve] = []
    with tempfile.TemporaryDirectory() as folder:
        for store in options.stores:
            url = url_of(store, Path(folder))
            for what in CURVES:
                take = partial(curve, store, url, what, options.turns, options.most)
                curves.append(asyncio.run(take()))
                show(curves[-1])
    if options.json is not None:
        options.json.write_text(json.dumps([asdict(found) for found in curves], indent=2) + "\n")


if __name__ == "__main__":
    main()
