"""
Read Markdown files: their links, their headings and the Python in them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

FENCE = re.compile(r"^(?P<indent> *)(?P<ticks>`{3,})(?P<language>\{?[\w:-]*\}?)")
_LINK = re.compile(
    r"(?<!\!)\[[^\]\n]+\]\((?P<target>[^)\s]+)(?: \"[^\"]*\")?\)|\!\[[^\]\n]*\]\((?P<image>[^)\s]+)\)"
)
REMARK = re.compile(r"^\s*<!-- (?P<word>no-run|file|from|pytest): (?P<text>[^>]{4,}) -->\s*$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """
    One fenced block, and the remarks on the lines before it, by their words.

    `<!-- no-run: reason -->` exempts it from running; `<!-- file: NAME -->` gives it a name beside the page's
    other named blocks; `<!-- from: PATH -->` says that it is an excerpt of a file of the repository;
    `<!-- pytest: reason -->` has it run by pytest.
    """

    path: Path
    line: int
    language: str
    code: str
    remarks: Mapping[str, str] = field(default_factory=dict)

    @property
    def exempt(self) -> str | None:
        """
        The reason why the block is not run.
        """
        return self.remarks.get("no-run")


def blocks(path: Path, text: str) -> Iterator[Block]:
    """
    Give the fenced blocks of a file in their order.
    """
    opened: tuple[int, str, str] | None = None
    code: list[str] = []
    remarks: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        fence = FENCE.match(line)
        if opened is not None:
            if fence is not None and not fence["language"] and fence["ticks"] == opened[1]:
                body = "\n".join(code) + "\n"
                yield Block(
                    path=path, line=opened[0], language=opened[2], code=body, remarks=remarks
                )
                opened, remarks = None, {}
            else:
                code.append(line)
        elif fence is not None:
            opened, code = (number, fence["ticks"], fence["language"]), []
        elif remark := REMARK.match(line):
            remarks[remark["word"]] = remark["text"]
        elif line.strip():
            remarks = {}


def without_blocks(text: str) -> str:
    """
    Give the prose alone, with every line in its place.
    """
    kept, inside = [], False
    for line in text.splitlines():
        if FENCE.match(line):
            inside = not inside
            kept.append("")
        else:
            kept.append("" if inside else line)
    return "\n".join(kept)


def links(text: str) -> Iterator[tuple[int, str]]:
    """
    Give each link's line and target.
    """
    for number, line in enumerate(without_blocks(text).splitlines(), 1):
        for match in _LINK.finditer(re.sub(r"`[^`]*`", "", line)):
            yield number, match["target"] or match["image"]


def anchors(text: str) -> set[str]:
    """
    Name the headings as a renderer does: lower case, words joined by hyphens, a number after a repeated one.
    """
    found: set[str] = set()
    for line in without_blocks(text).splitlines():
        if heading := re.match(r"#{1,6} +(.*?)\s*#*$", line):
            words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1]).lower()
            plain = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
            name, repeat = plain, 0
            while name in found:
                repeat += 1
                name = f"{plain}-{repeat}"
            found.add(name)
        found.update(re.findall(r'<a (?:id|name)="([^"]+)"', line))
    return found


def dead_links(path: Path, text: str) -> Iterator[tuple[int, str]]:
    """
    Give the links of a file that lead nowhere in the repository. Addresses of other sites are not asked for.
    """
    for number, target in links(text):
        if re.match(r"[a-z][a-z0-9+.-]*:", target):
            continue
        file, _, anchor = target.partition("#")
        place = (path.parent / unquote(file)).resolve() if file else path
        if not place.exists():
            yield number, f"{target}: there is no such file"
        elif (
            anchor
            and place.suffix == ".md"
            and anchor not in anchors(place.read_text(encoding="utf-8"))
        ):
            yield number, f"{target}: the file has no such heading"
