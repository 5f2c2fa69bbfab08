"""
A reader changes nothing, and what endangers a file is found and said.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TypeVar

import pytest

from anarchon.backend import ClaimRequest, RegisterRequest
from anarchon.errors import BackendStateError, ProtocolVersionError, StoreRefusedError
from anarchon.operating import Diagnosable, Finding, Inspectable, JobLister, Severity
from anarchon_sqlite import SqliteBackend
from anarchon_sqlite.diagnosis import place_finding

TIMEOUT_MS = 10_000

T = TypeVar("T")


def through(backend: SqliteBackend, use: Callable[[SqliteBackend], Awaitable[T]]) -> T:
    """
    Use a backend from open to close.
    """

    async def scenario() -> T:
        await backend.open(timeout_ms=TIMEOUT_MS)
        try:
            return await use(backend)
        finally:
            await backend.close()

    return asyncio.run(scenario())


def findings(backend: SqliteBackend) -> dict[str, Finding]:
    """
    Have a file looked at by a reader, and give what was found by its check.
    """
    found = through(backend.reader(), lambda reader: reader.diagnose(timeout_ms=TIMEOUT_MS))
    assert len({finding.check for finding in found}) == len(found)
    return {finding.check: finding for finding in found}


@pytest.fixture
def made(path: Path) -> Path:
    """
    A file that a scheduler has used.
    """

    async def register(backend: SqliteBackend) -> object:
        return await backend.register([RegisterRequest(job="a", slot=1_000)], timeout_ms=TIMEOUT_MS)

    through(SqliteBackend(path), register)
    return path


def execute(path: Path, *statements: str) -> None:
    """
    Run statements on the file, beside the backend.
    """
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        for statement in statements:
            raw.execute(statement).fetchall()


def test_parts_are_offered(path: Path) -> None:
    """
    The backend has the optional parts by their methods.
    """
    backend = SqliteBackend(path)

    assert isinstance(backend, Inspectable)
    assert isinstance(backend, Diagnosable)
    assert isinstance(backend, JobLister)


def test_reader_makes_no_file(path: Path) -> None:
    """
    A path that was mistyped is refused, and nothing is there afterwards.
    """
    with pytest.raises(StoreRefusedError, match="does not exist; a scheduler makes it"):
        through(SqliteBackend(path).reader(), lambda reader: reader.time(timeout_ms=TIMEOUT_MS))

    assert [] == list(path.parent.iterdir())


def test_reader_makes_no_tables(path: Path) -> None:
    """
    A file of somebody else's, or another prefix, is refused and left as it is.
    """
    execute(path, "CREATE TABLE theirs (x)")
    before = path.read_bytes()

    with pytest.raises(StoreRefusedError, match="no tables of prefix 'anarchon'"):
        through(SqliteBackend(path).reader(), lambda reader: reader.time(timeout_ms=TIMEOUT_MS))
    assert before == path.read_bytes()


def test_reader_refuses_a_newer_schema(made: Path) -> None:
    """
    What a newer release has written is not guessed at.
    """
    execute(made, "UPDATE anarchon_meta SET value = '999' WHERE key = 'schema_version'")

    with pytest.raises(ProtocolVersionError, match="of schema 999"):
        through(SqliteBackend(made).reader(), lambda reader: reader.time(timeout_ms=TIMEOUT_MS))


def test_reader_reads_and_its_clones_do(made: Path, ask: Callable[..., ClaimRequest]) -> None:
    """
    Time, history and jobs are read; a claim is refused, also by a clone.
    """
    through(
        SqliteBackend(made), lambda backend: backend.claim([ask("a", 2_000)], timeout_ms=TIMEOUT_MS)
    )

    async def read(reader: SqliteBackend) -> tuple[int | None, Sequence[object]]:
        with pytest.raises(BackendStateError, match="only reads"):
            await reader.claim([ask("a", 3_000)], timeout_ms=TIMEOUT_MS)
        now_ms = await reader.time(timeout_ms=TIMEOUT_MS)
        return now_ms, await reader.history(None, limit=5, timeout_ms=TIMEOUT_MS)

    now_ms, records = through(SqliteBackend(made).reader().clone(), read)

    assert now_ms
    assert 1 == len(records)


def test_known_jobs_are_told_with_their_runs(made: Path, ask: Callable[..., ClaimRequest]) -> None:
    """
    What the store keeps of each job, by name; a run shows what is left of its lease.
    """
    claim = ask("b", 2_000, fingerprint="f", zone_digests='{"2027": "d"}', lease_ms=60_000)
    through(SqliteBackend(made), lambda backend: backend.claim([claim], timeout_ms=TIMEOUT_MS))
    first, second = through(
        SqliteBackend(made).reader(), lambda reader: reader.known_jobs(timeout_ms=TIMEOUT_MS)
    )

    assert ("a", 1_000, None, None) == (first.job, first.high, first.fingerprint, first.run)
    assert ("b", 2_000, "f", '{"2027": "d"}') == (
        second.job,
        second.high,
        second.fingerprint,
        second.zone_digests,
    )
    assert second.run is not None
    assert (2_000, 1, "host:1") == (second.run.slot, second.run.attempt, second.run.instance_id)
    assert 0 < second.run.remaining_ms <= 60_000


def test_sound_file_has_no_problem(made: Path) -> None:
    """
    As a scheduler sets a file up, nothing endangers it but the place, which is the user's choice.
    """
    found = findings(SqliteBackend(made))

    assert {"server", "journal", "durability", "place", "space"} == set(found)
    assert {Severity.FINE} == {found[check].severity for check in set(found) - {"place", "space"}}
    assert sqlite3.sqlite_version in found["server"].message


def test_changed_journal_mode_is_found(made: Path) -> None:
    """
    Another program has turned write-ahead logging off; looking does not turn it on again.
    """
    execute(made, "PRAGMA journal_mode = delete")
    first, second = (findings(SqliteBackend(made))["journal"] for _ in range(2))

    assert Severity.WARNING is first.severity
    assert "'delete'" in first.message
    assert first == second
    assert first.advice


def test_weaker_commits_are_found(made: Path) -> None:
    """
    The option may forget commits when the power fails, and that is said.
    """
    finding = findings(SqliteBackend(made, synchronous="normal"))["durability"]

    assert Severity.WARNING is finding.severity
    assert "may run again" in finding.message
    assert finding.advice


def test_damage_is_found(made: Path) -> None:
    """
    A page that no longer is one is found, though what is read first is sound.
    """
    row = "('a', {}, 1, 't', 'i', 'success', NULL, 1, 1, 1, '" + "x" * 500 + "')"
    rows = ", ".join(row.format(slot) for slot in range(100))
    execute(made, f"INSERT INTO anarchon_runs VALUES {rows}", "PRAGMA journal_mode = delete")
    data = bytearray(made.read_bytes())
    data[-4_096:] = b"\xff" * 4_096
    made.write_bytes(data)
    finding = findings(SqliteBackend(made))["damage"]

    assert Severity.PROBLEM is finding.severity
    assert "damaged: " in finding.message
    assert finding.advice


@pytest.mark.parametrize(("free", "log", "check"), [(2**20, 0, "space"), (2**40, 2**30, "log")])
def test_want_of_room_is_found(
    made: Path, monkeypatch: pytest.MonkeyPatch, free: int, log: int, check: str
) -> None:
    """
    A disk that is nearly full, and a log that cannot be taken into the file, are warnings.
    """
    usage = type("Usage", (), {"free": free})
    monkeypatch.setattr("anarchon_sqlite.diagnosis.shutil.disk_usage", lambda _path: usage)
    monkeypatch.setattr("anarchon_sqlite.diagnosis._size", lambda _path: log)
    finding = findings(SqliteBackend(made))[check]

    assert Severity.WARNING is finding.severity
    assert finding.advice


@pytest.mark.parametrize(
    ("kind", "severity"),
    [
        ("ext4", Severity.FINE),
        (None, Severity.FINE),
        ("tmpfs", Severity.WARNING),
        ("overlay", Severity.WARNING),
    ],
)
def test_place_is_judged(kind: str | None, severity: Severity) -> None:
    """
    Memory forgets with a reboot, a container's own layer with the container.
    """
    finding = place_finding(kind)

    assert severity is finding.severity
    assert (severity is Severity.WARNING) is bool(finding.advice)
