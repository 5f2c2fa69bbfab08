"""
Build the site from the repository's Markdown: `make docs`.

The pages are staged in a folder of their own first, where links are made the site's and what prose names (tests,
files, clauses) gets pages too; Sphinx reads that folder, and every warning is an error.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

import prose
import repository
from docs_diagrams import VERSION, serve_script
from docs_pages import Site, page_of, rendered, toctrees
from docs_sources import FILES, FOLDER, clause_tests, clauses_in, source_page, test_index

OUTPUT = repository.ROOT / ".cache/docs"
_SOURCE_LINK = re.compile(rf"\]\((?:\.\./)*({FOLDER}/[^)#]+)\.md(?:#[^)]*)?\)")


def shown_files() -> list[Path]:
    """
    Give the Markdown files that are pages: those of docs/, and those that they or each other link to.
    """
    every = {path: path.read_text(encoding="utf-8") for path in repository.files(".md")}
    docs = repository.ROOT / "docs"
    shown = {path for path in every if path.is_relative_to(docs) and not _is_fragment(path)}
    waiting = list(shown)
    while waiting:
        path = waiting.pop()
        for _, target in prose.links(every[path]):
            found = (path.parent / target.partition("#")[0]).resolve()
            if found in every and found not in shown and not _is_fragment(found):
                shown.add(found)
                waiting.append(found)
    return sorted(shown)


def _is_fragment(path: Path) -> bool:
    return path.parent.name == "changes" and path.name != "README.md"


def stage(folder: Path) -> int:
    """
    Write the site's sources into *folder*, and return how many pages there are.
    """
    root = repository.ROOT
    listed = frozenset(path.relative_to(root).as_posix() for path in repository.every_file())
    folders = {parent.as_posix() for name in listed for parent in Path(name).parents}
    files = shown_files()
    texts = {path.relative_to(root).as_posix(): path.read_text(encoding="utf-8") for path in files}
    python = list(repository.files(".py"))
    site = Site(
        pages={path: page_of(path) for path in texts},
        sources=lambda place: f"{FOLDER}/{place}" if place in listed or place in folders else None,
        tests=test_index(root, python),
        clauses={
            clause: page_of(path)
            for path, text in texts.items()
            if path.startswith("specs/")
            for clause in clauses_in(text)
        },
        shown_by=clause_tests(root, (path for path in python if path.name.startswith("test_"))),
    )
    pages: dict[str, str] = {}
    for path, text in texts.items():
        page = rendered(path, text, site)
        if path.endswith("index.md"):
            page += toctrees(path, text, site)
        pages[site.pages[path]] = page
    linked = {place for page in pages.values() for place in _SOURCE_LINK.findall(page)}
    for place in linked:
        pages[place] = source_page(root, place.removeprefix(f"{FOLDER}/"), listed)
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.rglob("*.md"):
        if old.relative_to(folder).with_suffix("").as_posix() not in pages:
            old.unlink()
    for name, page in pages.items():
        _write(folder / f"{name}.md", page)
    for name, place in {"conf.py": "conf.py", "site.css": "_static/site.css"}.items():
        _write(folder / place, (root / "docs" / name).read_text(encoding="utf-8"))
    serve_script(folder / "_static")
    if not (folder / FILES).exists():
        (folder / FILES).symlink_to(root, target_is_directory=True)
    return len(pages)


def _write(path: Path, text: str) -> None:
    """
    Write a file unless it says the same already, so that Sphinx reads only what has changed.
    """
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def main() -> int:
    """
    Stage and build; end with Sphinx's own status.
    """
    parser = argparse.ArgumentParser(description="Build the documentation as a site.")
    parser.add_argument("--fresh", action="store_true", help="forget what was built before")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="the folder to build in")
    options = parser.parse_args()
    output = options.output.resolve()
    if options.fresh:
        shutil.rmtree(output, ignore_errors=True)
    try:
        count = stage(output / "pages")
    except ValueError as error:
        print(error)
        return 1
    print(f"{count} pages staged in {output / 'pages'}", flush=True)
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-b",
        "html",
        "-q",
        "-W",
        "--keep-going",
        "-a",
        "-j",
        "auto",
        "-D",
        f"mermaid_version={VERSION}",
    ]
    command += ["-d", str(output / "trees"), str(output / "pages"), str(output / "html")]
    status = subprocess.run(command, cwd=repository.ROOT, check=False).returncode
    if status:
        # What was read is not read again, and its warnings would not be told a second time.
        shutil.rmtree(output / "trees", ignore_errors=True)
    print(f"{output / 'html/index.html'}" if status == 0 else "The site has faults: see above.")
    return status


if __name__ == "__main__":
    raise SystemExit(main())
