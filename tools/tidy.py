"""
The rules of taste that no other tool checks, each a pure function from a file's text to what is wrong with it.

Every finding says what to write instead. The repository's tests run each rule on every file, and prove on a small
bad sample that each rule can fail.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
import unicodedata
from collections.abc import Iterator
from typing import NamedTuple

LINE_CHARACTERS_MAX = 120
FUNCTION_LINES_MAX = 70
MODULE_LINES_MAX = 450

SEAMS = frozenset({"clock.py", "runtime.py"})
"""
The modules of the core that may read a clock, draw a token, start a thread or run a loop, so that a simulation can
stand in for them. They are named from the core's package folder.
"""

BANNED_IN_CORE = {
    "asyncio.new_event_loop": "take the loop's owner from the runtime",
    "asyncio.run": "take the loop's owner from the runtime",
    "asyncio.to_thread": "hand the call to the runtime's pool",
    "concurrent.futures.ThreadPoolExecutor": "hand the call to the runtime's pool",
    "datetime.date.today": "ask the clock that was passed in",
    "datetime.datetime.now": "ask the clock that was passed in",
    "datetime.datetime.today": "ask the clock that was passed in",
    "datetime.datetime.utcnow": "ask the clock that was passed in",
    "os.urandom": "ask the runtime for a token",
    "random": "draw from the generator that was passed in",
    "secrets": "ask the runtime for a token",
    "threading.Thread": "ask the runtime for a thread",
    "threading.Timer": "await asyncio.sleep: the loop's own time can be a simulation's",
    "time.clock_gettime": "ask the clock that was passed in",
    "time.clock_gettime_ns": "ask the clock that was passed in",
    "time.monotonic": "ask the clock that was passed in",
    "time.monotonic_ns": "ask the clock that was passed in",
    "time.perf_counter": "ask the clock that was passed in",
    "time.perf_counter_ns": "ask the clock that was passed in",
    "time.sleep": "await asyncio.sleep: the loop's own time can be a simulation's",
    "time.time": "ask the clock that was passed in",
    "time.time_ns": "ask the clock that was passed in",
    "uuid.uuid1": "ask the runtime for a token",
    "uuid.uuid4": "ask the runtime for a token",
}

STORES = (
    "sqlite",
    "redis",
    "valkey",
    "postgres",
    "postgresql",
    "rabbitmq",
    "amqp",
    "nats",
    "mysql",
    "mongodb",
)

UNFINISHED = ("TO" + "DO", "FIX" + "ME", "X" + "XX")


class Finding(NamedTuple):
    """
    One thing wrong, and what to do about it.
    """

    line: int
    message: str


def long_lines(text: str) -> Iterator[Finding]:
    """
    A line fits beside another one on a screen.
    """
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > LINE_CHARACTERS_MAX:
            yield Finding(
                number, f"{len(line)} characters; {LINE_CHARACTERS_MAX} at most: break the line"
            )


def long_module(text: str) -> Iterator[Finding]:
    """
    A module has one reason to exist.
    """
    lines = len(text.splitlines())
    if lines > MODULE_LINES_MAX:
        yield Finding(
            1, f"{lines} lines; {MODULE_LINES_MAX} at most: split the module by reason to change"
        )


def long_functions(text: str) -> Iterator[Finding]:
    """
    A function fits on a screen.
    """
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                message = f"{node.name} has {lines} lines; {FUNCTION_LINES_MAX} at most: take a step out of it"
                yield Finding(node.lineno, message)


def docstring_quotes(text: str) -> Iterator[Finding]:
    """
    A docstring's quotes stand on their own line.
    """
    lines = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if ast.get_docstring(node, clean=False) is not None:
            number = node.body[0].lineno
            if lines[number - 1].strip() not in {'"""', 'r"""'}:
                yield Finding(number, 'put the opening """ of a docstring on a line of its own')


def banned_names(text: str) -> Iterator[Finding]:
    """
    The core reads no clock, draws no number and starts no thread by itself.
    """
    tree = ast.parse(text)
    imported = dict(_imported_names(tree))
    allowed = {id(node) for node in _annotations(tree)}
    covered: set[int] = set()
    for node in ast.walk(tree):
        if (
            id(node) in allowed
            or id(node) in covered
            or not isinstance(node, ast.Name | ast.Attribute)
        ):
            continue
        name = _dotted(node, imported)
        for banned, instead in BANNED_IN_CORE.items():
            if name is not None and (name == banned or name.startswith(banned + ".")):
                covered.update(id(inner) for inner in ast.walk(node))
                yield Finding(node.lineno, f"{name} is not for the core: {instead}")


