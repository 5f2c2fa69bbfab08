"""
Every Python block in the project's prose runs as it stands.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import prose
import pytest
import repository
from prose import Block


def python_blocks() -> Iterator[Block]:
    """
    Give every block that is marked as Python.
    """
    for path in repository.files(".md"):
        text = path.read_text(encoding="utf-8")
        yield from (
            block for block in prose.blocks(path, text) if block.language in {"python", "py"}
        )


def name_of(block: Block) -> str:
    """
    Name a block as an editor finds it.
    """
    return f"{block.path.relative_to(repository.ROOT)}:{block.line}"


RUN = [pytest.param(block, id=name_of(block)) for block in python_blocks() if block.exempt is None]


@pytest.mark.slow
@pytest.mark.parametrize("block", RUN)
def test_block_runs(block: Block, tmp_path: Path) -> None:
    """
    A reader who copies a block into an empty folder and runs it sees it end well. `<!-- no-run: reason -->` on the
    line before a block exempts it.
    """
    script = tmp_path / "block.py"
    script.write_text(block.code, encoding="utf-8")

    result = subprocess.run(
        [sys.executable, "-W", "error", script],
        cwd=tmp_path,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert 0 == result.returncode, f"{name_of(block)}\n{result.stdout}{result.stderr}"


def test_every_block_compiles() -> None:
    """
    A block that is exempt from running is Python all the same.
    """
    count = 0
    for block in python_blocks():
        compile(block.code, name_of(block), "exec")
        count += 1

    assert count


def test_the_readme_shows_code() -> None:
    """
    The first page has a program that runs, and nothing there is exempt.
    """
    ours = [block for block in python_blocks() if block.path == repository.ROOT / "README.md"]

    assert ours
    assert [None] * len(ours) == [block.exempt for block in ours]
