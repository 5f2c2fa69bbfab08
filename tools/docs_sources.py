"""
Show on the site what prose links to besides prose: tests one by one, other files as they are.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

from docs_pages import CLAUSE

__all__ = ["FILES", "FOLDER", "clause_tests", "clauses_in", "source_page", "test_index"]

FOLDER = "source"

FILES = "_files"
"""
Where the staged site sees the repository itself.
"""

_LANGUAGES = {
    ".json": "json",
    ".lua": "lua",
    ".py": "python",
    ".sh": "sh",
    ".sql": "sql",
    ".toml": "toml",
    ".yaml": "yaml",
    ".yml": "yaml",
}


def test_index(root: Path, paths: Iterable[Path]) -> dict[str, tuple[str, str]]:
    """
    Return the page and the anchor of each test function whose name is its own.
    """
    found: dict[str, list[tuple[str, str]]] = {}
    for path in paths:
        if path.name.startswith("test_"):
            page = f"{FOLDER}/{path.relative_to(root).as_posix()}"
            for name, _ in _tests(ast.parse(path.read_text(encoding="utf-8"))):
                found.setdefault(name, []).append((page, name))
    return {name: places[0] for name, places in found.items() if len(places) == 1}


test_index.__test__ = False  # type: ignore[attr-defined]  # It lists tests; it is none.


def clause_tests(root: Path, paths: Iterable[Path]) -> dict[str, tuple[tuple[str, str], ...]]:
    """
    Return the page and the name of the tests that carry each clause's mark, in the order of the files.
    """
    found: dict[str, list[tuple[str, str]]] = {}
    for path in paths:
        page = f"{FOLDER}/{path.relative_to(root).as_posix()}"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                for clause in _marks(node):
                    found.setdefault(clause, []).append((page, node.name))
    return {clause: tuple(tests) for clause, tests in found.items()}


def clauses_in(text: str) -> set[str]:
    """
    Name the clauses that a specification defines.
    """
    return {
        line[2 : line.index("**", 2)]
        for line in text.splitlines()
        if line.startswith("**")
        and "**" in line[2:]
        and CLAUSE.fullmatch(line[2 : line.index("**", 2)])
    }


def source_page(root: Path, place: str, listed: frozenset[str]) -> str:
    """
    Write the page of a file or of a folder.

    Args:
        root: The repository.

        place: The path in the repository.

        listed: Every file of the repository.
    """
    path = root / place
    head = f"---\norphan: true\n---\n\n# {place}\n\n"
    if path.is_dir():
        inside = sorted(name for name in listed if name.startswith(f"{place}/"))
        return head + "".join(f"- `{name.removeprefix(f'{place}/')}`\n" for name in inside)
    include = f"/{FILES}/{place}"
    if path.name.startswith("test_") and path.suffix == ".py":
        return head + "".join(_test_sections(path, include))
    language = _LANGUAGES.get(path.suffix, "text")
    return head + f"```{{literalinclude}} {include}\n:language: {language}\n```\n"


def _test_sections(path: Path, include: str) -> Iterator[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    told = ast.get_docstring(tree)
    if told:
        yield f"{told}\n\n"
    for name, qualified in _tests(tree):
        yield f"## {name}\n\n```{{literalinclude}} {include}\n:pyobject: {qualified}\n```\n\n"


def _tests(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """
    Give each test function's name, and its name within the module.
    """
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            for inner in node.body:
                if _is_test(inner):
                    yield inner.name, f"{node.name}.{inner.name}"  # type: ignore[attr-defined]  # _is_test says so
        elif _is_test(node):
            yield node.name, node.name  # type: ignore[attr-defined]  # _is_test says so


def _is_test(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith(
        "test_"
    )


def _marks(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    for decorator in node.decorator_list:
        if (
            isinstance(decorator, ast.Call)
            and isinstance(decorator.func, ast.Name)
            and decorator.func.id == "clause"
            and decorator.args
            and isinstance(decorator.args[0], ast.Constant)
        ):
            yield str(decorator.args[0].value)
