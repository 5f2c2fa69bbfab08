"""
Copies of the product that are broken on purpose, each by one change, and the scenario that has to find it.

A checker that passes a broken product proves nothing of a sound one.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

__all__ = ["BREAKAGES", "Breakage", "BreakageError", "build"]

_PACKAGES = ("anarchon", "anarchon_postgres", "anarchon_redis", "anarchon_sqlite")


class BreakageError(Exception):
    """
    The product has changed, and the place that was to be broken is not there any more.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Breakage:
    """
    One promise that is broken: in which file which text is replaced, and which rules find it in which scenario.
    """

    name: str
    says: str
    file: str
    texts: Mapping[str, str]
    scenario: str
    store: str
    rules: frozenset[str]


BREAKAGES = (
    Breakage(
        name="token-unchecked",
        says="the store takes renewals and finishes from whoever knows the slot",
        file="anarchon_redis/scripts/lease.lua",
        texts={
            "state.slot == slot and state.attempt == attempt and state.token ~= '' and state.token == token": (
                "state.slot == slot and state.token ~= ''"
            )
        },
        scenario="freeze",
        store="redis-lease",
        rules=frozenset({"no_overlap"}),
    ),
    Breakage(
        name="token-unchecked-in-the-core",
        says="the core's decision takes renewals and finishes from whoever knows the slot",
        file="anarchon/protocol/closing.py",
        texts={
            " or live.slot != request.slot or live.attempt != request.attempt:": " or live.slot != request.slot:",
            "return live if live.token == request.token else None": "return live",
        },
        scenario="freeze",
        store="sqlite",
        rules=frozenset({"no_overlap"}),
    ),
    Breakage(
        name="no-self-fencing",
        says="a runner that cannot renew goes on, whatever its clock says",
        file="anarchon/scheduler/leases.py",
        texts={"self.margin_ms = fence_margin_ms(lease_ms)": "self.margin_ms = -(10**9)"},
        scenario="cut-silent",
        store="redis-lease",
        rules=frozenset({"no_overlap", "fenced_in_time"}),
    ),
    Breakage(
        name="finish-forgotten",
        says="a finish is accepted, and nothing of it is kept",
        file="anarchon_redis/scripts/lease_finish.lua",
        texts={
            "    close_run(item, state, status, reason, started, problem)\n    end_run(item, state)\n": ""
        },
        scenario="calm",
        store="redis-lease",
        rules=frozenset({"finished_stays_finished"}),
    ),
    Breakage(
        name="no-backoff",
        says="a store that is gone is asked again at once, and again",
        file="anarchon/scheduler/store_line.py",
        texts={"pause_s = self._ceiling_s * (0.5 + self._random.random() / 2)": "pause_s = 0.0"},
        scenario="store-crash",
        store="redis-lease",
        rules=frozenset({"no_stampede"}),
    ),
)


def build(breakage: Breakage, folder: Path) -> Path:
    """
    Copy the product into a folder and break the copy. Gives what has to stand first in PYTHONPATH.

    Raises:
        BreakageError: The text to be replaced is not there exactly once.
    """
    for package in _PACKAGES:
        spec = find_spec(package)
        assert spec is not None
        assert spec.origin is not None
        shutil.copytree(
            Path(spec.origin).parent,
            folder / package,
            ignore=shutil.ignore_patterns("__pycache__"),
        )
    path = folder / breakage.file
    text = path.read_text(encoding="utf-8")
    for sound, broken in breakage.texts.items():
        if text.count(sound) != 1:
            raise BreakageError(
                f"{breakage.name}: {breakage.file} has {text.count(sound)} places that read {sound!r}, not one"
            )
        text = text.replace(sound, broken)
    path.write_text(text, encoding="utf-8")
    return folder
