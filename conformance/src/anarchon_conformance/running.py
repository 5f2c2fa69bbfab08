"""
Run the tests of a clause without pytest: for the kit's own tests, and a backend's mutants.
"""

from __future__ import annotations

import asyncio
import inspect
import pkgutil
import re
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

import anarchon_conformance
from anarchon_conformance.children import STARTING
from anarchon_conformance.clauses import CLAUSES
from anarchon_conformance.harness import Bench
from anarchon_conformance.marking import clause_of
from anarchon_conformance.profile import BackendProfile

__all__ = ["ClauseRun", "call", "clause_tests", "expected_tests", "prepare", "run_clause"]

_MARK = re.compile(r'^@clause\("([A-Z]{3}-\d+)"\)$', re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClauseRun:
    """
    What became of one clause: ``passed``, ``failed`` or ``n/a``.

    ``reason`` says why it does not apply, or shows the traceback of what failed.
    """

    clause: str
    outcome: str
    reason: str = ""


@cache
def clause_tests() -> Mapping[str, tuple[Callable[..., Any], ...]]:
    """
    Find every test of the kit, by the clause that it checks.
    """
    found: dict[str, list[Callable[..., Any]]] = {clause: [] for clause in CLAUSES}
    for module in pkgutil.iter_modules(anarchon_conformance.__path__):
        if not module.name.startswith("test_"):
            continue
        names = vars(import_module(f"anarchon_conformance.{module.name}"))
        for name, test in names.items():
            if name.startswith("test_") and (clause := clause_of(test)) is not None:
                found[clause].append(test)
    return MappingProxyType({clause: tuple(tests) for clause, tests in found.items()})


@cache
def expected_tests() -> Mapping[str, int]:
    """
    Count the tests of each clause in their sources.

    Importing them would cost the time of Hypothesis in runs that have not collected it.
    """
    found = dict.fromkeys(CLAUSES, 0)
    for path in Path(__file__).parent.glob("test_*.py"):
        for mark in _MARK.finditer(path.read_text(encoding="utf-8")):
            found[mark[1]] += 1
    return MappingProxyType(found)


def prepare(profile: BackendProfile) -> Bench:
    """
    Open a backend once to hear what it declares.
    """

    async def look() -> Bench:
        async with profile.open("kit-look") as backend:
            told = profile.service
            service = backend.service if told is None else told if isinstance(told, str) else told()
            return Bench(
                profile=profile,
                capabilities=backend.capabilities,
                service=service,
                distribution=_distribution(type(backend)),
            )

    return asyncio.run(look())


def call(test: Callable[..., Any], bench: Bench, arguments: Mapping[str, Any]) -> None:
    """
    Call a test of the kit; an async one on an event loop of its own, and for so long.

    Raises:
        TimeoutError: The test has not ended; something in the backend hangs.
    """
    if not inspect.iscoroutinefunction(test):
        test(**arguments)
        return

    clause = CLAUSES.get(clause_of(test) or "")
    patiences = 2 + (STARTING if clause is not None and "processes" in clause.needs else 0)

    async def bounded() -> None:
        async with asyncio.timeout(patiences * bench.patience_ms / 1_000):
            await test(**arguments)

    asyncio.run(bounded())


def run_clause(profile: BackendProfile, clause_id: str) -> ClauseRun:
    """
    Run all tests of one clause against a backend.
    """
    bench = prepare(profile)
    lacking = bench.missing(clause_id)
    if lacking is not None:
        return ClauseRun(clause=clause_id, outcome="n/a", reason=lacking)
    for test in clause_tests()[clause_id]:
        offered: dict[str, Any] = {"bench": bench, "anarchon_figures": _forget}
        wanted = {name: offered[name] for name in inspect.signature(test).parameters}
        try:
            call(test, bench, wanted)
        except (Exception, pytest.fail.Exception):  # noqa: BLE001 - whatever a broken backend raises is the finding
            return ClauseRun(clause=clause_id, outcome="failed", reason=traceback.format_exc())
    return ClauseRun(clause=clause_id, outcome="passed")


def _forget(figures: str) -> None:
    """
    Stand in for the plug-in's fixture, where nobody reads the figures.
    """


@cache
def _distribution(backend: type) -> str:
    """
    Name the distribution that a backend came with, and its version.
    """
    module = backend.__module__.partition(".")[0]
    alike = module.replace("_", "-")
    try:
        return f"{alike} {version(alike)}"
    except PackageNotFoundError:
        # Looking through everything that is installed takes a while, and not all of it lists its modules.
        names = packages_distributions().get(module)
    return f"{names[0]} {version(names[0])}" if names else f"{module} (not installed)"
