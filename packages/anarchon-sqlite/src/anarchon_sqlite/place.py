"""
Where the file lies: refuse a place in which SQLite cannot be shared, and say why.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from anarchon.errors import StoreRefusedError

__all__ = ["check_place", "file_system_of", "read_mounts"]

_MOUNTS = Path("/proc/self/mountinfo")

# Write-ahead logging keeps its index in memory that all processes map. Machines that share a
# file over a network share no memory: each would see its own index, and both would win.
_NETWORK_FILE_SYSTEMS = frozenset(
    {
        "afs",
        "beegfs",
        "ceph",
        "cifs",
        "coda",
        "fuse.ceph",
        "fuse.gcsfuse",
        "fuse.glusterfs",
        "fuse.rclone",
        "fuse.s3fs",
        "fuse.sshfs",
        "gpfs",
        "lustre",
        "ncpfs",
        "nfs",
        "nfs4",
        "smb3",
        "smbfs",
    }
)


def check_place(path: str) -> None:
    """
    Look at the file's place before SQLite does, whose words are the same for many causes.

    Raises:
        StoreRefusedError: The directory is missing, the path is a directory, or the
            file system is one of a network.
    """
    folder = os.path.dirname(path)  # noqa: PTH120 - the path stays the text that the user gave
    if not os.path.isdir(folder):  # noqa: PTH112 - the same
        msg = f"SQLite file {path}: the directory {folder} does not exist; create it first"
        raise StoreRefusedError(msg)
    if os.path.isdir(path):  # noqa: PTH112 - the same
        msg = f"SQLite file {path}: this is a directory; name a file in it"
        raise StoreRefusedError(msg)
    kind = file_system_of(os.path.realpath(path), read_mounts())
    if kind in _NETWORK_FILE_SYSTEMS:
        msg = (
            f"SQLite file {path} lies on a network file system ({kind}), where write-ahead logging does not work;"
            " keep it on a local disk, or use a backend whose store is a server"
        )
        raise StoreRefusedError(msg)


def read_mounts() -> str:
    """
    Return the kernel's table of mounts; empty where there is none (macOS).
    """
    try:
        return _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""


def file_system_of(path: str, mounts: str) -> str | None:
    """
    Name the type of the file system that *path* lies on.

    Args:
        path: An absolute path without symbolic links.

        mounts: The text of a mountinfo table. Of several mounts on one point the
            last one is in force.
    """
    best, kind = -1, None
    for line in mounts.splitlines():
        left, _, right = line.partition(" - ")
        fields = left.split(" ")
        if len(fields) < 5 or not right:
            continue
        point = _unescape(fields[4]).rstrip("/")
        if (path == point or path.startswith(point + "/")) and len(point) >= best:
            best, kind = len(point), right.split(" ")[0]
    return kind


def _unescape(text: str) -> str:
    """
    Read the kernel's octal escapes for blanks and backslashes.
    """
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)
