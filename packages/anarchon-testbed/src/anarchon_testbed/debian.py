"""
Debian's own packages, downloaded and unpacked into a folder, without a change to the system.

A private apt configuration, with its own lists and cache, names the archive that the system itself uses, so that the
system's keys vouch for what is downloaded. A server is unpacked beside every library that it needs, the C library too,
and starts through that library's loader: it runs whatever release of Debian the machine has.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from anarchon_testbed.errors import ServerUnavailableError

__all__ = [
    "DebianPackage",
    "Release",
    "loader_of",
    "obtain_package",
    "why_not_debian",
    "wrap_programs",
]

_APT_SECONDS_MAX = 300
_ARCHIVE_KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_SYSTEM_SOURCES = Path("/etc/apt")

_UNWANTED = re.compile(r"lib(perl|llvm|z3|pam-modules|semanage|c-gconv|c-l10n)|.*-perl$")
"""
Libraries that scripts and a just-in-time compiler use, and a server without them does not miss.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """
    A release of Debian, and perhaps a second one from which only the packages named come.
    """

    suite: str
    overlay: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DebianPackage:
    """
    A server as Debian has it: the package, and those beside it that are unpacked too.
    """

    release: Release
    name: str
    beside: tuple[str, ...] = ()


def why_not_debian() -> str | None:
    """
    Say why Debian's packages cannot be unpacked here, or nothing if they can.
    """
    missing = [tool for tool in ("apt-get", "apt-config", "dpkg") if shutil.which(tool) is None]
    if missing:
        return f"no {' and no '.join(missing)} here: Debian's packages cannot be unpacked"
    if _archive() is None:
        return "the sources of apt here name no archive of Debian"
    return None


def obtain_package(package: DebianPackage, folder: Path, *, work: Path) -> None:
    """
    Download a package with the libraries it needs and unpack them all into `folder`.

    `work` keeps apt's lists between packages of one release. Raises ServerUnavailableError with apt's own words.
    """
    if reason := why_not_debian():
        raise ServerUnavailableError(f"{package.name} cannot be had: {reason}.")
    apt = _configure(package, work)
    _apt(apt, "update")
    listed = _apt(apt, "install", "--yes", "--print-uris", package.name, *package.beside)
    wanted = sorted(set(_wanted(listed, package)))
    shutil.rmtree(work / "archives", ignore_errors=True)
    (work / "archives/partial").mkdir(parents=True)
    _apt(apt, "download", *wanted, cwd=work / "archives")
    for archive in sorted((work / "archives").glob("*.deb")):
        _run(["dpkg", "-x", str(archive), str(folder)], what=f"unpacking {archive.name}")
    shutil.rmtree(work / "archives")


def loader_of(folder: Path) -> tuple[str, ...]:
    """
    Give the command's first words that start a program of an unpacked folder with that folder's own libraries.
    """
    libraries = [
        path for parent in ("lib", "usr/lib") for path in sorted(folder.glob(f"{parent}/*-linux-*"))
    ]
    for library in libraries:
        for loader in sorted(library.glob("ld-linux*.so.*")):
            if loader.is_file() and not loader.is_symlink():
                return (str(loader), "--library-path", ":".join(map(str, libraries)))
    raise ServerUnavailableError(f"{folder} holds no loader: remove the folder and obtain again.")


def wrap_programs(folder: Path, programs: Iterable[Path]) -> None:
    """
    Put a script in the place of each program that starts it through the folder's own loader.

    It is for a program that starts another one of its folder by itself. The scripts find the folder from where they
    lie, so it may be moved.
    """
    loader, option, libraries = (word.replace(str(folder), "$root") for word in loader_of(folder))
    for program in programs:
        real = program.with_name(f"{program.name}.real")
        program.rename(real)
        up = "/".join(".." for _ in program.relative_to(folder).parents[:-1])
        lines = [
            "#!/bin/sh",
            f'root=$(cd "$(dirname "$0")/{up}" && pwd)',
            # A server finds its other files from the name it is called by.
            f'exec "{loader}" {option} "{libraries}" --argv0 "$0" "$0.real" "$@"',
        ]
        program.write_text("\n".join(lines) + "\n", encoding="utf-8")
        program.chmod(0o755)


def _wanted(listed: str, package: DebianPackage) -> Iterator[str]:
    # A line of --print-uris is: 'address' file size hash. The file is NAME_VERSION_ARCHITECTURE.deb, and its colons
    # are written as %3a.
    for line in listed.splitlines():
        if not line.startswith("'"):
            continue
        name, version, _ = line.split()[1].split("_", 2)
        library = name.startswith("lib") or name == "zlib1g"
        if name in (package.name, *package.beside) or (library and not _UNWANTED.match(name)):
            yield f"{name}={version.replace('%3a', ':')}"


