"""
The folder of the project that holds what was obtained, and the lock on it.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["cache_folder", "locked", "logs_folder"]


def cache_folder() -> Path:
    """
    Name the folder for downloaded servers; it need not exist yet.

    `ANARCHON_TESTBED_CACHE` decides. Else it is `.cache/servers` of the project that the working folder lies in, or
    else of the project that this module is installed in; outside of any project it is the user's own cache.
    """
    return _cache_root() / "servers"


def logs_folder() -> Path:
    """
    Name the folder where the logs of servers are kept whose test failed.
    """
    return _cache_root() / "server-logs"


def _cache_root() -> Path:
    if named := os.environ.get("ANARCHON_TESTBED_CACHE"):
        return Path(named).expanduser().resolve()
    for start in (Path.cwd(), Path(__file__).resolve()):
        for folder in (start, *start.parents):
            if (folder / ".git").exists():
                return folder / ".cache"
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser() / "anarchon"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """
    Let one process at a time change a folder of the cache. The folder is made if it is missing.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
