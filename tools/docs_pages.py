"""
Turn the repository's Markdown into pages of the site, as text to text.

The files are written for those who read them where they lie. On the site a link leads to the page of what it names,
a clause's number to the clause, and the name of a test to the test itself.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import prose

__all__ = ["CLAUSE", "Site", "clause_anchor", "page_of", "rendered", "toctrees"]

CLAUSE = re.compile(r"[A-Z]{3}-\d+")
_DEFINED = re.compile(r"^\*\*(?P<clause>[A-Z]{3}-\d+)\*\*")
_LINK = re.compile(r"(?P<text>!?\[[^\]\n]*\])\((?P<target>[^)\s]+)(?P<title> \"[^\"]*\")?\)")
# What is already a link or code keeps its text; the name of a test is code of its own.
_PIECES = re.compile(
    r"(?P<link>!?\[[^\]\n]*\]\([^)\n]*\))|`(?P<test>test_\w+)`|(?P<code>`+[^`\n]*`+)|(?P<clause>\b[A-Z]{3}-\d+\b)"
)
_HEADING = re.compile(r"^#{1,6} ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """
    What a page needs to know of the others.

    Args:
        pages: The page of each Markdown file, by the file's path in the repository.

        sources: The page of each other file that can be linked to.

        tests: The page and the anchor of each test, by its name. Names that two tests
            share are not there.

        clauses: The page on which each clause stands.

        shown_by: The page and the name of the tests that show a clause, where the
            specification does not say so itself.
    """

    pages: Mapping[str, str]
    sources: Callable[[str], str | None]
    tests: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    clauses: Mapping[str, str] = field(default_factory=dict)
    shown_by: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)


def page_of(path: str) -> str:
    """
    Name the page of a Markdown file: docs/ is the root of the site, the rest lies as in the repository.
    """
    return path.removeprefix("docs/").removesuffix(".md")


def clause_anchor(clause: str) -> str:
    """
    Name the target of a clause.
    """
    return f"clause-{clause.lower()}"


def rendered(path: str, text: str, site: Site) -> str:
    """
    Return the page of the file at *path*, relative to the repository, with its links made the site's.

    Raises:
        ValueError: A link leads to nothing that the site shows.
    """
    page = site.pages[path]
    lines: list[str] = []
    fence: str | None = None
    caption: str | None = None
    for line in text.splitlines():
        opened = prose.FENCE.match(line)
        if fence is not None:
            lines.append(line)
            if opened is not None and not opened["language"] and opened["ticks"] == fence:
                fence = None
            continue
        remark = prose.REMARK.match(line)
        if remark is not None:
            caption = _caption(remark) or caption
            continue
        if opened is not None:
            fence = opened["ticks"]
            lines.extend(_opened(line, opened["language"], caption))
            caption = None
            continue
        lines.extend(_line(line, path, page, site))
    return "\n".join(lines) + "\n"


def toctrees(path: str, text: str, site: Site) -> str:
    """
    Return the navigation that an index's headings and links stand for: a hidden tree for each heading.

    The index of a folder is that of the folder's own pages; the first one is that of all.
    """
    page, caption, seen = site.pages[path], "", {site.pages[path]}
    wide = posixpath.dirname(page) == ""
    trees: dict[str, list[str]] = {}
    for line in prose.without_blocks(text).splitlines():
        if line.startswith("## "):
            caption = line[3:].strip()
        for match in _LINK.finditer(line):
            target = _resolved(path, match["target"].partition("#")[0])
            found = site.pages.get(target)
            if found is not None and found not in seen and (wide or _beside(page, found)):
                seen.add(found)
                trees.setdefault(caption, []).append(found)
    return "".join(
        "\n```{toctree}\n:hidden:\n"
        + (f":caption: {name}\n" if name and wide else "")
        + "\n"
        + "".join(f"/{entry}\n" for entry in entries)
        + "```\n"
        for name, entries in trees.items()
    )


def _caption(remark: re.Match[str]) -> str | None:
    return remark["text"] if remark["word"] in {"file", "from"} else None


def _opened(line: str, language: str, caption: str | None) -> Iterator[str]:
    """
    Open a block, under the name of its file if it has one.
    """
    if caption is None:
        yield line
        return
    yield line.replace(f"`{language}", f"`{{code-block}} {language or 'text'}")
    yield f":caption: {caption}"
    yield ""


def _line(line: str, path: str, page: str, site: Site) -> Iterator[str]:
    defined = _DEFINED.match(line)
    if defined is not None and site.clauses.get(defined["clause"]) == page:
        clause = defined["clause"]
        yield f"({clause_anchor(clause)})="
        end = defined.end()
        yield line[:end] + _pieces(line[end:], path, page, site)
        tests = site.shown_by.get(clause, ())
        if tests:
            shown = ", ".join(_test_link(place, page) for place in tests)
            yield ""
            yield f"Shown by {shown}."
    elif _HEADING.match(line):
        yield line
    else:
        yield _pieces(line, path, page, site)


def _pieces(line: str, path: str, page: str, site: Site) -> str:
    def piece(match: re.Match[str]) -> str:
        if match["link"]:
            return _LINK.sub(lambda link: _link(link, path, page, site), match["link"])
        if match["test"]:
            return _test(match["test"], page, site)
        if match["clause"] and match["clause"] in site.clauses:
            return f"[{match['clause']}](#{clause_anchor(match['clause'])})"
        return match[0]

    return _PIECES.sub(piece, line)


def _test(name: str, page: str, site: Site) -> str:
    found = site.tests.get(name)
    if found is None:
        return f"`{name}`"
    return _test_link(found, page)


def _test_link(place: tuple[str, str], page: str) -> str:
    target, name = place
    return f"[`{name}`]({_relative(page, target)}.md#{name})"


def _link(match: re.Match[str], path: str, page: str, site: Site) -> str:
    """
    Lead a link to the page of what it names.
    """
    target = match["target"]
    if re.match(r"[a-z][a-z0-9+.-]*:", target) or target.startswith("#"):
        return match[0]
    file, _, anchor = target.partition("#")
    resolved = _resolved(path, file)
    name = match["text"].strip("[]`")
    if resolved not in site.pages and name in site.tests:
        return _test(name, page, site)
    found = site.pages.get(resolved) or site.sources(resolved)
    if found is None:
        msg = f"{path}: the link to {target} leads to nothing that the site shows"
        raise ValueError(msg)
    return f"{match['text']}({_relative(page, found)}.md{'#' + anchor if anchor else ''})"


def _beside(page: str, other: str) -> bool:
    return posixpath.dirname(page) == posixpath.dirname(other)


def _resolved(path: str, file: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), file))


def _relative(page: str, target: str) -> str:
    return posixpath.relpath(target, posixpath.dirname(page) or ".")
