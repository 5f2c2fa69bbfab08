"""
What the kit's own tests share.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

# Runs within this process would import it each time: pytester puts the modules back that were there before.
import anarchon_conformance.session  # noqa: F401 - see above

Run = Callable[..., pytest.RunResult]


@pytest.fixture
def kit(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """
    Run a module of the kit in a stranger's project; in a process of its own where it has to be.
    """
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)

    def run(module: str, *arguments: str, alone: bool = False) -> pytest.RunResult:
        name = f"anarchon_conformance.{module}" if module else "anarchon_conformance"
        options = ("--pyargs", name, "-p", "no:cacheprovider", *arguments)
        if alone:
            return pytester.runpytest_subprocess(*options, timeout=100)
        return pytester.runpytest_inprocess(*options)

    return run
