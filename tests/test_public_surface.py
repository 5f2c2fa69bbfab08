"""
What is public is what `__all__` says, and a user's own code passes the strict type check.
"""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import repository

ASSERTED_TYPES = repository.ROOT / "tests/typing/api.py"


def public_modules() -> Iterator[tuple[str, Path]]:
    """
    Give every module that a user may import: no underscore in its name, no test of the kit, no plug-in, no migration.

    A plug-in's hooks are called by their names, so a list of them would say nothing.
    """
    for distribution in repository.distributions():
        for path in sorted(distribution.source.rglob("*.py")):
            parts = list(path.relative_to(distribution.source.parent).with_suffix("").parts)
            if (
                any(part.startswith(("_", "test_")) and part != "__init__" for part in parts)
                or parts[-1] == "plugin"
            ):
                continue
            name = ".".join(part for part in parts if part != "__init__")
            yield pytest.param(name, path, id=name)  # type: ignore[misc]  # pytest gives its parameters no better type.


def is_ours(node: ast.ImportFrom) -> bool:
    """
    Tell whether an import takes names from this project.
    """
    return bool(node.level) or (node.module or "").startswith("anarchon")


def is_device(value: ast.expr) -> bool:
    """
    Tell whether an assignment makes a type variable or a logger, which serve the module they stand in.
    """
    if not isinstance(value, ast.Call):
        return False
    return ast.unparse(value.func) in {"TypeVar", "ParamSpec", "logging.getLogger"}


def defined(path: Path) -> set[str]:
    """
    Name what a module defines at its top. A package's `__init__` also gives what it imports by name.
    """
    names: set[str] = set()
    body = ast.parse(path.read_text(encoding="utf-8")).body
    # A package that loads its names when they are asked for imports them for the type checker alone.
    lazy = [each for node in body if isinstance(node, ast.If) for each in node.body]
    for node in [*body, *lazy]:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign) and not is_device(node.value):
            names.update(target.id for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
        elif isinstance(node, ast.ImportFrom) and path.name == "__init__.py" and is_ours(node):
            names.update(alias.asname or alias.name for alias in node.names)
    return {name for name in names if not name.startswith("_")}


@pytest.mark.parametrize(("name", "path"), list(public_modules()))
def test_all_is_what_is_public(name: str, path: Path) -> None:
    """
    `__all__` has every public name, no other, and none twice; ruff checks their order.
    """
    listed = list(getattr(importlib.import_module(name), "__all__", []))
    ours = [entry for entry in listed if entry != "__version__"]

    assert sorted(defined(path)) == sorted(ours)
    assert all(hasattr(importlib.import_module(name), entry) for entry in listed)


@pytest.mark.slow
def test_users_code_is_typed() -> None:
    """
    A program that uses every public shape passes mypy --strict: decorators give back the very function.
    """
    result = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", str(ASSERTED_TYPES)],
        cwd=repository.ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert 0 == result.returncode, result.stdout + result.stderr
