"""
What the tests of the checker and of its excuses share: the names of forged evidence, and the rules that it breaks.
"""

from __future__ import annotations

from collections.abc import Callable

from anarchon import RunRecord
from anarchon_chaos.checker import Finding
from anarchon_chaos.evidence import Mark, Told
from anarchon_chaos.history import Fault, History

__all__ = [
    "MS",
    "SLOT",
    "Forge",
    "ForgeFault",
    "ForgeMark",
    "ForgeRecord",
    "ForgeTold",
    "broken",
]

MS = 1_000_000
SLOT = 1_000_000

Forge = Callable[..., History]
ForgeMark = Callable[..., Mark]
ForgeRecord = Callable[..., RunRecord]
ForgeTold = Callable[..., Told]
ForgeFault = Callable[..., Fault]


def broken(found: list[Finding]) -> set[str]:
    """
    Name the rules that a history breaks.
    """
    return {finding.rule for finding in found}
