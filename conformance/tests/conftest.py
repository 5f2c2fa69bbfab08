"""
What the kit's own tests share.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

Run = Callable[..., pytest.RunResult]


@pytest.fixture
def kit(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    """
    Run a module of the kit in a stranger's project, in a process of its own.
    """
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)

    def run(module: str, *arguments: str) -> pytest.RunResult:
        name = f"anarchon_conformance.{module}" if module else "anarchon_conformance"
        return pytester.runpytest_subprocess(
            "--pyargs", name, "-p", "no:cacheprovider", *arguments, timeout=100
        )

    return run
