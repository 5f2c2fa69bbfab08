"""
Every command in the project's prose is one that its program takes.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import takewhile
from typing import Any

import prose
import pytest
import repository
import typer

from anarchon_cli.app import app

MAKEFILE = (repository.ROOT / "Makefile").read_text(encoding="utf-8")
TARGETS = set(re.findall(r"^([a-z]+):.*## ", MAKEFILE, re.MULTILINE))
OURS = {distribution.name for distribution in repository.distributions()} | {"anarchon-lmdb"}

FOREIGN = {
    "cd",
    "createdb",
    "curl",
    "docker",
    "git",
    "jq",
    "journalctl",
    "kubectl",
    "psql",
    "redis-cli",
    "sleep",
    "sqlite3",
    "sudo",
    "systemctl",
    "systemd-analyze",
    "timedatectl",
    "uvicorn",
    "gunicorn",
}
"""
Programs of others, whose options are not ours to check.
"""


class WrongCommandError(Exception):
    """
    A line of prose that a shell or a program would refuse.
    """


def commands() -> Iterator[tuple[str, str]]:
    """
    Give each command line of the prose with the place where it stands. A backslash at a line's end goes on.
    """
    for path in repository.files(".md"):
        for block in prose.blocks(path, path.read_text(encoding="utf-8")):
            if block.language != "console":
                continue
            lines = block.code.replace("\\\n", " ").splitlines()
            for line in lines:
                if line.startswith("$ "):
                    yield f"{path.relative_to(repository.ROOT)}:{block.line}", line[2:]


def check(line: str) -> None:
    """
    Check a line of commands that a pipe or && joins.

    Raises:
        WrongCommandError: One of them is not what its program takes.
    """
    words = shlex.split(line, comments=True)
    while words:
        part = list(takewhile(lambda word: word not in {"|", "&&"}, words))
        words = words[len(part) + 1 :]
        while part and re.match(r"[A-Z_0-9]+=", part[0]):
            part = part[1:]
        check_one(part)


def check_one(words: list[str]) -> None:
    """
    Check one command.
    """
    match words:
        case ["anarchon", *arguments]:
            check_anarchon(arguments)
        case ["make", *targets]:
            unknown = {word for word in targets if "=" not in word and word not in TARGETS}
            if unknown:
                raise WrongCommandError(f"the Makefile has no target {', '.join(sorted(unknown))}")
        case ["pip", "install", *names]:
            check_names(names)
        case ["python", "-m", module, *arguments] | ["python", "-c", module, *arguments]:
            check_module(words[1], module, arguments)
        case ["python", script, *_]:
            named = (repository.ROOT / script).is_file() or any(script in names for names in FILES)
            if not named:
                raise WrongCommandError(f"{script} is no file of the repository, nor of a page")
        case ["pytest", *arguments]:
            check_kit_options(arguments)
        case [program, *arguments] if program in SCRIPTS:
            check_options(program, arguments)
        case [program, *_] if program in FOREIGN:
            return
        case _:
            raise WrongCommandError(f"{words[:1]} is no program that a test here knows")


SCRIPTS = {
    script: distribution
    for distribution in repository.distributions()
    for script in distribution.project["project"].get("scripts", {})
}
"""
The commands that our distributions bring, but for `anarchon`, which reads its own arguments here.
"""


FILES = [
    {
        block.remarks["file"]
        for block in prose.blocks(path, path.read_text(encoding="utf-8"))
        if "file" in block.remarks
    }
    for path in repository.files(".md")
]


def check_anarchon(arguments: list[str]) -> None:
    """
    Let the program itself read its arguments, without doing what they ask for.
    """
    group: Any = typer.main.get_command(
        app
    )  # Typer brings a Click of its own, whose names are not public.
    if arguments in (["--version"], ["--help"]):
        return
    try:
        context = group.make_context("anarchon", list(arguments))
        name, command, rest = group.resolve_command(context, arguments)
        if "--help" not in rest:
            command.make_context(name, rest, parent=context)
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        raise WrongCommandError(error.format_message()) from error


def check_options(program: str, arguments: list[str]) -> None:
    """
    An option of a script of ours stands in its source.
    """
    text = "".join(
        path.read_text(encoding="utf-8") for path in SCRIPTS[program].source.rglob("*.py")
    )
    for argument in arguments:
        name = argument.partition("=")[0]
        if name.startswith("--") and f'"{name}"' not in text:
            raise WrongCommandError(f"{program} has no option {name}")


def check_names(names: list[str]) -> None:
    """
    What looks like a distribution of ours is one; an extra of the core names one.
    """
    for name in names:
        bare, _, extra = name.strip("'\"").partition("[")
        if bare.startswith("anarchon") and bare not in OURS:
            raise WrongCommandError(f"there is no distribution {bare}")
        if bare == "anarchon" and extra:
            table = repository.distributions()[0].project["project"]["optional-dependencies"]
            wrong = set(extra.rstrip("]").split(",")) - set(table)
            if wrong:
                raise WrongCommandError(f"anarchon has no extra {', '.join(sorted(wrong))}")


def check_module(option: str, module: str, arguments: list[str]) -> None:
    """
    A module is there, and code compiles.
    """
    if option == "-c":
        compile(module, "the command", "exec")
        return
    if find_spec(module) is None and not any(
        f"{module.replace('.', '/')}.py" in names for names in FILES
    ):
        raise WrongCommandError(f"there is no module {module}")
    if module == "anarchon_cli":
        check_anarchon(arguments)
    if module in {"anarchon_conformance", "pytest"}:
        check_kit_options(arguments)


def check_kit_options(arguments: list[str]) -> None:
    """
    An option that begins with --anarchon is one of a plug-in of ours.
    """
    plugins = [
        path.read_text(encoding="utf-8")
        for path in repository.files(".py")
        if path.name == "plugin.py"
    ]
    known = {option for text in plugins for option in re.findall(r'"(--anarchon[a-z-]*)"', text)}
    for argument in arguments:
        name = argument.partition("=")[0]
        if name.startswith("--anarchon") and name not in known:
            raise WrongCommandError(f"no plug-in has the option {name}; there are {sorted(known)}")


@pytest.mark.parametrize(
    ("place", "line"),
    [pytest.param(*found, id=f"{found[0]} {found[1][:50]}") for found in commands()],
)
def test_command_is_one_that_its_program_takes(place: str, line: str) -> None:
    """
    Whoever copies a command is not told that an option, a target, a module or a distribution does not exist.
    """
    try:
        check(line)
    except WrongCommandError as error:
        pytest.fail(f"{place}: {line}\n{error}")


@pytest.mark.parametrize(
    "line",
    [
        "anarchon run app:scheduler --retries 3",
        "anarchon nexxt",
        "anarchon next --count 0 --every 1s",
        "anarchon history --backend memory: | anarchon backend",
        "make everything",
        "pip install anarchon-mysql",
        "pip install 'anarchon[mysql]'",
        "python -m anarchon_nothing",
        "python nowhere.py",
        "python -m anarchon_conformance --anarchon-bakend=memory",
        "frobnicate",
        "anarchon-chaos run --everything",
    ],
)
def test_wrong_command_is_found(line: str) -> None:
    """
    Each check can fail.
    """
    with pytest.raises(WrongCommandError):
        check(line)
