"""
Draw what the benchmarks found as one picture: a self-contained SVG, without a library.

    python -m bench.plot FOLDER

It reads the JSON files of a run from the folder, and writes bench.svg beside them.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import Any

__all__ = ["draw"]

WIDTH = 960
LEFT = 320
BAR = 14
GAP = 6
HEIGHT_OF_CURVES = 220
COLOURS = {"sqlite": "#8a6d3b", "redis": "#b5322a", "postgres": "#336791"}
RAW = "#9a9a9a"
OURS = "#2f7d4f"


class Sheet:
    """
    An SVG that grows downwards.
    """

    def __init__(self) -> None:
        self._parts: list[str] = []
        self.y = 30.0

    def text(self, x: float, words: str, *, size: int = 12, end: bool = False) -> None:
        """
        Write words at the current height.
        """
        anchor = ' text-anchor="end"' if end else ""
        self._parts.append(
            f'<text x="{x:.0f}" y="{self.y:.0f}" font-size="{size}"{anchor}>{escape(words)}</text>'
        )

    def bar(self, x: float, width: float, colour: str) -> None:
        """
        Draw a bar whose foot is at the current height.
        """
        top = self.y - BAR + 3
        self._parts.append(
            f'<rect x="{x:.0f}" y="{top:.0f}" width="{max(1, width):.1f}" height="{BAR}" fill="{colour}"/>'
        )

    def line(self, points: Iterable[tuple[float, float]], colour: str) -> None:
        """
        Draw a line through points.
        """
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self._parts.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.5"/>'
        )

    def written(self) -> str:
        """
        Return the whole.
        """
        height = self.y + 30
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height:.0f}"'
            ' font-family="sans-serif"><rect width="100%" height="100%" fill="white"/>'
            f"{''.join(self._parts)}</svg>\n"
        )


def bars(sheet: Sheet, report: dict[str, Any]) -> None:
    """
    Draw each line's ratio to its raw one, on a scale of doublings.
    """
    sheet.y += 26
    sheet.text(12, f"{report['title']}: what an item takes, to the raw line's", size=14)
    ratios = [row["ratio"] for row in report["rows"]]
    least = min(1.0, *ratios) / 1.3
    scale = (WIDTH - LEFT - 180) / math.log(max(ratios) / least)
    for row in report["rows"]:
        sheet.y += BAR + GAP
        sheet.text(LEFT - 8, row["name"], end=True)
        width = math.log(row["ratio"] / least) * scale
        sheet.bar(LEFT, width, RAW if row["name"].startswith("raw") else OURS)
        sheet.text(LEFT + width + 6, f"{row['ratio']:.2f} of {row['against']}", size=10)


def curves(sheet: Sheet, found: list[dict[str, Any]]) -> None:
    """
    Draw how it grows: a panel for each question, a line for each store, both axes logarithmic.
    """
    for what in dict.fromkeys(curve["what"] for curve in found):
        mine = [curve for curve in found if curve["what"] == what]
        sheet.y += 36
        sheet.text(12, f"{what}: to the smallest size", size=14)
        top, right = sheet.y + 14, WIDTH - LEFT
        sheet.y += HEIGHT_OF_CURVES
        most_x = math.log(max(max(curve["sizes"]) for curve in mine) + 1)
        ratios = [ratio for curve in mine for ratio in curve["ratios"]]
        low, high = math.log(min(ratios) / 1.2), math.log(max(ratios) * 1.2)
        for number, curve in enumerate(mine):
            points = [
                (
                    60 + math.log(size + 1) / most_x * (right - 60),
                    top + (high - math.log(ratio)) / (high - low) * (HEIGHT_OF_CURVES - 40),
                )
                for size, ratio in zip(curve["sizes"], curve["ratios"], strict=True)
            ]
            colour = COLOURS.get(curve["store"], OURS)
            sheet.line(points, colour)
            bottom, sheet.y = sheet.y, top + 16 * (number + 1)
            sheet.bar(right + 30, 12, colour)
            told = ", ".join(
                f"{size}: {ratio:.2f}"
                for size, ratio in zip(curve["sizes"], curve["ratios"], strict=True)
            )
            sheet.text(right + 48, f"{curve['store']}: {told}", size=9)
            sheet.y = bottom


def late(sheet: Sheet, found: list[dict[str, Any]]) -> None:
    """
    Draw lateness and CPU beside the floor's.
    """
    for each in found:
        sheet.y += 30
        sheet.text(12, f"{each['title']}: to the floor", size=14)
        for key, words in (
            ("p50_ms", "median lateness"),
            ("p99_ms", "p99 lateness"),
            ("cpu_s_per_1000", "CPU a run"),
        ):
            ratio = each["ratios"][key]
            sheet.y += BAR + GAP
            sheet.text(LEFT - 8, words, end=True)
            sheet.bar(LEFT, min(4.0, ratio) * 110, OURS)
            floor, ours = each["floor"][key], each["anarchon"][key]
            sheet.text(
                LEFT + min(4.0, ratio) * 110 + 6,
                f"{ratio:.2f} ({ours:.2f} to {floor:.2f})",
                size=10,
            )


def draw(folder: Path) -> Path:
    """
    Draw what is in the folder; returns the picture's path.
    """
    sheet = Sheet()
    sheet.text(12, "anarchon: benchmarks", size=18)
    for path in sorted(folder.glob("*_store.json")):
        bars(sheet, json.loads(path.read_text(encoding="utf-8")))
    if (path := folder / "growth.json").exists():
        curves(sheet, json.loads(path.read_text(encoding="utf-8")))
    for path in sorted(folder.glob("lateness_*.json")):
        late(sheet, json.loads(path.read_text(encoding="utf-8")))
    picture = folder / "bench.svg"
    picture.write_text(sheet.written(), encoding="utf-8")
    return picture


if __name__ == "__main__":
    print(draw(Path(sys.argv[1])))
