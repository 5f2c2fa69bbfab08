"""
Every Python block in the project's prose runs as it stands, and every other block can be read.
"""

from __future__ import annotations

import configparser
import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import prose
import pytest
import repository
import yaml
from prose import Block

FORMS: dict[str, Callable[[str], object]] = {
    "json": json.loads,
    "toml": tomllib.loads,
    "yaml": lambda text: list(yaml.safe_load_all(text)),
    "ini": lambda text: configparser.ConfigParser(strict=False).read_string(text),
}
"""
Languages of blocks that are data, each with what reads it.
"""

TIMEOUT_S = 300  # A guard against a block that never ends, and no measure of how long one takes.
LANGUAGES = {*FORMS, "console", "mermaid", "python", "sql", "text", "{eval-rst}"}


def blocks() -> Iterator[Block]:
    """
    Give every block of the repository's prose.
    """
    for path in repository.files(".md"):
        yield from prose.blocks(path, path.read_text(encoding="utf-8"))


def name_of(block: Block) -> str:
    """
    Name a block as an editor finds it.
    """
    return f"{block.path.relative_to(repository.ROOT)}:{block.line}"


ALL = list(blocks())
PYTHON = [block for block in ALL if block.language == "python" and "from" not in block.remarks]
RUN = [pytest.param(block, id=name_of(block)) for block in PYTHON if block.exempt is None]


def lay_out(block: Block, folder: Path) -> Path:
    """
    Write a block, and the named blocks of its page beside it, as the page's reader does.
    """
    for other in ALL:
        name = other.remarks.get("file")
        if other.path == block.path and name is not None:
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(other.code, encoding="utf-8")
    script = folder / block.remarks.get("file", "test_block.py")
    script.write_text(block.code, encoding="utf-8")
    return script


@pytest.mark.slow
@pytest.mark.timeout(2 * TIMEOUT_S)
@pytest.mark.parametrize("block", RUN)
def test_block_runs(block: Block, tmp_path: Path) -> None:
    """
    A reader who copies a block into an empty folder, beside the page's named files, and runs it sees it end well.
    """
    script = lay_out(block, tmp_path)
    tests = ["-m", "pytest", "-q", "-p", "no:cacheprovider"] if "pytest" in block.remarks else []

    result = subprocess.run(
        [sys.executable, "-W", "error", *tests, script],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": f"{tmp_path}{os.pathsep}{repository.ROOT / 'examples/lmdb'}",
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )

    assert 0 == result.returncode, f"{name_of(block)}\n{result.stdout}{result.stderr}"


def test_every_block_compiles() -> None:
    """
    A block that is exempt from running is Python all the same.
    """
    for block in PYTHON:
        compile(block.code, name_of(block), "exec")

    assert PYTHON


def test_every_block_says_what_it_is() -> None:
    """
    A block is in a language that a test here knows, so that none goes unread.
    """
    strange = [
        f"{name_of(block)}: {block.language!r}" for block in ALL if block.language not in LANGUAGES
    ]

    assert [] == strange, "\n".join(strange)


@pytest.mark.parametrize(
    "block", [pytest.param(block, id=name_of(block)) for block in ALL if block.language in FORMS]
)
def test_data_can_be_read(block: Block) -> None:
    """
    A block of data is well formed.
    """
    assert FORMS[block.language](block.code) != []


@pytest.mark.parametrize(
    "block", [pytest.param(block, id=name_of(block)) for block in ALL if "from" in block.remarks]
)
def test_excerpt_is_what_the_file_says(block: Block) -> None:
    """
    A block that shows a part of a file shows it as it is.
    """
    text = (repository.ROOT / block.remarks["from"]).read_text(encoding="utf-8")

    assert block.code in text


def test_diagrams_avoid_what_their_language_does_not_take() -> None:
    """
    A diagram is of a kind that is known, and no semicolon, which ends a statement there, stands in its texts.
    """
    kinds = ("flowchart ", "sequenceDiagram", "stateDiagram-v2")
    wrong = [
        name_of(block)
        for block in ALL
        if block.language == "mermaid" and (";" in block.code or not block.code.startswith(kinds))
    ]

    assert [] == wrong


def test_the_readme_shows_code() -> None:
    """
    The first page has a program that runs, and nothing there is exempt.
    """
    ours = [block for block in PYTHON if block.path == repository.ROOT / "README.md"]

    assert ours
    assert [None] * len(ours) == [block.exempt for block in ours]
