"""
Install the wheels of dist/ into clean environments outside the repository, and use them there as a stranger would.

On the oldest and the newest Python of this machine: the README's programs run, the command starts, and the kit judges
every backend. The kit's outcomes are written to reports/ for the tally.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pythons
from prose import blocks
from repository import ROOT, Distribution, distributions

DIST = ROOT / "dist"
REPORTS = ROOT / "reports"
PROFILES = ("memory", "memory-claim", "sqlite")


class WheelError(Exception):
    """
    A wheel is not what it should be.
    """


def wheel_of(distribution: Distribution) -> Path:
    """
    Find the one wheel of a distribution.
    """
    found = list(DIST.glob(f"{distribution.module}-*.whl"))
    if len(found) != 1:
        raise WheelError(
            f"dist/ has {len(found)} wheels of {distribution.name}, not one: run `make build`."
        )
    return found[0]


def check_content(distribution: Distribution) -> None:
    """
    A wheel holds its package with types and licence, and nothing else of the repository.
    """
    wheel = wheel_of(distribution)
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    tops = {name.split("/")[0] for name in names}
    info = next(top for top in tops if top.endswith(".dist-info"))
    if tops != {distribution.module, info}:
        raise WheelError(f"{wheel.name} holds {sorted(tops)}.")
    for needed in (f"{distribution.module}/py.typed", f"{info}/licenses/LICENSE"):
        if needed not in names:
            raise WheelError(f"{wheel.name} lacks {needed}.")


def call(command: Sequence[str | Path], *, cwd: Path) -> None:
    """
    Run a command in a clean folder, with nothing of the repository in its surroundings.
    """
    print("$", *(str(part) for part in command), flush=True)
    clean = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "VIRTUAL_ENV", "COV"))
    }
    subprocess.run(command, cwd=cwd, env=clean, stdin=subprocess.DEVNULL, check=True, timeout=900)


def check_archives(python: Path, folder: Path) -> None:
    """
    The wheel built from a source archive has the same files as the wheel built from the repository.
    """
    for distribution in distributions():
        (archive,) = DIST.glob(f"{distribution.module}-*.tar.gz")
        call(
            [python, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, archive],
            cwd=folder,
        )
        wheel = wheel_of(distribution)
        with zipfile.ZipFile(wheel) as ours, zipfile.ZipFile(folder / wheel.name) as theirs:
            if sorted(ours.namelist()) != sorted(theirs.namelist()):
                raise WheelError(f"{archive.name} builds another wheel than the repository does.")


def check_installed(version: str, python: Path, folder: Path) -> None:
    """
    Make an environment, install the wheels and use them.
    """
    call([python, "-m", "venv", folder / "venv"], cwd=folder)
    ours = folder / "venv/bin/python"
    wheels: list[str | Path] = [wheel_of(distribution) for distribution in distributions()]
    call(
        [ours, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *wheels],
        cwd=folder,
    )
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    modules = ", ".join(distribution.module for distribution in distributions())
    check = f"import {modules}; import anarchon, sys; assert sys.prefix in anarchon.__file__, anarchon.__file__"
    call([ours, "-c", check], cwd=elsewhere)
    for page in [
        ROOT / "README.md",
        *(distribution.folder / "README.md" for distribution in distributions()),
    ]:
        for block in blocks(page, page.read_text(encoding="utf-8")):
            if block.language == "python" and block.exempt is None:
                script = elsewhere / f"readme_{block.line}.py"
                script.write_text(block.code, encoding="utf-8")
                call([ours, "-W", "error", script], cwd=elsewhere)
    call([folder / "venv/bin/anarchon", "backends"], cwd=elsewhere)
    for profile in PROFILES:
        junit = REPORTS / f"wheels-{version}-{profile}.xml"
        kit = ["-m", "anarchon_conformance", f"--anarchon-backend={profile}"]
        call([ours, *kit, f"--junitxml={junit}"], cwd=elsewhere)


def main() -> int:
    """
    Check the wheels' content, then use them on each Python.
    """
    parser = argparse.ArgumentParser(description="Use the wheels of dist/ in clean environments.")
    parser.add_argument(
        "--every", action="store_true", help="on every Python found, not only the oldest and newest"
    )
    options = parser.parse_args()
    found = {f"{major}.{minor}": path for (major, minor), path in pythons.supported().items()}
    chosen = (
        found
        if options.every
        else {name: found[name] for name in (min(found, key=_key), max(found, key=_key))}
    )
    REPORTS.mkdir(exist_ok=True)
    try:
        for distribution in distributions():
            check_content(distribution)
        with tempfile.TemporaryDirectory(prefix="anarchon-archives-") as folder:
            check_archives(Path(sys.executable), Path(folder))
        for version, python in chosen.items():
            print(f"--- wheels on Python {version} ({python})", flush=True)
            with tempfile.TemporaryDirectory(prefix="anarchon-wheels-") as folder:
                check_installed(version, python, Path(folder))
    except (WheelError, subprocess.SubprocessError) as error:
        print(f"wheels: FAILED: {error}")
        return 1
    print(f"wheels: fine on Python {', '.join(chosen)}")
    return 0


def _key(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))


if __name__ == "__main__":
    raise SystemExit(main())
