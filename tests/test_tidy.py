"""
The repository is tidy: each rule of tools/tidy.py holds everywhere, and each can fail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
import repository
import tidy

Rule = Callable[[str], Iterator[tidy.Finding]]

CORE = repository.ROOT / "packages/anarchon/src/anarchon"
KIT = repository.ROOT / "conformance/src/anarchon_conformance"
TEXT = (".md", ".py", ".pyi", ".sh", ".toml", ".txt", ".yml", ".yaml", ".sql", ".ini", "")


def python_files() -> list[Path]:
    """
    Give every Python file of the repository.
    """
    return list(repository.files(".py"))


def core_files() -> list[Path]:
    """
    Give the core's modules, less those that are its seams to the machine.
    """
    seams = {CORE / name for name in tidy.SEAMS}
    return [path for path in python_files() if path.is_relative_to(CORE) and path not in seams]


def storeless_files() -> list[Path]:
    """
    Give the files that may not know a store by name.
    """
    return [
        path for path in python_files() if path.is_relative_to(CORE) or path.is_relative_to(KIT)
    ]


def test_files() -> list[Path]:
    """
    Give the files of tests, the kit's too.
    """
    return [
        path for path in python_files() if path.name.startswith("test_") or "tests" in path.parts
    ]


test_files.__test__ = False  # type: ignore[attr-defined]  # It lists tests; it is none.


def text_files() -> list[Path]:
    """
    Give every file that people read.
    """
    return list(repository.files(*TEXT))


RULES: list[tuple[Rule, Callable[[], Iterable[Path]], str]] = [
    (tidy.long_lines, python_files, f"x = {'1' * 130}\n"),
    (tidy.long_module, python_files, "x = 1\n" * 451),
    (tidy.long_functions, python_files, "def f():\n" + "    x = 1\n" * 70),
    (tidy.docstring_quotes, python_files, 'def f():\n    """Do it."""\n'),
    (tidy.banned_names, core_files, "from time import monotonic as now\n\nnow()\n"),
    (tidy.store_names, storeless_files, "# As Red" + "is does.\n"),
    (tidy.silenced_without_reason, python_files, "import os  # no" + "qa: F401\n"),
    (tidy.unreasoned_waits, test_files, "import time\n\ntime.sleep(1)\n"),
    (tidy.unfinished, text_files, "# TO" + "DO: later\n"),
    (tidy.strange_characters, text_files, "x = 'a\u200bb'\n"),
]


@pytest.mark.parametrize(("rule", "where"), [(rule, where) for rule, where, _ in RULES])
def test_rule_holds_everywhere(rule: Rule, where: Callable[[], Iterable[Path]]) -> None:
    """
    Each finding names the file, the line and what to write instead.
    """
    paths = list(where())
    findings = [
        f"{path.relative_to(repository.ROOT)}:{finding.line}: {finding.message}"
        for path in paths
        for finding in rule(path.read_text(encoding="utf-8"))
    ]

    assert paths
    assert [] == findings, "\n".join(findings)


@pytest.mark.parametrize(("rule", "sample"), [(rule, sample) for rule, _, sample in RULES])
def test_rule_finds_its_bad_sample(rule: Rule, sample: str) -> None:
    """
    A rule that finds nothing in a bad sample proves nothing.
    """
    assert 1 == len(list(rule(sample)))


@pytest.mark.parametrize(
    "sample",
    [
        "import random\n\ndef f(rng: random.Random) -> None: ...\n",
        "import asyncio\n\nasync def f():\n    await asyncio.sleep(0)\n",
        "def f(clock):\n    return clock.time.time()\n",
    ],
)
def test_core_may_name_what_it_is_given(sample: str) -> None:
    """
    A type in an annotation, a bare yield to the loop and an argument's own attribute are no reading of the machine.
    """
    assert [] == list(tidy.banned_names(sample))


@pytest.mark.parametrize(
    ("sample", "name"),
    [
        ("import time as t\nread = t.monotonic_ns\n", "time.monotonic_ns"),
        ("from datetime import datetime\ndatetime.now()\n", "datetime.datetime.now"),
        ("import datetime\ndatetime.datetime.now()\n", "datetime.datetime.now"),
        ("import random\nrandom.Random(1)\n", "random.Random"),
        (
            "import concurrent.futures\nconcurrent.futures.ThreadPoolExecutor()\n",
            "ThreadPoolExecutor",
        ),
        ("import time\ndef f():\n    time.sleep(0.5)\n", "time.sleep"),
    ],
)
def test_banned_name_is_found_under_any_name(sample: str, name: str) -> None:
    """
    Renaming an import does not get a clock past the rule.
    """
    messages = [finding.message for finding in tidy.banned_names(sample)]

    assert 1 == len(messages)
    assert name in messages[0]


def test_reasoned_silencers_pass() -> None:
    """
    The forms that CONTRIBUTING.md shows are the forms that the rule accepts.
    """
    sample = (
        "a = 1  # no" + "qa: F401 - re-exported for users\n"
        "b = 1  # type: " + "ignore[arg-type]  # The stub is wrong here.\n"
    )

    assert [] == list(tidy.silenced_without_reason(sample))


def test_seams_exist() -> None:
    """
    A seam that is not there would hide a renamed module from the rule.
    """
    assert [] == sorted(name for name in tidy.SEAMS if not (CORE / name).is_file())
