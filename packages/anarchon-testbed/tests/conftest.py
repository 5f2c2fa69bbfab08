"""
What the testbed's own tests share.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

AWAITED_S_MAX = 60


@pytest.fixture
def until() -> Callable[[Callable[[], bool]], bool]:
    """
    Give a wait for a condition that nobody announces; false where it does not come.
    """

    def wait(condition: Callable[[], bool]) -> bool:
        end = time.monotonic() + AWAITED_S_MAX
        while not (met := condition()) and time.monotonic() < end:
            time.sleep(0.005)  # Nobody announces it: it is looked at again.
        return met

    return wait


@pytest.fixture
def is_gone() -> Callable[[int], bool]:
    """
    Give a look at whether a process has ended; one that only waits to be reaped has.
    """

    def look(pid: int) -> bool:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        stat = Path(f"/proc/{pid}/stat")
        try:
            return stat.parent.parent.exists() and ") Z " in stat.read_text()
        except OSError:
            return stat.parent.parent.joinpath("self").exists()

    return look


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """
    Take every server away: an empty cache, a PATH without one, and no URL. Gives the cache.
    """
    for name in list(os.environ):
        if name.startswith("ANARCHON_TEST"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("ANARCHON_TESTBED_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tmp_path / "cache"