def _archive() -> str | None:
    """
    Find the address of Debian's archive in the system's own sources.
    """
    for path in sorted(_SYSTEM_SOURCES.glob("sources.list.d/*.sources")):
        for stanza in re.split(r"\n\s*\n", path.read_text(encoding="utf-8")):
            fields = dict(re.findall(r"^([A-Za-z-]+):[ \t]*(.*)$", stanza, re.MULTILINE))
            uri = (fields.get("URIs") or "").split()
            if uri and "deb" in fields.get("Types", "").split() and _is_archive(uri[0]):
                return uri[0]
    for path in [_SYSTEM_SOURCES / "sources.list", *_SYSTEM_SOURCES.glob("sources.list.d/*.list")]:
        if path.is_file():
            text = path.read_text(encoding="utf-8")
            for found in re.findall(r"^deb\s+(?:\[[^\]]*\]\s+)?(\S+)", text, re.MULTILINE):
                if _is_archive(found):
                    return str(found)
    return None


def _is_archive(uri: str) -> bool:
    # A mirror keeps the archive in a folder of this name by convention; its security updates lie elsewhere.
    return uri.rstrip("/").endswith("/debian")


def _configure(package: DebianPackage, work: Path) -> Path:
    for name in ("empty", "lists/partial", "archives/partial"):
        (work / name).mkdir(parents=True, exist_ok=True)
    (work / "status").touch()
    signed = f"[signed-by={_ARCHIVE_KEYRING}] " if _ARCHIVE_KEYRING.is_file() else ""
    suites = [suite for suite in (package.release.suite, package.release.overlay) if suite]
    lines = [f"deb {signed}{_archive()} {suite} main\n" for suite in suites]
    (work / "sources.list").write_text("".join(lines), encoding="utf-8")
    pins = ""
    if package.release.overlay:
        names = " ".join((package.name, *package.beside))
        pins = f"Package: {names}\nPin: release a={package.release.overlay}\nPin-Priority: 990\n"
    (work / "preferences").write_text(pins, encoding="utf-8")
    # The system's proxies and certificates stay; its hooks and its other index files do not.
    dump = _run(["apt-config", "dump"], what="reading apt's configuration").splitlines()
    kept = [
        line
        for line in dump
        if line.startswith("Acquire::") and not line.startswith("Acquire::IndexTargets")
    ]
    own = {
        "Acquire::Languages": "none",
        "Acquire::Retries": "2",
        "Acquire::http::Timeout": "30",
        "Acquire::https::Timeout": "30",
        "APT::Install-Recommends": "false",
        "APT::Sandbox::User": "",
        "APT::Update::Error-Mode": "any",  # Else a list that could not be had is no error.
        "Dir::Cache": str(work),
        "Dir::Etc::main": "/dev/null",
        "Dir::Etc::parts": str(work / "empty"),
        "Dir::Etc::preferences": str(work / "preferences"),
        "Dir::Etc::preferencesparts": str(work / "empty"),
        "Dir::Etc::sourcelist": str(work / "sources.list"),
        "Dir::Etc::sourceparts": str(work / "empty"),
        "Dir::State": str(work),
        "Dir::State::lists": str(work / "lists"),
        "Dir::State::status": str(work / "status"),
    }
    text = "\n".join([*kept, *(f'{name} "{value}";' for name, value in own.items())]) + "\n"
    (work / "apt.conf").write_text(text, encoding="utf-8")
    return work / "apt.conf"


def _apt(configuration: Path, *arguments: str, cwd: Path | None = None) -> str:
    environment = {**os.environ, "APT_CONFIG": str(configuration), "LC_ALL": "C.UTF-8"}
    command = ["apt-get", "--quiet", *arguments]
    return _run(command, what=f"apt-get {arguments[0]}", environment=environment, cwd=cwd)


def _run(
    command: list[str],
    *,
    what: str,
    environment: dict[str, str] | None = None,
    cwd: Path | None = None,
) -> str:
    try:
        result = subprocess.run(  # noqa: S603 - The commands are apt's and dpkg's.
            command,
            env=environment,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_APT_SECONDS_MAX,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ServerUnavailableError(
            f"{what} took longer than {_APT_SECONDS_MAX} s: is the network there?"
        ) from None
    if result.returncode:
        last = "\n".join((result.stderr or result.stdout).strip().splitlines()[-5:])
        raise ServerUnavailableError(f"{what} failed, in its own words:\n{last}")
    return result.stdout
