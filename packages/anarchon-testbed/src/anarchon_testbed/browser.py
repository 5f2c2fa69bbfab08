"""
A browser without a window, to look at a page as its reader does: found in PATH, else unpacked into the cache.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from anarchon_testbed.cache import cache_folder, locked
from anarchon_testbed.debian import DebianPackage, Release, obtain_package, why_not_debian
from anarchon_testbed.errors import ServerFailedError, ServerUnavailableError

__all__ = ["Browser", "obtain_browser"]

_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
_PACKAGE = DebianPackage(
    release=Release(suite="bookworm"),
    name="chromium",
    beside=("chromium-common", "fonts-dejavu-core"),
)
_PROGRAM = "usr/lib/chromium/chromium"
_SECONDS_MAX = 240

_SYSTEMS_OWN = (
    "ld-linux*",
    "libc.so.6",
    "libm.so.6",
    "libdl.so.2",
    "libpthread.so.0",
    "librt.so.1",
)
"""
The C library has to be that of the loader, which is the system's: the browser starts itself again and again.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Browser:
    """
    A browser's program, and what its environment needs.
    """

    program: str
    environment: Mapping[str, str] = field(default_factory=dict)

    def read(self, page: Path) -> str:
        """
        Load a file, let its scripts run, and give the document as it stands then.
        """
        return self._run("--dump-dom", page.as_uri())

    def shoot(self, page: Path, picture: Path, *, width: int = 1200, height: int = 900) -> None:
        """
        Take a picture of a file, as PNG.
        """
        self._run(f"--screenshot={picture}", f"--window-size={width},{height}", page.as_uri())
        if not picture.exists():
            raise ServerFailedError(f"{self.program} took no picture of {page}")

    def _run(self, *words: str) -> str:
        with tempfile.TemporaryDirectory(prefix="anarchon-browser-") as profile:
            command = [
                self.program,
                "--headless",
                "--no-sandbox",  # The pages are ours, and a container may allow none.
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--hide-scrollbars",
                "--no-first-run",
                f"--user-data-dir={profile}",
                # Nothing outside of this machine is found: a page that needs it shows that it does.
                "--host-resolver-rules=MAP * ~NOTFOUND",
                "--virtual-time-budget=2000",
                *words,
            ]
            try:
                result = subprocess.run(  # noqa: S603 - The program was looked for by its name.
                    command,
                    env={**os.environ, **self.environment},
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    text=True,
                    timeout=_SECONDS_MAX,
                    check=False,
                )
            except subprocess.TimeoutExpired:
                raise ServerFailedError(
                    f"{self.program} took longer than {_SECONDS_MAX} s for {words[-1]}"
                ) from None
        if result.returncode:
            last = "\n".join(result.stderr.strip().splitlines()[-5:])
            raise ServerFailedError(f"{self.program} failed, in its own words:\n{last}")
        return result.stdout


def obtain_browser() -> Browser:
    """
    Find Chromium, or unpack Debian's into the cache: half a gigabyte, once.

    Raises ServerUnavailableError with what stands in the way.
    """
    for name in _NAMES:
        if (found := shutil.which(name)) is not None:
            return Browser(program=found)
    folder = cache_folder() / "chromium"
    with locked(cache_folder() / "lock-chromium"):  # It takes its time; nobody else need wait.
        if not folder.exists():
            _unpack(folder)
    libraries = {str(path.parent) for path in folder.glob("usr/lib/*-linux-*/**/*.so*")}
    libraries |= {str(path.parent) for path in folder.glob("lib/*-linux-*/**/*.so*")}
    return Browser(
        program=str(folder / _PROGRAM),
        environment={"LD_LIBRARY_PATH": os.pathsep.join(sorted(libraries))},
    )


def _unpack(folder: Path) -> None:
    if reason := why_not_debian():
        raise ServerUnavailableError(
            f"no browser is here: no {' and no '.join(_NAMES)} in PATH, and {reason}."
        )
    part = folder.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    work = cache_folder() / "apt-chromium"
    obtain_package(_PACKAGE, part, work=work)
    shutil.rmtree(work, ignore_errors=True)
    for pattern in _SYSTEMS_OWN:
        for path in part.glob(f"**/*-linux-*/{pattern}"):
            path.unlink()
    part.rename(folder)
