"""
Find spin, the model checker, or bring it here.

The order is: PATH; the project's cache; Debian's package, unpacked into the cache without a change to the system; and
where the machine is there to be changed (CI=true or ANARCHON_TESTBED=install), the system's own packages.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from anarchon_testbed.cache import cache_folder, locked
from anarchon_testbed.debian import (
    DebianPackage,
    Release,
    loader_of,
    obtain_package,
    why_not_debian,
)
from anarchon_testbed.errors import ServerUnavailableError

__all__ = ["obtain_compiler", "obtain_spin"]

PACKAGE = DebianPackage(release=Release(suite="bookworm"), name="spin")
INSTALL_SECONDS_MAX = 300


def obtain_spin() -> tuple[str, ...]:
    """
    Give the words that start spin 6.

    Raises:
        ServerUnavailableError: It cannot be had here; the message says how to get it.
    """
    reasons = []
    if (found := shutil.which("spin")) is not None:
        if _is_model_checker((found,)):
            return (found,)
        reasons.append(
            f"{found} is another program of that name"
        )  # A tool of the same name exists.
    try:
        return _unpacked()
    except ServerUnavailableError as error:
        reasons.append(str(error))
    if _may_install():
        for command in _installers():
            subprocess.run(
                command, check=False, timeout=INSTALL_SECONDS_MAX, stdin=subprocess.DEVNULL
            )
        found = shutil.which("spin")
        if found is not None and _is_model_checker((found,)):
            return (found,)
        reasons.append("the system's packages did not bring it either")
    advice = "brew install spin" if sys.platform == "darwin" else "apt-get install spin"
    msg = f"spin, which checks the model, is not here: {'; '.join(reasons)}. `{advice}` gets it."
    raise ServerUnavailableError(msg)


def obtain_compiler() -> str:
    """
    Give the C compiler that turns a model into its checker.

    Raises:
        ServerUnavailableError: There is none; the message says how to get it.
    """
    for name in (os.environ.get("CC"), "gcc", "cc", "clang"):
        if name and (found := shutil.which(name)) is not None:
            return found
    advice = "xcode-select --install" if sys.platform == "darwin" else "apt-get install gcc"
    msg = f"a C compiler, which the model's checker needs, is not here: `{advice}` gets it."
    raise ServerUnavailableError(msg)


def _unpacked() -> tuple[str, ...]:
    folder = cache_folder() / "spin"
    if not (folder / "usr/bin/spin").exists():
        if reason := why_not_debian():
            raise ServerUnavailableError(reason)
        with locked(cache_folder()):
            part = folder.with_suffix(".part")
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir()
            obtain_package(PACKAGE, part, work=cache_folder() / f"apt-{PACKAGE.release.suite}")
            # Only a folder that is whole has the final name.
            shutil.rmtree(folder, ignore_errors=True)
            part.rename(folder)
    command = _with_loader(folder)
    if not _is_model_checker(command):
        raise ServerUnavailableError(f"what was unpacked into {folder} does not start")
    return command


def _with_loader(folder: Path) -> tuple[str, ...]:
    program = str(folder / "usr/bin/spin")
    try:
        return (*loader_of(folder), program)
    except ServerUnavailableError:
        return (program,)  # The package came without the C library: the system's own is used.


def _is_model_checker(command: Sequence[str]) -> bool:
    try:
        result = subprocess.run(
            [*command, "-V"], capture_output=True, text=True, check=False, timeout=20
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return result.stdout.startswith("Spin Version 6")


def _may_install() -> bool:
    return os.environ.get("CI") == "true" or os.environ.get("ANARCHON_TESTBED") == "install"


def _installers() -> list[list[str]]:
    if shutil.which("brew") is not None:
        return [["brew", "install", "spin"]]
    if shutil.which("apt-get") is None:
        return []
    words = ["apt-get"] if os.geteuid() == 0 else ["sudo", "--non-interactive", "apt-get"]
    if shutil.which(words[0]) is None:
        return []
    return [[*words, "update"], [*words, "install", "--yes", "--no-install-recommends", "spin"]]
