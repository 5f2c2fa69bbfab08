"""
Tie a test to the clause that it checks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from anarchon_conformance.clauses import CLAUSES

__all__ = ["clause", "clause_of"]

Test = TypeVar("Test", bound=Callable[..., Any])

_ATTRIBUTE = "anarchon_clause"


def clause(clause_id: str) -> Callable[[Test], Test]:
    """
    Say which clause a test checks. The clause's level and needs come with it.

    Raises:
        KeyError: There is no such clause.
    """
    known = CLAUSES[clause_id].id

    def mark(test: Test) -> Test:
        setattr(test, _ATTRIBUTE, known)
        marked: Test = pytest.mark.anarchon_clause(known)(test)
        return marked

    return mark


def clause_of(test: Callable[..., Any]) -> str | None:
    """
    Tell the clause of a test; None if it has none.
    """
    found = getattr(test, _ATTRIBUTE, None)
    return found if isinstance(found, str) else None