def store_names(text: str) -> Iterator[Finding]:
    """
    Neither the core nor the kit knows a store by name.
    """
    pattern = re.compile(rf"(?<![a-z])(?:{'|'.join(STORES)})(?![a-z])", re.IGNORECASE)
    for number, line in enumerate(text.splitlines(), 1):
        for match in pattern.finditer(line):
            yield Finding(
                number, f"{match[0]!r}: say what the store can do (a capability), not which it is"
            )


def silenced_without_reason(text: str) -> Iterator[Finding]:
    """
    Whoever silences a tool names the rule and says why, on the line.
    """
    reasoned = re.compile(
        r"noqa: [A-Z]+[0-9]+(?:, ?[A-Z]+[0-9]+)*\s+(?:#|-|—)\s*\S.{5,}"
        r"|type: ignore\[[a-z-]+(?:, ?[a-z-]+)*\]\s+(?:#|-|—)\s*\S.{5,}"
        r"|pragma: no (?:cover|branch)\s*(?:#|-|—|:)\s*\S.{5,}"
    )
    silencer = re.compile(r"#\s*(?:noqa|type:\s*ignore|pragma:\s*no)", re.IGNORECASE)
    for number, comment in _comments(text):
        if silencer.search(comment) and not reasoned.search(comment):
            yield Finding(
                number,
                "name the rule and the reason: `# noqa: CODE - why`, `# type: ignore[code]  # why`",
            )


def unfinished(text: str) -> Iterator[Finding]:
    """
    What is left to do stands in an issue.
    """
    pattern = re.compile(rf"\b(?:{'|'.join(UNFINISHED)})\b")
    for number, line in enumerate(text.splitlines(), 1):
        if match := pattern.search(line):
            yield Finding(number, f"{match[0]}: do it now, or open an issue and take the word out")


def strange_characters(text: str) -> Iterator[Finding]:
    """
    A reader sees every character that is there.
    """
    for number, line in enumerate(text.split("\n"), 1):
        for character in line:
            if unicodedata.category(character) in {"Cc", "Cf", "Co"} and character != "\t":
                yield Finding(
                    number,
                    f"U+{ord(character):04X} cannot be seen: write it as an escape, or remove it",
                )
    if text and not text.endswith("\n"):
        yield Finding(len(text.splitlines()), "end the file with a line feed")


def unreasoned_waits(text: str) -> Iterator[Finding]:
    """
    A test awaits a condition; it neither sleeps nor skips, save for a reason on the line.
    """
    tree = ast.parse(text)
    imported = dict(_imported_names(tree))
    commented = {number for number, _ in _comments(text)}
    bad = {
        "time.sleep",
        "pytest.skip",
        "pytest.xfail",
        "pytest.mark.skip",
        "pytest.mark.skipif",
        "pytest.mark.xfail",
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Name) and node.lineno not in commented:
            name = _dotted(node, imported)
            if name in bad:
                yield Finding(
                    node.lineno,
                    f"{name}: await a condition or run the real thing, or say why on the line",
                )
        if (
            isinstance(node, ast.Call)
            and node.lineno not in commented
            and _is_long_sleep(node, imported)
        ):
            yield Finding(node.lineno, "asyncio.sleep: await a condition, or say why on the line")


def _is_long_sleep(node: ast.Call, imported: dict[str, str]) -> bool:
    if _dotted(node.func, imported) != "asyncio.sleep" or not node.args:
        return False
    length = node.args[0]
    return (
        isinstance(length, ast.Constant)
        and isinstance(length.value, int | float)
        and 1 <= length.value < 60
    )


def _imported_names(tree: ast.AST) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield (
                    alias.asname or alias.name.split(".")[0],
                    alias.name if alias.asname else alias.name.split(".")[0],
                )
        elif isinstance(node, ast.ImportFrom) and node.module is not None and not node.level:
            for alias in node.names:
                yield (alias.asname or alias.name, f"{node.module}.{alias.name}")


def _dotted(node: ast.AST, imported: dict[str, str]) -> str | None:
    if isinstance(node, ast.Name):
        return imported.get(node.id)
    if isinstance(node, ast.Attribute):
        base = _dotted(node.value, imported)
        return None if base is None else f"{base}.{node.attr}"
    return None


def _annotations(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        for annotation in (getattr(node, "annotation", None), getattr(node, "returns", None)):
            if annotation is not None:
                yield from ast.walk(annotation)


def _comments(text: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
