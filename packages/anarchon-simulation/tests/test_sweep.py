"""
A sweep leaves nothing behind, whatever ends it.
"""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

PROGRAM = """
from anarchon_simulation.sweep import sweep

for total in sweep(range(1_000), processes=2, chunk=1):
    if total.seeds == 1:
        print(total.seeds, flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM], ids=lambda how: how.name)
def test_killed_sweep_leaves_no_worker_behind(how: signal.Signals) -> None:
    """
    Its workers share its output, which ends when the last of them has ended.
    """
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline().strip().isdigit()

        process.send_signal(how)
        left = (
            process.stdout.read()
        )  # Returns when nobody is left; the test's timeout is its bound.

        assert -how == process.wait()
        assert "Traceback" not in left
