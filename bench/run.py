"""
Run every benchmark, each beside its floor in the same run.

Figures are ratios: machines are shared, and an absolute time says little. A
verdict is only taken where a promise is one (slots against the parser's search).

    python bench/run.py [--quick] [--json FOLDER]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).parent


def main() -> int:
    """
    Run them one after the other; the exit status is the worst of theirs.
    """
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="fewer rounds, a shorter idle time")
    parser.add_argument("--json", type=Path, help="write each benchmark's figures into this folder")
    arguments = parser.parse_args()
    plans: list[tuple[str, list[str]]] = [
        ("slots.py", []),
        ("sqlite_store.py", ["--rounds", "2"] if arguments.quick else []),
        ("lateness.py", ["--rounds", "1"] if arguments.quick else []),
        ("resources.py", ["--seconds", "10"] if arguments.quick else []),
    ]
    worst = 0
    for script, options in plans:
        print(f"\n== {script}", flush=True)
        command = [sys.executable, str(BENCH / script), *options]
        if arguments.json and script != "slots.py":
            arguments.json.mkdir(parents=True, exist_ok=True)
            command += ["--json", str(arguments.json / script.replace(".py", ".json"))]
        worst = max(worst, subprocess.run(command, check=False).returncode)
    return worst


if __name__ == "__main__":
    sys.exit(main())
