"""
Obtain the script that draws the site's diagrams, so that the site serves it and nobody else has to.

A wheel that carries it is downloaded once, as the servers of the tests are, and only the one file is taken out: its
digest has to be that of Mermaid's own release. Without a network the pages ask for the script where their reader is.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import repository

__all__ = ["CACHE", "DIGEST", "SCRIPT", "VERSION", "downloaded", "serve_script"]

VERSION = "11.16.0"
DIGEST = "74d7c46dabca328c2294733910a8aa1ed0c37451776e8d5295da38a2b758fb9b"
SCRIPT = "mermaid.min.js"
CACHE = repository.ROOT / ".cache/mermaid"

_WHEEL = "mermaidx==0.10.1"
_INSIDE = "mermaidx/assets/mermaid.js"
_SECONDS_MAX = 120


def serve_script(static: Path) -> bool:
    """
    Lay the script into a folder, where docs/conf.py looks for it.

    Returns whether it could be had; if not, the reason has been printed.
    """
    static.mkdir(parents=True, exist_ok=True)
    try:
        text = _obtained()
    except (OSError, ValueError, subprocess.SubprocessError, zipfile.BadZipFile) as error:
        print(f"Readers will need the network to see diagrams: no Mermaid to serve. {error}")
        (static / SCRIPT).unlink(missing_ok=True)
        return False
    _write(static / SCRIPT, text)
    return True


def downloaded() -> bytes:
    """
    Take the script out of the wheel.

    Raises:
        OSError, SubprocessError, BadZipFile: The wheel cannot be had.
    """
    with tempfile.TemporaryDirectory(prefix="anarchon-docs-") as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--disable-pip-version-check", "--only-binary=:all:", "--dest", folder, _WHEEL]
        subprocess.run(command, check=True, timeout=_SECONDS_MAX, stdin=subprocess.DEVNULL)
        (wheel,) = Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            return archive.read(_INSIDE)


def _obtained() -> bytes:
    """
    Read the script from the cache, or download it into the cache.

    Raises:
        ValueError: What was downloaded is not the release.
    """
    kept = CACHE / VERSION / SCRIPT
    if kept.is_file() and _is_release(text := kept.read_bytes()):
        return text
    text = downloaded()
    if not _is_release(text):
        raise ValueError(f"{_INSIDE} of {_WHEEL} is not Mermaid {VERSION}.")
    _write(kept, text)
    return text


def _is_release(text: bytes) -> bool:
    return hashlib.sha256(text).hexdigest() == DIGEST


def _write(path: Path, text: bytes) -> None:
    """
    Write a file in one step, unless it says the same already.
    """
    if path.is_file() and path.read_bytes() == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as part:
        part.write(text)
    Path(part.name).chmod(0o644)
    Path(part.name).replace(path)
