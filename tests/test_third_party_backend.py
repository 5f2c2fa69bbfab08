"""
The page on writing a backend is true: its example passes the kit, is found by its name, and the kit sees its faults.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import repository

from anarchon import BackendError, ClaimAnswer, ClaimRequest, Retention
from anarchon.protocol import Change, decide_claim
from anarchon_conformance import BackendProfile, run_clause
from anarchon_lmdb import LmdbBackend
from anarchon_lmdb.backend import _environment
from anarchon_lmdb.conformance import profile

EXAMPLE = repository.ROOT / "examples/lmdb"
TIMEOUT_S = 300


class TwoSteps(LmdbBackend):
    """
    A backend that looks in one transaction and writes in another: the mistake that CLM-1 is about.
    """

    async def claim(
        self, requests: Sequence[ClaimRequest], *, timeout_ms: int
    ) -> Sequence[ClaimAnswer | BackendError]:
        """
        Decide on what may be out of date by the time that it is written.
        """

        def look() -> list[Change[ClaimAnswer]]:
            with _environment(self._path).begin() as transaction:
                book, now = self._book(transaction), self._now()
                return [decide_claim(book.state(each.job), each, now) for each in requests]

        def write() -> None:
            with _environment(self._path).begin(write=True) as transaction:
                book, now = self._book(transaction), self._now()
                for request, change in zip(requests, changes, strict=True):
                    if change.state is not None:
                        book.keep(request.job, change.state)
                    book.write(request.job, change.records, now)

        changes = await self._call(look, timeout_ms)
        await self._call(write, timeout_ms)
        return [change.answer for change in changes]


def opener(kind: type[LmdbBackend], folder: Path) -> BackendProfile:
    """
    Make a profile of a backend in a folder of the test.
    """

    @asynccontextmanager
    async def opened(
        namespace: str, /, *, retention: Retention | None = None
    ) -> AsyncIterator[LmdbBackend]:
        backend = kind(folder, prefix=namespace[-60:], retention=retention)
        await backend.open(timeout_ms=15_000)
        try:
            yield backend
        finally:
            await backend.close()

    return BackendProfile(name=kind.__name__, open=opened)


@pytest.mark.slow
def test_the_kit_sees_a_claim_in_two_steps(tmp_path: Path) -> None:
    """
    What the page tells to break does break, in the clause that it names; the sound backend passes that clause.
    """
    broken = run_clause(opener(TwoSteps, tmp_path / "broken"), "CLM-1")
    sound = run_clause(opener(LmdbBackend, tmp_path / "sound"), "CLM-1")

    assert ("failed", "passed") == (broken.outcome, sound.outcome)


@pytest.mark.slow
@pytest.mark.timeout(TIMEOUT_S)
def test_the_example_gets_its_certificate(tmp_path: Path) -> None:
    """
    Installed as any distribution, the example is found by its name and conforms.
    """
    install = [
        "install",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--disable-pip-version-check",
    ]
    subprocess.run(
        [sys.executable, "-m", "pip", *install, "--target", tmp_path, EXAMPLE],
        check=True,
        timeout=TIMEOUT_S,
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    backends = subprocess.run(
        [sys.executable, "-m", "anarchon_cli", "backends"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=TIMEOUT_S,
    ).stdout
    # Most of the kit waits for leases to run out, so that four at a time take a quarter of the time.
    kit = subprocess.run(
        [sys.executable, "-m", "anarchon_conformance", "--anarchon-backend=lmdb", "-n", "4"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )

    assert (
        "anarchon_lmdb.backend.LmdbBackend" in backends or "anarchon_lmdb.LmdbBackend" in backends
    )
    assert 0 == kit.returncode, kit.stdout
    assert "lmdb: CONFORMS (lease)" in kit.stdout
    assert profile.waivers == {}
