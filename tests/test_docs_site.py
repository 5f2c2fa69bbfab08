"""
The site shows what there is: every page, every public name, every clause that is spoken of.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import build_docs
import prose
import pytest
import repository
from docs_pages import CLAUSE, Site, page_of, rendered, toctrees
from docs_sources import clause_tests, clauses_in, source_page, test_index

DOCS = repository.ROOT / "docs"
PROMISES = DOCS / "guides/what-is-promised.md"
APART = {"Idleness is cheap", "What nobody can promise"}
"""
Sections of the page of promises that are about no store and no lease.
"""


def known_clauses() -> set[str]:
    """
    Name every clause of the specifications.
    """
    return {
        clause
        for path in (repository.ROOT / "specs").glob("*.md")
        for clause in clauses_in(path.read_text(encoding="utf-8"))
    }


def test_every_page_is_in_the_index() -> None:
    """
    Who follows the links from the index comes to every page.
    """
    every = {path.resolve(): path.read_text(encoding="utf-8") for path in build_docs.shown_files()}
    reached, waiting = set(), [DOCS / "index.md"]
    while waiting:
        path = waiting.pop()
        reached.add(path)
        for _, target in prose.links(every[path]):
            found = (path.parent / target.partition("#")[0]).resolve()
            if found in every and found not in reached:
                waiting.append(found)

    assert [] == sorted(str(path) for path in set(every) - reached)


def test_every_page_is_in_the_navigation() -> None:
    """
    An index lists every page, so that no page can be come to by a link in some text alone.
    """
    texts = {
        path.relative_to(repository.ROOT).as_posix(): path.read_text(encoding="utf-8")
        for path in build_docs.shown_files()
    }
    site = Site(pages={path: page_of(path) for path in texts}, sources=lambda _: None)
    listed = "".join(
        toctrees(path, text, site) for path, text in texts.items() if path.endswith("index.md")
    ).splitlines()

    assert ["index"] == [page for page in site.pages.values() if f"/{page}" not in listed]


def test_every_clause_that_is_spoken_of_exists() -> None:
    """
    A clause's number in prose is one of the specifications.
    """
    known = known_clauses()
    families = {clause.partition("-")[0] for clause in known}
    wrong = [
        f"{path.relative_to(repository.ROOT)}: {clause}"
        for path in build_docs.shown_files()
        for clause in CLAUSE.findall(path.read_text(encoding="utf-8"))
        if clause not in known and clause.partition("-")[0] in families
    ]

    assert [] == wrong


def test_every_promise_names_its_clauses() -> None:
    """
    Each section of the page of promises says which clauses make it, and which tests show it.
    """
    sections = PROMISES.read_text(encoding="utf-8").split("\n## ")[1:]
    without = [
        section.partition("\n")[0]
        for section in sections
        if section.partition("\n")[0] not in APART
        and not (CLAUSE.search(section) and "test_" in section)
    ]

    assert len(sections) > len(APART)
    assert [] == without


def public_names() -> Iterator[tuple[str, str]]:
    """
    Give what a program imports: the names of the core and of each backend, in the modules that the reference is for.
    """
    for module in ("anarchon", "anarchon.events", "anarchon.errors", "anarchon.protocol"):
        for name in importlib.import_module(module).__all__:
            yield module, name
    for distribution in repository.distributions():
        groups = distribution.project["project"].get("entry-points", {})
        for value in groups.get("anarchon.backends", {}).values():
            module, _, name = value.partition(":")
            yield module.partition(".")[0], name


def test_every_public_name_is_in_the_reference() -> None:
    """
    The reference names, or takes in with its module, whatever a program may import.
    """
    text = "".join(path.read_text(encoding="utf-8") for path in (DOCS / "reference").glob("*.md"))
    modules = set(re.findall(r"automodule:: (\S+)\n   :members:", text))
    objects = set(re.findall(r"auto(?:class|function):: ([\w.]+)", text))
    missing = []
    for module, name in public_names():
        thing = getattr(importlib.import_module(module), name)
        if inspect.isclass(thing) or inspect.isfunction(thing):
            shown = {f"{module}.{name}", f"{thing.__module__}.{name}"} & objects
            if not shown and thing.__module__ not in modules:
                missing.append(f"{module}.{name}")

    assert [] == missing


# How a file becomes a page.


@pytest.fixture
def site() -> Site:
    """
    Give a site of two pages, a test and a clause.
    """
    return Site(
        pages={"docs/a.md": "a", "specs/b.md": "specs/b"},
        sources=lambda place: f"source/{place}" if place == "tools/c.py" else None,
        tests={"test_it": ("source/tests/test_c.py", "test_it")},
        clauses={"ABC-1": "specs/b"},
        shown_by={"ABC-1": (("source/tests/test_c.py", "test_it"),)},
    )


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("see [b](../specs/b.md#x)", "see [b](specs/b.md#x)"),
        ("see [c](../tools/c.py)", "see [c](source/tools/c.py.md)"),
        ("[elsewhere](https://example.org/)", "[elsewhere](https://example.org/)"),
        ("by ABC-1, not ABC-2", "by [ABC-1](#clause-abc-1), not ABC-2"),
        ("`ABC-1` is code", "`ABC-1` is code"),
        ("`test_it` shows", "[`test_it`](source/tests/test_c.py.md#test_it) shows"),
        ("`test_other`", "`test_other`"),
        ("[test_it](../tests/test_c.py)", "[`test_it`](source/tests/test_c.py.md#test_it)"),
    ],
)
def test_links_become_the_sites(site: Site, line: str, expected: str) -> None:
    """
    A link leads to the page of its file, a clause to its text, a test to its source.
    """
    assert f"{expected}\n" == rendered("docs/a.md", f"{line}\n", site)


def test_a_link_that_the_site_does_not_show_is_an_error(site: Site) -> None:
    """
    A page with a dead link is not written.
    """
    with pytest.raises(ValueError, match="leads to nothing"):
        rendered("docs/a.md", "[gone](gone.md)\n", site)


def test_a_clause_gets_an_anchor_and_its_tests(site: Site) -> None:
    """
    Where a clause is defined its number can be linked to, and the tests that carry its mark are named.
    """
    page = rendered("specs/b.md", "**ABC-1** (MUST) It holds.\n", site)

    assert page.startswith("(clause-abc-1)=\n**ABC-1** (MUST) It holds.\n")
    assert "Shown by [`test_it`](../source/tests/test_c.py.md#test_it)." in page


def test_a_clause_leads_to_its_test_whoever_shares_the_name(site: Site) -> None:
    """
    Two tests of one name are no excuse: the one with the clause's mark is meant.
    """
    page = rendered("specs/b.md", "**ABC-1** It holds.\n", replace(site, tests={}))

    assert "Shown by [`test_it`](../source/tests/test_c.py.md#test_it)." in page


def test_a_remark_becomes_a_caption_and_code_stays(site: Site) -> None:
    """
    A named block shows its name; what is in a block is left alone.
    """
    text = "<!-- file: x.py -->\n<!-- no-run: it waits -->\n```python\n# ABC-1 [b](b.md)\n```\n"

    assert "```{code-block} python\n:caption: x.py\n\n# ABC-1 [b](b.md)\n```\n" == rendered(
        "docs/a.md", text, site
    )


def test_an_index_is_the_navigation(site: Site) -> None:
    """
    Each heading with links becomes a tree, and no page is in it twice.
    """
    pages = {"docs/index.md": "index", **site.pages}
    whole = Site(pages=pages, sources=site.sources)
    text = "# Top\n\n## One\n\n[a](a.md), [a again](a.md)\n\n## Two\n\n[b](../specs/b.md)\n"

    trees = toctrees("docs/index.md", text, whole)

    assert trees.index(":caption: One\n\n/a\n") < trees.index(":caption: Two\n\n/specs/b\n")
    assert 1 == trees.count("/a\n")


def test_tests_and_their_marks_are_found(tmp_path: Path) -> None:
    """
    A test is known by its name if no other has it, and a clause by the tests that carry its mark.
    """
    first, second = tmp_path / "test_a.py", tmp_path / "test_b.py"
    first.write_text(
        '@clause("ABC-1")\ndef test_one(): ...\ndef test_two(): ...\n', encoding="utf-8"
    )
    second.write_text("def test_two(): ...\n", encoding="utf-8")

    assert {"test_one": ("source/test_a.py", "test_one")} == test_index(tmp_path, [first, second])
    assert {"ABC-1": (("source/test_a.py", "test_one"),)} == clause_tests(tmp_path, [first, second])
    assert "## test_one" in source_page(tmp_path, "test_a.py", frozenset())


def test_pages_lie_where_readers_look() -> None:
    """
    docs/ is the root of the site; everything else lies as in the repository.
    """
    assert ("start", "specs/slots") == (page_of("docs/start.md"), page_of("specs/slots.md"))
