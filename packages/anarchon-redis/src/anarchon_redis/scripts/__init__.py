"""
The scripts that run in the server, each put together from the files that it needs.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files

__all__ = ["Script", "script"]


@dataclass(frozen=True, slots=True)
class Script:
    """
    A script, and the digest by which the server knows it once it was loaded.
    """

    name: str
    source: str = field(repr=False)
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        digest = hashlib.sha1(self.source.encode(), usedforsecurity=False).hexdigest()
        object.__setattr__(self, "digest", digest)


@cache
def script(name: str, *shared: str) -> Script:
    """
    Read a script, with the shared parts in front of it.
    """
    folder = files(__name__)
    parts = [folder.joinpath(f"{part}.lua").read_text(encoding="utf-8") for part in (*shared, name)]
    return Script(name, "\n".join(parts))
