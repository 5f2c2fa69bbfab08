"""
The benchmarks run: one that nobody runs rots unseen.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import repository


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_every_benchmark_runs_and_is_drawn(tmp_path: Path) -> None:
    """
    In their shortest form all of them end well, each leaves its figures, and the picture shows them.
    """
    command = [sys.executable, "-m", "bench", "--quick", "--out", str(tmp_path)]
    done = subprocess.run(
        command, cwd=repository.ROOT, capture_output=True, text=True, check=False, timeout=300
    )

    assert 0 == done.returncode, done.stdout + done.stderr

    stores = {path.stem for path in (repository.ROOT / "bench").glob("*_store.py")}
    figures = {path.stem: json.loads(path.read_text()) for path in tmp_path.glob("*.json")}

    assert stores | {"growth", "lateness_redis", "resources", "slots"} <= figures.keys()
    assert all(figures[store]["rows"] for store in stores)

    words = "".join(ET.parse(tmp_path / "bench.svg").getroot().itertext())

    assert [] == [store for store in stores if figures[store]["title"] not in words]
