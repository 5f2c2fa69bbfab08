"""
Check the formal model: the sound models hold, exhaustively, and each broken variant is refuted by what it breaks.

    python tools/check_model.py                  everything, two at a time (two minutes on two idle cores)
    python tools/check_model.py gate locks       the cases whose name has one of the words

The cases stand in specs/model/cases.toml. A search that was cut short, by its depth or by its memory, is a failure.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import repository
from spin import obtain_compiler, obtain_spin

MODELS = repository.ROOT / "specs/model"
CASES = MODELS / "cases.toml"

AT_ONCE = 2
SECONDS_MAX = 240
DEPTH_MAX = 2_000_000
MEMORY_MB_MAX = 6_000

COMPILE = ("-w", "-DSAFETY", "-DNOREDUCE", "-DNOFAIR", f"-DMEMLIM={MEMORY_MB_MAX}")
CUT_SHORT = ("max search depth too small", "out of memory", "Search not completed", "hash-compact")
NOBODY_MOVES = "nobody waits in a circle"
"""
The property of every model that has no words of its own: something can always happen.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """
    One search. `property` is None where the model has to be sound.
    """

    kind: str
    name: str
    model: str
    defines: tuple[str, ...]
    property: str | None = None
    trap: str = ""
    mutant: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """
    What a search came to. `wrong` says why it is not what the case asks for.
    """

    case: Case
    states: int
    seconds: float
    broken: str | None
    wrong: str | None


def read_cases() -> list[Case]:
    """
    Read what is to be checked.
    """
    data = tomllib.loads(CASES.read_text(encoding="utf-8"))
    return [
        Case(
            kind=kind,
            name=case["name"],
            model=case["model"],
            defines=tuple(case["defines"]),
            property=case.get("property"),
            trap=case.get("trap", ""),
            mutant=case.get("mutant", ""),
        )
        for kind in ("sound", "broken", "limit")
        for case in data.get(kind, ())
    ]


def properties(model: str) -> list[str]:
    """
    Give the words of every property that a model asserts.
    """
    text = (MODELS / f"{model}.pml").read_text(encoding="utf-8")
    return re.findall(r"/\* P: (.+?)\.? \*/", text)


def check(case: Case, spin: Sequence[str], compiler: str) -> Result:
    """
    Search one case in a folder of its own.
    """
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="anarchon-model-") as name:
        folder = Path(name)
        model = folder / f"{case.model}.pml"
        model.write_bytes((MODELS / model.name).read_bytes())
        defines = [f"-D{define}" for define in case.defines]
        # Most refutations take less time than an optimising compiler.
        options = ("-O2" if case.property is None else "-O1", *COMPILE)
        output = _search(folder, [*spin, *defines, "-a", model.name], [compiler, *options])
        broken = None
        if (folder / f"{model.name}.trail").exists():
            broken = _broken_property(folder, [*spin, *defines, "-t", model.name], output)
    found = re.search(r"(\d+) states, stored", output)
    states = 0 if found is None else int(found[1])
    return Result(
        case=case,
        states=states,
        seconds=time.monotonic() - begun,
        broken=broken,
        wrong=judge(case, output, broken),
    )


def _search(folder: Path, generate: Sequence[str], compiling: Sequence[str]) -> str:
    output = _run(generate, folder)
    if not (folder / "pan.c").exists():
        return output
    output += _run([*compiling, "-o", "pan", "pan.c"], folder)
    if not (folder / "pan").exists():
        return output
    return output + _run(["./pan", f"-m{DEPTH_MAX}"], folder)


def _run(command: Sequence[str], folder: Path) -> str:
    try:
        result = subprocess.run(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=SECONDS_MAX,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"\nSearch not completed: longer than {SECONDS_MAX} s\n"
    return result.stdout


def _broken_property(folder: Path, replay: Sequence[str], output: str) -> str:
    """
    Name the property that the trail ends with: its words stand behind the assertion.
    """
    if re.search(r"^pan:\d+: invalid end state", output, re.MULTILINE):
        return NOBODY_MOVES
    found = re.search(r"(\w+\.pml):(\d+), Error: assertion violated", _run(replay, folder))
    if found is None:
        return "an error that its trail does not show"
    lines = (folder / found[1]).read_text(encoding="utf-8").splitlines()
    behind = "\n".join(lines[int(found[2]) - 1 : int(found[2]) + 2])
    words = re.search(r"/\* P: (.+?)\.? \*/", behind)
    return f"the assertion in line {found[2]}" if words is None else words[1]


def judge(case: Case, output: str, broken: str | None) -> str | None:
    """
    Say what is wrong with the outcome of a search; None if nothing is.
    """
    last = "\n".join(output.strip().splitlines()[-12:])
    if "errors: " not in output:
        return f"the search did not run:\n{last}"
    if broken is not None:
        if case.property is None:
            return f"violated: {broken}"
        return None if broken.startswith(case.property) else f"refuted by another one: {broken}"
    if cut := [words for words in CUT_SHORT if words in output]:
        return f"the search was cut short: {cut[0]}"
    if "Full statespace search" not in output:
        return f"the search was no full one:\n{last}"
    return None if case.property is None else "not refuted"


def check_all(cases: Iterable[Case]) -> list[Result]:
    """
    Search every case, two at a time.

    Raises:
        ServerUnavailableError: spin, or a C compiler, cannot be had.
    """
    spin, compiler = obtain_spin(), obtain_compiler()
    at_once = min(AT_ONCE, os.cpu_count() or 1)
    with ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(lambda case: check(case, spin, compiler), cases))


def table(results: Sequence[Result]) -> str:
    """
    Write the outcomes down for people.
    """
    lines = [f"{'':6} {'case':72} {'states':>10} {'s':>6}  outcome"]
    for result in results:
        outcome = result.wrong or (f"refuted: {result.broken}" if result.broken else "holds")
        mark = "FAILED" if result.wrong else "ok"
        kind = {"sound": "", "broken": "broken: ", "limit": "limit: "}[result.case.kind]
        name = f"{kind}{result.case.name}"
        lines.append(
            f"{mark:6} {name:72.72} {result.states:>10,} {result.seconds:>6.1f}  {outcome}"
        )
    return "\n".join(lines)


def main(words: Sequence[str]) -> int:
    """
    Check, print the table, and say whether all is as it has to be.
    """
    cases = [case for case in read_cases() if not words or any(word in case.name for word in words)]
    if not cases:
        print(f"no case of {CASES.name} has one of these words in its name: {' '.join(words)}")
        return 2
    begun = time.monotonic()
    results = check_all(cases)
    print(table(results))
    failed = sum(result.wrong is not None for result in results)
    print(
        f"{len(results) - failed} as they have to be, {failed} not, in {time.monotonic() - begun:.0f} s"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
