"""
Plant faults in the text of a module, one at a time, and run the tests that have to see each.

    python tools/planted.py                 every fault of specs/clauses.toml, two at a time
    python tools/planted.py fence           those whose name has the word

A fault that no test sees is a failure, and so is one whose old text is no longer there.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import tomllib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

import repository

TABLE = repository.ROOT / "specs/clauses.toml"
CORE = repository.ROOT / "packages/anarchon/src"

AT_ONCE = 2
SECONDS_MAX = 300
TEST_SECONDS_MAX = 60
_TESTS_FAILED = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """
    A fault: where *old* stands in a module of the core, *new* does; *seen_by* are tests, of which one must fail.
    """

    name: str
    module: str
    old: str
    new: str
    seen_by: tuple[str, ...]

    @property
    def path(self) -> Path:
        """
        The module's file.
        """
        return CORE / f"{self.module.replace('.', '/')}.py"

    def planted(self) -> str:
        """
        Return the module's text with the fault in it.

        Raises:
            ValueError: The old text does not stand there exactly once.
        """
        text = self.path.read_text(encoding="utf-8")
        if text.count(self.old) != 1:
            msg = f"{self.name}: the old text stands {text.count(self.old)} times in {self.module}"
            raise ValueError(msg)
        return text.replace(self.old, self.new)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """
    What became of a fault. `wrong` says why it was not seen as it has to be.
    """

    fault: Fault
    seconds: float
    wrong: str | None


def read_faults() -> list[Fault]:
    """
    Read the faults of the table.
    """
    data = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    return [Fault(**{**entry, "seen_by": tuple(entry["seen_by"])}) for entry in data["fault"]]


def tests_by_name() -> Mapping[str, tuple[str, ...]]:
    """
    Find every test of the repository, with the node ids that have its name.

    A test is called "test_x", "file.py::test_x" or "folder/file.py::test_x", whichever is enough.
    """
    found: dict[str, tuple[str, ...]] = {}
    for path in repository.files(".py"):
        if not path.name.startswith("test_"):
            continue
        where = path.relative_to(repository.ROOT).as_posix()
        for line in path.read_text(encoding="utf-8").splitlines():
            words = line.strip().removeprefix("async ").split("(", 1)[0].split()
            if len(words) == 2 and words[0] == "def" and words[1].startswith("test_"):
                name = words[1]
                for key in (
                    name,
                    f"{path.name}::{name}",
                    f"{path.parent.name}/{path.name}::{name}",
                ):
                    found[key] = (*found.get(key, ()), f"{where}::{name}")
    return found


def check(fault: Fault, tests: Mapping[str, tuple[str, ...]]) -> Result:
    """
    Plant one fault in a process of its own, and run its tests there.
    """
    begun = time.monotonic()
    nodes = [node for name in fault.seen_by for node in tests.get(name, ())]
    try:
        fault.planted()
    except ValueError as error:
        wrong: str | None = str(error)
    else:
        one_each = len(nodes) == len(fault.seen_by)
        wrong = _run(fault, nodes) if one_each else f"its tests are not one each: {nodes}"
    return Result(fault=fault, seconds=time.monotonic() - begun, wrong=wrong)


def _run(fault: Fault, nodes: Sequence[str]) -> str | None:
    try:
        done = subprocess.run(
            [sys.executable, __file__, "--plant", fault.name, *nodes],
            cwd=repository.ROOT,
            env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"it has not ended within {SECONDS_MAX} s"
    if done.returncode == _TESTS_FAILED:
        return None
    what = "not seen" if done.returncode == 0 else f"pytest ended with {done.returncode}"
    return f"{what}: {(done.stdout + done.stderr)[-1_500:]}"


def check_all(faults: Sequence[Fault]) -> list[Result]:
    """
    Check faults, a few at a time.
    """
    tests = tests_by_name()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(lambda fault: check(fault, tests), faults))


class _Planter(MetaPathFinder):
    """
    Gives one module with a fault in its text, and leaves all others alone.
    """

    def __init__(self, fault: Fault) -> None:
        self._fault = fault

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """
        Find the module that has the fault.
        """
        if fullname != self._fault.module:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None:
            spec.loader = _PlantedLoader(fullname, str(self._fault.path), self._fault)
        return spec


class _PlantedLoader(SourceFileLoader):
    """
    Compiles the text with the fault, and writes nothing down of it.
    """

    def __init__(self, fullname: str, path: str, fault: Fault) -> None:
        super().__init__(fullname, path)
        self._fault = fault

    def get_code(self, fullname: str) -> CodeType | None:  # noqa: ARG002 - it loads one module
        """
        Compile the module.
        """
        return compile(self._fault.planted(), self.path, "exec", dont_inherit=True)


def _plant(name: str, nodes: Sequence[str]) -> int:
    """
    Run tests in this process, with a fault planted before anything of the product is loaded.
    """
    fault = next(fault for fault in read_faults() if fault.name == name)
    sys.meta_path.insert(0, _Planter(fault))
    import pytest  # noqa: PLC0415 - the fault comes first

    plugins = ["-p", "pytest_timeout", "-p", "no:cacheprovider"]
    return pytest.main(["-q", "-x", f"--timeout={TEST_SECONDS_MAX}", *plugins, *nodes])


def main(arguments: Sequence[str]) -> int:
    """
    Run the command; returns its exit status: 1 when a fault was not seen.
    """
    if arguments[:1] == ["--plant"]:
        return _plant(arguments[1], arguments[2:])
    wanted = [
        fault
        for fault in read_faults()
        if not arguments or any(word in fault.name for word in arguments)
    ]
    results = check_all(wanted)
    for result in results:
        print(f"{result.seconds:6.1f} s  {result.wrong or 'seen':.400}  {result.fault.name}")
    return int(any(result.wrong for result in results))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
