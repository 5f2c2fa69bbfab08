"""
Run every benchmark, each beside its floor in the same run, and draw what they found.

Figures are ratios: machines are shared, and an absolute time says little. A benchmark
that fails fails the run; a target that was not reached is told, and fails nothing: on
another machine, or beside another load, it may be.

    python -m bench [--quick] [--only NAME ...] [--out FOLDER]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from anarchon_testbed import shared_url
from bench.plot import draw

ROOT = Path(__file__).parent.parent
BENCH = Path(__file__).parent
QUICK = ("--rounds", "1", "--singles", "5", "--batch", "50")
LATENESS_QUICK = (
    "--rounds",
    "1",
    "--only",
    "burst",
    "--jobs",
    "20",
    "--slots",
    "1",
    "--interval-ms",
    "1000",
)

Plan = tuple[str, str, Sequence[str]]


def plans_of(*, quick: bool) -> list[Plan]:
    """
    Name every benchmark: what its figures are called, its module, and what it is told.
    """
    store = QUICK if quick else ()
    plans: list[Plan] = [("slots", "slots", ("--rounds", "1", "--instants", "20") if quick else ())]
    # A store's benchmark is found by its name; those of Redis run on Valkey too.
    plans += [(path.stem, path.stem, store) for path in sorted(BENCH.glob("*_store.py"))]
    plans.append(("valkey_store", "redis_store", (*store, "--kind", "valkey")))
    plans.append(("growth", "growth", ("--turns", "1", "--most", "10") if quick else ()))
    for name in ("sqlite", "redis", "postgres"):
        shorter = LATENESS_QUICK if quick else ()
        plans.append((f"lateness_{name}", "lateness", ("--store", name, *shorter)))
    plans.append(("resources", "resources", ("--seconds", "1", "--jobs", "50") if quick else ()))
    return plans


def targets_of(folder: Path) -> list[str]:
    """
    Collect what was aimed at, and whether it was reached.
    """
    found = []
    for path in sorted(folder.glob("*_store.json")):
        told = json.loads(path.read_text(encoding="utf-8"))
        for target in told.get("targets", []):
            verdict = "reached" if target["reached"] else "not reached"
            limit = f"at {'least' if target['at_least'] else 'most'} {target['bound']:g}"
            found.append(
                f"{told['title']}: {target['name']}: {target['figure']:.2f} ({limit}): {verdict}"
            )
    return found


def main() -> int:
    """
    Run them one after the other; the exit status is the worst of theirs.
    """
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="only show that each of them runs")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="such as redis_store or growth")
    parser.add_argument("--out", type=Path, default=ROOT / "reports/bench")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    plans = plans_of(quick=arguments.quick)
    if arguments.only is not None:
        plans = [plan for plan in plans if plan[0] in arguments.only]
        if not plans:
            parser.error(f"no such benchmark: {', '.join(arguments.only)}")
    if any(name.split("_")[-1] in ("redis", "growth") for name, _, _ in plans):
        # One server for all that can share it; those that start later find it by themselves.
        shared_url("redis")
    worst = 0
    for name, module, options in plans:
        print(f"\n== {name}", flush=True)
        path = (arguments.out / f"{name}.json").absolute()
        command = [sys.executable, "-m", f"bench.{module}", *options, "--json", str(path)]
        done = subprocess.run(command, check=False, cwd=ROOT)
        worst = max(worst, abs(done.returncode))
    print("\n== targets")
    print("\n".join(targets_of(arguments.out)))
    print(f"\nfigures and picture: {draw(arguments.out)}")
    return worst


if __name__ == "__main__":
    sys.exit(main())
