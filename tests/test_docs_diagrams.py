"""
The site's diagrams are drawn, by a script that the site brings along.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

import docs_diagrams
import prose
import pytest
import repository

from anarchon_testbed.browser import obtain_browser

TIMEOUT_S = 300  # A guard against a build that never ends, and no measure of how long one takes.

DRAWN = re.compile(r'<pre class="mermaid"[^>]*data-processed="true"[^>]*><svg ')
FAULTY = 'aria-roledescription="error"'


def diagrams() -> list[str]:
    """
    Give every diagram of the repository's prose.
    """
    return [
        block.code
        for path in repository.files(".md")
        for block in prose.blocks(path, path.read_text(encoding="utf-8"))
        if block.language == "mermaid"
    ]


def built(folder: Path, codes: list[str]) -> Path:
    """
    Build a site of one page, as `make docs` builds its pages, and give the page.
    """
    source = folder / "pages"
    assert docs_diagrams.serve_script(source / "_static"), "The script cannot be had: see above."
    shutil.copyfile(repository.ROOT / "docs/conf.py", source / "conf.py")
    shutil.copyfile(repository.ROOT / "docs/site.css", source / "_static/site.css")
    text = "# Diagrams\n" + "".join(f"\n```mermaid\n{code}```\n" for code in codes)
    (source / "index.md").write_text(text, encoding="utf-8")
    subprocess.run(
        [sys.executable, "-m", "sphinx", "-b", "html", "-q", "-W", source, folder / "html"],
        stdin=subprocess.DEVNULL,
        timeout=TIMEOUT_S,
        check=True,
    )
    return folder / "html/index.html"


@pytest.mark.slow
@pytest.mark.timeout(2 * TIMEOUT_S)
def test_a_browser_without_a_network_draws_every_diagram(tmp_path: Path) -> None:
    """
    Each diagram of the prose becomes a picture, in a page that is opened as a file; one with a fault would show it.
    """
    codes = diagrams()

    seen = obtain_browser().read(built(tmp_path, [*codes, "flowchart LR\n  a --> --> b\n"]))

    assert codes
    assert len(codes) == len(DRAWN.findall(seen))
    assert FAULTY in seen


def test_a_script_that_is_no_release_is_not_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    What cannot be had, or has another digest than Mermaid's, leaves a word and no script.
    """
    other = hashlib.sha256(b"another").hexdigest()
    monkeypatch.setattr(docs_diagrams, "downloaded", lambda: b"alert(1)")
    monkeypatch.setattr(docs_diagrams, "DIGEST", other)
    monkeypatch.setattr(docs_diagrams, "CACHE", tmp_path / "cache")
    (tmp_path / "static").mkdir()
    (tmp_path / "static" / docs_diagrams.SCRIPT).write_text("old", encoding="utf-8")

    assert not docs_diagrams.serve_script(tmp_path / "static")
    assert not (tmp_path / "static" / docs_diagrams.SCRIPT).exists()
    assert "is not Mermaid" in capsys.readouterr().out


def test_a_script_that_is_there_is_not_downloaded_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    The cache answers as long as it holds what was released.
    """
    asked = []

    def once() -> bytes:
        asked.append(True)
        return b"drawn"

    monkeypatch.setattr(docs_diagrams, "downloaded", once)
    monkeypatch.setattr(docs_diagrams, "DIGEST", hashlib.sha256(b"drawn").hexdigest())
    monkeypatch.setattr(docs_diagrams, "CACHE", tmp_path / "cache")

    assert docs_diagrams.serve_script(tmp_path / "static")
    assert docs_diagrams.serve_script(tmp_path / "static")
    assert b"drawn" == (tmp_path / "static" / docs_diagrams.SCRIPT).read_bytes()
    assert [True] == asked
