"""
Markdown files lead somewhere.
"""

from __future__ import annotations

from pathlib import Path

import prose
import repository


def test_no_link_is_dead() -> None:
    """
    Every relative link leads to a file that is there, and to a heading in it.
    """
    dead = [
        f"{path.relative_to(repository.ROOT)}:{line}: {message}"
        for path in repository.files(".md")
        for line, message in prose.dead_links(path, path.read_text(encoding="utf-8"))
    ]

    assert [] == dead, "\n".join(dead)


def test_dead_links_are_found(tmp_path: Path) -> None:
    """
    A missing file and a missing heading are both found; other sites, code and what is there are left alone.
    """
    text = (
        "# One heading\n\n[here](#one-heading) [gone](#another) [file](missing.md) [self](a.md#one-heading)\n"
        "[site](https://example.org/x) `[code](nothing.md)`\n\n```text\n[block](nothing.md)\n```\n"
    )
    path = tmp_path / "a.md"
    path.write_text(text, encoding="utf-8")

    dead = [message for _, message in prose.dead_links(path, text)]

    assert ["#another: the file has no such heading", "missing.md: there is no such file"] == dead


def test_blocks_know_their_line_and_their_exemption(tmp_path: Path) -> None:
    """
    A reason on the line before exempts one block, not the next.
    """
    text = "<!-- no-run: needs a server -->\n```python\nx = 1\n```\n\n```python\ny = 2\n```\n"

    first, second = prose.blocks(tmp_path / "a.md", text)

    assert ("needs a server", 2, "x = 1\n") == (first.exempt, first.line, first.code)
    assert (None, 6, "y = 2\n") == (second.exempt, second.line, second.code)
