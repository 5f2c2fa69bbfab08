"""
What the tests with real processes share: a stage that never outlives its test, and a place for figures.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from instances import Stage


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    """
    Give a stage whose processes end with the test.
    """
    with Stage(tmp_path) as stage:
        yield stage


@pytest.fixture
def soak_s() -> int:
    """
    Say for how many seconds a figure is taken: 20, or 60 with ``ANARCHON_SOAK=1``.
    """
    return 60 if os.environ.get("ANARCHON_SOAK") == "1" else 20


@pytest.fixture
def figures(
    record_property: Callable[[str, object], None], capsys: pytest.CaptureFixture[str]
) -> Callable[..., None]:
    """
    Print figures past the capture, and put them into the report.
    """

    def figures(**values: object) -> None:
        for name, value in values.items():
            record_property(name, value)
        with capsys.disabled():
            print("\n  " + ", ".join(f"{name} {value}" for name, value in values.items()))

    return figures
