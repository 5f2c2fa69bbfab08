"""
Servers are looked for in one order, and what cannot be had is explained.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import anarchon_testbed as testbed
from anarchon_testbed import debian, having
from anarchon_testbed.__main__ import main
from anarchon_testbed.cache import cache_folder
from anarchon_testbed.debian import DebianPackage, Release, wrap_programs
from anarchon_testbed.ports import free_port
from anarchon_testbed.programs import Program, find_program, reachable_by_all
from anarchon_testbed.recipes import RECIPES, Recipe, matches, recipes_for

STANZAS = """\
Types: deb
# A comment may stand between the fields.
URIs: http://mirror.invalid/debian
Suites: bookworm

Types: deb
URIs: http://mirror.invalid/debian-security
"""
REDIS_8_6 = recipes_for("redis", "8.6")[0]


def stand_in(folder: Path, name: str, says: str) -> Path:
    """
    Put a program into a folder that says a version.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\necho '{says}'\n", encoding="utf-8")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("wanted", "found", "expected"),
    [
        ("8.6", "8.6.3", True),
        ("8.6", "8.6", True),
        ("8.6", "8.60.0", False),
        ("9", "9.1.2", True),
        ("15", "1.5", False),
        (None, "1.2", True),
    ],
)
def test_versions_match_by_their_numbers(wanted: str | None, found: str, *, expected: bool) -> None:
    """
    A version that leaves out the last numbers takes any of them.
    """
    assert expected == matches(wanted, found)


def test_an_unknown_server_is_refused_with_those_known() -> None:
    """
    A wrong name says what there is.
    """
    with pytest.raises(testbed.TestbedError, match=r"redis 3\.2.*redis-8\.6.*postgres-18"):
        testbed.redis("3.2")


@pytest.mark.parametrize(
    "says",
    [
        "Redis server v=8.6.3 sha=00000000:1 malloc=jemalloc-5.3.0 bits=64 build=1",
        "redis-server 8.6.9",
    ],
)
def test_a_program_in_the_path_is_taken(bare: Path, tmp_path: Path, says: str) -> None:
    """
    What the user's PATH has goes before everything that would be downloaded.
    """
    path = stand_in(tmp_path / "bin", "redis-server", says)

    program = find_program(REDIS_8_6)

    assert ((str(path),), str(path)) == (program.command, program.origin)
    assert program.version.startswith("8.6.")


def test_a_program_of_another_version_is_named_and_passed_over(bare: Path, tmp_path: Path) -> None:
    """
    The reason says what was found, what to do about it, and which variable takes a URL.
    """
    stand_in(tmp_path / "bin", "redis-server", "Redis server v=6.2.1 sha=0")

    with pytest.raises(testbed.ServerUnavailableError) as caught:
        find_program(REDIS_8_6)

    for words in ("redis-server is 6.2.1", "obtain redis-8.6", "ANARCHON_TEST_REDIS_8_6_URL"):
        assert words in str(caught.value)


def test_a_program_that_does_not_start_is_passed_over(bare: Path, tmp_path: Path) -> None:
    """
    A file of the right name that is no program is not a server.
    """
    stand_in(tmp_path / "bin", "redis-server", "").write_text("no program", encoding="utf-8")

    with pytest.raises(testbed.ServerUnavailableError, match="no program that starts"):
        find_program(REDIS_8_6)


def test_everything_known_is_listed(bare: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """
    `list` has a line for each server, and for those that are not here the reason or the way to get them.
    """
    status = main(["list"])
    lines = capsys.readouterr().out.splitlines()

    assert 0 == status
    assert [recipe.name for recipe in RECIPES] == [line.split()[0] for line in lines]
    (redis,) = (line for line in lines if line.startswith("redis-8.6"))
    assert "can be obtained" in redis or "cannot be obtained: no apt-get" in redis


@pytest.mark.parametrize(("ci", "expected"), [("true", 1), ("", 0)])
def test_what_cannot_be_obtained_fails_only_in_ci(
    bare: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    ci: str,
    expected: int,
) -> None:
    """
    Without apt nothing of Debian can be had: `obtain` says so, and ends well where tests may be skipped.
    """
    monkeypatch.setenv("CI", ci)

    status = main(["obtain", "pgbouncer-1"])

    assert expected == status
    assert "Not here: pgbouncer-1" in capsys.readouterr().out


def test_a_wrong_name_cannot_be_obtained(bare: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """
    A typing mistake is no silent success.
    """
    assert 2 == main(["obtain", "redis-9999"])
    assert "redis-9999" in capsys.readouterr().err


def test_a_url_counts_as_having_it(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Nothing is downloaded for a server that the environment gives.
    """
    monkeypatch.setenv("ANARCHON_TEST_PGBOUNCER_URL", "postgresql://elsewhere/")

    (answer,) = having.obtain(["pgbouncer-1"])

    assert "by URL: ANARCHON_TEST_PGBOUNCER_URL" == answer.origin
    assert not cache_folder().exists()


def test_a_program_is_brought_where_a_container_would_do(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Many options need a program; where it cannot be brought the container still counts.
    """
    brought = []

    def bring(recipe: Recipe) -> None:
        brought.append(recipe.name)
        raise testbed.ServerUnavailableError("the network is gone")

    monkeypatch.setattr(having, "why_no_container", lambda _: None)
    monkeypatch.setattr(having, "why_not_obtainable", lambda _: None)
    monkeypatch.setattr(having, "obtain_program", bring)

    (answer,) = having.obtain(["valkey-9"])

    assert ["valkey-9"] == brought
    assert "container valkey/valkey:9" == answer.origin


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        (
            "sources.list.d/debian.sources",
            STANZAS,
            "http://mirror.invalid/debian",
        ),
        (
            "sources.list",
            "deb [arch=amd64] https://mirror.invalid/debian/ trixie main\n",
            "https://mirror.invalid/debian/",
        ),
        ("sources.list", "deb http://mirror.invalid/ubuntu noble main\n", None),
        ("sources.list.d/other.list", "# deb http://mirror.invalid/debian sid main\n", None),
    ],
    ids=["stanzas", "lines", "another system", "a comment"],
)
def test_the_archive_is_the_systems_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str, expected: str | None
) -> None:
    """
    The address comes from the machine's sources of Debian, in both forms that apt reads.
    """
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / name).write_text(text, encoding="utf-8")
    monkeypatch.setattr(debian, "_SYSTEM_SOURCES", tmp_path)

    assert expected == debian._archive()


