"""
Network file systems are recognised by the table of mounts.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from anarchon.errors import StoreRefusedError
from anarchon_sqlite import SqliteBackend
from anarchon_sqlite.place import file_system_of, read_mounts

MOUNTS = """\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 22 0:26 / /mnt rw - nfs4 server:/export rw,vers=4.2
31 30 0:27 / /mnt/local rw master:2 - tmpfs tmpfs rw
32 22 0:28 / /mnt\\040with\\040blanks rw - cifs //server/share rw
33 22 0:29 / /over rw - ext4 /dev/vdb rw
34 33 0:30 / /over rw - fuse.sshfs server: rw
a line of another kind
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/jobs.db", "ext4"),
        ("/mnt/jobs.db", "nfs4"),
        ("/mnt", "nfs4"),
        ("/mntx/jobs.db", "ext4"),
        ("/mnt/local/deep/jobs.db", "tmpfs"),
        ("/mnt with blanks/jobs.db", "cifs"),
        ("/over/jobs.db", "fuse.sshfs"),
    ],
)
def test_the_innermost_and_newest_mount_decides(path: str, kind: str) -> None:
    """
    Of the mounts above a path, the deepest one is in force, and of two on one point the later.
    """
    assert kind == file_system_of(path, MOUNTS)


def test_without_a_table_nothing_is_known(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Where the system has no such table, SQLite itself has to notice.
    """
    monkeypatch.setattr("anarchon_sqlite.place._MOUNTS", path)

    assert "" == read_mounts()
    assert file_system_of("/jobs.db", "") is None


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "smb3", "fuse.sshfs", "ceph"])
def test_a_network_file_system_is_refused(
    path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    open() names the file system and the way out, and makes no file there.
    """
    mounts = path.parent / "mountinfo"
    mounts.write_text(f"1 0 0:1 / {path.parent.resolve()} rw - {kind} server:/export rw\n")
    monkeypatch.setattr("anarchon_sqlite.place._MOUNTS", mounts)

    with pytest.raises(
        StoreRefusedError, match=rf"network file system \({kind}\).*keep it on a local disk"
    ):
        asyncio.run(SqliteBackend(path).open(timeout_ms=10_000))
    assert not path.exists()
