"""
A server whose own clock is wrong: a library is loaded before its others, and a file says by how much, at any time.

It works for servers whose allocator does not ask for the time while it starts: PostgreSQL and Valkey, not Redis.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from anarchon_testbed.cache import cache_folder, locked
from anarchon_testbed.context import Enterable
from anarchon_testbed.debian import DebianPackage, Release, obtain_package, why_not_debian
from anarchon_testbed.errors import ServerFailedError, ServerUnavailableError

__all__ = ["FakeClock"]

_PACKAGE = DebianPackage(release=Release(suite="bookworm"), name="libfaketime")
_LIBRARY = "faketime/libfaketime.so.1"


class FakeClock(Enterable):
    """
    The wall clock of a server that is started with `environment`; its other clocks stay true.
    """

    def __init__(self) -> None:
        self._folder: Path | None = None

    @property
    def environment(self) -> dict[str, str]:
        """
        What the server's environment needs.
        """
        folder = self._entered()
        return {
            "LD_PRELOAD": str(folder / "libfaketime.so.1"),
            "FAKETIME_TIMESTAMP_FILE": str(folder / "offset"),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }

    def set(self, offset_s: int) -> None:
        """
        Put the clock wrong by so many seconds from now on.

        A server that is awake may answer once more with the time that it read when it woke.
        """
        part = self._entered() / "offset.part"
        part.write_text(f"{offset_s:+d}\n", encoding="utf-8")
        part.chmod(0o644)
        part.rename(part.with_suffix(""))

    def _entered(self) -> Path:
        if self._folder is None:
            raise ServerFailedError("This clock does not run: enter it first.")
        return self._folder

    def _enter(self) -> None:
        library = _library()
        self._folder = Path(tempfile.mkdtemp(prefix="anarchon-clock-"))
        self._folder.chmod(0o755)  # A server may run as another user.
        shutil.copy(library, self._folder / "libfaketime.so.1")
        self.set(0)

    def _leave(self, error: BaseException | None) -> None:  # noqa: ARG002 - the way out is the same
        folder, self._folder = self._folder, None
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


def _library() -> Path:
    """
    Find libfaketime on the system, or unpack Debian's into the cache.
    """
    folder = cache_folder() / "libfaketime"
    for place in (Path("/usr/lib"), Path("/usr/local/lib"), folder):
        for found in sorted(place.glob(f"**/{_LIBRARY}")):
            return found
    if reason := why_not_debian():
        raise ServerUnavailableError(f"libfaketime is not here: {reason}.")
    with locked(cache_folder()):
        part = folder.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        obtain_package(_PACKAGE, part, work=cache_folder() / f"apt-{_PACKAGE.release.suite}")
        shutil.rmtree(folder, ignore_errors=True)
        part.rename(folder)
    return next(iter(sorted(folder.glob(f"**/{_LIBRARY}"))))
