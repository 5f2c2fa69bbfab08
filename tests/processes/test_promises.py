"""
The page of promises names tests that exist.
"""

from __future__ import annotations

import re

import repository

PAGE = repository.ROOT / "docs/guides/what-is-promised.md"


def test_each_promise_names_tests_that_exist() -> None:
    """
    Whoever follows a promise arrives at the test that shows it.
    """
    promises = PAGE.read_text(encoding="utf-8").split("\n## ")[1:-1]
    named = [re.findall(r"\[(test_\w+)\]\(([^)]+)\)", promise) for promise in promises]
    missing = [
        f"{file}: {name}"
        for links in named
        for name, file in links
        if f"def {name}(" not in (PAGE.parent / file).read_text(encoding="utf-8")
    ]

    assert [] == missing
    assert len(promises) >= 14
    assert all(named)
