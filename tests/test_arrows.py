"""
Imports between the distributions go one way.

The core knows nobody, a backend and the command line know the core, and so does the kit. A backend's conformance.py,
which only the kit loads, may know the kit too. Chaos may know all: it breaks whatever there is.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
import repository

ALL = repository.distributions()
MODULES = {distribution.module for distribution in ALL}


def imported(text: str) -> Iterator[str]:
    """
    Give the top-level name of every import in a module, wherever in the module it stands.
    """
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module is not None:
            yield node.module.split(".")[0]


def allowed(module: str, path: Path) -> set[str]:
    """
    Name the siblings that a file may import.
    """
    if module == "anarchon":
        return {"anarchon"}
    if module == "anarchon_chaos":
        return MODULES
    if path.name == "conformance.py":
        return {"anarchon", "anarchon_conformance", module}
    return {"anarchon", module}


@pytest.mark.parametrize("distribution", ALL, ids=lambda distribution: distribution.name)
def test_imports_follow_the_arrows(distribution: repository.Distribution) -> None:
    """
    Every import of a sibling is one that the arrows allow.
    """
    paths = list(distribution.source.rglob("*.py"))
    against = [
        f"{path.relative_to(repository.ROOT)} imports {name}"
        for path in paths
        for name in sorted(MODULES.intersection(imported(path.read_text(encoding="utf-8"))))
        if name not in allowed(distribution.module, path)
    ]

    assert paths
    assert [] == against


def test_an_import_inside_a_function_counts() -> None:
    """
    A late import is an arrow all the same.
    """
    sample = "def f():\n    from anarchon_conformance.profile import BackendProfile\n    import anarchon.slots\n"

    assert {"anarchon_conformance", "anarchon"} == set(imported(sample))
