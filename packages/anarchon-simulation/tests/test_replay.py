"""
The same seed gives the same run: in every process, and on every supported Python.
"""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import pythons

SEEDS = "1 2 3 14 21"
PROGRAM = """
import sys
from anarchon_simulation.drawing import draw_plan
from anarchon_simulation.scenario import run_plan
for seed in sys.argv[1].split():
    for order in ("fifo", "task"):
        print(seed, order, run_plan(draw_plan(int(seed), order=order)).digest)
"""


def digests(python: str, hash_seed: int) -> str:
    """
    Run the seeds in a process of its own, whose sets of strings iterate in an order of their own.

    Another Python finds the pure Python packages of this one.
    """
    path = os.pathsep.join(
        entry for entry in sys.path if Path(entry).name in ("src", "site-packages")
    )
    return subprocess.run(
        [python, "-c", PROGRAM, SEEDS],
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed), "PYTHONPATH": path},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    ).stdout


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_eight_processes_agree() -> None:
    """
    Eight processes with eight hash seeds print the same digests.
    """
    with ThreadPoolExecutor(2) as pool:
        printed = list(pool.map(lambda hash_seed: digests(sys.executable, hash_seed), range(8)))

    assert 10 == len(printed[0].splitlines())
    assert {printed[0]} == set(printed)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_oldest_and_newest_python_agree() -> None:
    """
    The oldest and the newest supported Python of this machine print the same digests.
    """
    found = [str(python) for python in pythons.supported().values()]

    printed = {digests(python, 0) for python in (found[0], found[-1], sys.executable)}

    assert 1 == len(printed)