def test_a_server_comes_with_its_libraries_alone() -> None:
    """
    Of all that apt would install only the package, those beside it and the libraries are unpacked.
    """
    names = ["libc6_2.36-9", "libperl5.36_5.36.0-7", "passwd_1%3a4.13", "redis-tools_5%3a8.6.3-1"]
    listed = "Reading package lists...\n" + "".join(
        f"'x' {name}_amd64.deb 1 SHA256:0\n" for name in names
    )
    package = DebianPackage(
        release=Release(suite="sid"), name="redis-server", beside=("redis-tools",)
    )

    assert ["libc6=2.36-9", "redis-tools=5:8.6.3-1"] == list(debian._wanted(listed, package))


def test_a_wrapped_program_starts_through_its_folders_loader(tmp_path: Path) -> None:
    """
    The script hands on its arguments and its own name, also after the folder was moved.
    """
    loader = tmp_path / "a/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"
    loader.parent.mkdir(parents=True)
    loader.write_text('#!/bin/sh\necho "$1" "$4" "$5" "$6"\n', encoding="utf-8")
    loader.chmod(0o755)
    wrap_programs(tmp_path / "a", [stand_in(tmp_path / "a/usr/bin", "server", "")])
    (tmp_path / "a").rename(tmp_path / "b")
    program = tmp_path / "b/usr/bin/server"

    told = subprocess.run([program, "--port"], capture_output=True, text=True, check=True).stdout

    assert f"--library-path {program} {program}.real --port\n" == told


@pytest.fixture
def closed_folder(tmp_path: Path) -> Iterator[Path]:
    """
    Give a folder that only its owner may enter.
    """
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o700)
    yield folder
    folder.chmod(0o700)


def test_a_program_in_a_closed_folder_is_copied_to_where_all_may_start_it(
    closed_folder: Path,
) -> None:
    """
    A server that drops root's rights could not start from there. The copy is made once.
    """
    path = stand_in(closed_folder / "install/bin", "postgres", "postgres (PostgreSQL) 18.6")
    program = Program(command=(str(path),), version="18.6", origin="here")

    copy, again = reachable_by_all(program), reachable_by_all(program)
    told = subprocess.run(copy.command, capture_output=True, text=True, check=True).stdout
    closed = [folder for folder in copy.path.parents if not folder.stat().st_mode & 0o001]
    shutil.rmtree(copy.path.parent.parent)

    assert path != copy.path
    assert copy == again
    assert [] == closed
    assert "18.6" in told


def test_a_port_is_not_one_that_clients_are_given() -> None:
    """
    A client that looks for a server which is down must not be able to connect to itself.
    """
    ports = {free_port() for _ in range(20)}
    handed_out = Path("/proc/sys/net/ipv4/ip_local_port_range")
    lowest = int(handed_out.read_text().split()[0]) if handed_out.exists() else 32768

    assert len(ports) > 1
    assert max(ports) < lowest


def test_the_cache_belongs_to_the_project(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """
    The project around the working folder has it; a variable names another one.
    """
    monkeypatch.delenv("ANARCHON_TESTBED_CACHE", raising=False)
    (tmp_path / ".git").mkdir()
    (tmp_path / "deep/er").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "deep/er")
    inside = cache_folder()
    monkeypatch.setenv("ANARCHON_TESTBED_CACHE", os.fspath(tmp_path / "own"))

    assert tmp_path / ".cache/servers" == inside
    assert tmp_path / "own/servers" == cache_folder()
