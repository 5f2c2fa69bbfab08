"""
Run the conformance kit on every backend of this repository, and write the certificates into docs/backends/.

A page a distribution, `<store>-certificate.md`, with a section for each profile that it
registers. Name distributions to renew only theirs.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

import anarchon_testbed as testbed

PAGES = Path(__file__).resolve().parent.parent / "docs" / "backends"
GROUP = "anarchon.conformance"
CORE = "anarchon"
OLDEST_REDIS = "7.0"


def profiles() -> dict[str, list[EntryPoint]]:
    """
    Find the profiles of every installed distribution that registers some, but for the core's: memory has no page.
    """
    found = defaultdict(list)
    for point in sorted(entry_points(group=GROUP), key=lambda each: each.name):
        assert point.dist is not None
        if point.dist.name != CORE:
            found[point.dist.name].append(point)
    return dict(found)


def oldest(distribution: str) -> Iterator[tuple[str, bool, str]]:
    """
    Run the kit on the oldest server that is supported, where no profile of a distribution's does.
    """
    if distribution != "anarchon-redis":
        return
    with testbed.redis(OLDEST_REDIS) as server:
        for profile in ("redis-lease", "redis-script", "redis-stream-id"):
            conforms, text = section(profile, ANARCHON_TEST_REDIS_URL=server.url)
            name = f"{profile} on Redis {OLDEST_REDIS}"
            yield name, conforms, text.replace(f"## {profile}\n", f"## {name}\n", 1)


def section(profile: str, **environment: str) -> tuple[bool, str]:
    """
    Run the kit on one profile; say whether it conforms, and what its certificate says.
    """
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "certificate.md"
        ended = subprocess.run(
            [
                *(sys.executable, "-m", "anarchon_conformance"),
                *(f"--anarchon-backend={profile}", f"--anarchon-report={report}"),
            ],
            env=os.environ | environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        text = report.read_text("utf-8") if report.exists() else ended.stdout
    # A store that is a file lies in a folder of this run, which says nothing to a reader.
    text = re.sub(rf"{re.escape(tempfile.gettempdir())}/[^/\s]*/", "", text)
    return ended.returncode == 0, text


def page(distribution: str, sections: Sequence[str]) -> str:
    """
    Put the sections of a distribution under one title.
    """
    parts = [f"# Conformance of {distribution}\n"]
    for text in sections:
        body = text.split("\n", 1)[1] if text.startswith("# ") else text
        parts.append(body.strip() + "\n")
    return "\n".join(parts)


def main() -> int:
    """
    Write the pages, and end with 1 if a profile does not conform; its page is left as it was.
    """
    parser = argparse.ArgumentParser(description="Write the certificates into docs/backends/.")
    parser.add_argument("distribution", nargs="*", help="such as anarchon-redis; all by default")
    wanted = parser.parse_args().distribution
    failed = []
    for distribution, points in profiles().items():
        if wanted and distribution not in wanted:
            continue
        told = [(point.name, *section(point.name)) for point in points]
        told += oldest(distribution)
        names = [name for name, _, _ in told]
        bad = [name for name, conforms, _ in told if not conforms]
        print(f"{distribution}: {', '.join(names)}; failed: {', '.join(bad) or 'none'}", flush=True)
        failed += bad
        if not bad:
            store = distribution.removeprefix("anarchon-")
            target = PAGES / f"{store}-certificate.md"
            target.write_text(page(distribution, [text for _, _, text in told]), "utf-8")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
