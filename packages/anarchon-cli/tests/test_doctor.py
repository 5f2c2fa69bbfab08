"""
`anarchon doctor` puts what is found together, for people and for health checks.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

import anarchon_testbed as testbed
from anarchon import Backend, RegisterRequest, backend_from_url
from anarchon.operating import Severity

Anarchon = Callable[..., Result]
Written = Callable[[str], str]

TIMEOUT_MS = 20_000

CODE = """
from anarchon import Scheduler

scheduler = Scheduler({url!r})
scheduler.cron("report", "0 8 * * *", lambda: None, timezone="Europe/Berlin")
"""


async def use(backend: Backend, *requests: RegisterRequest) -> None:
    """
    Open a store as a scheduler does, and make jobs known to it.
    """
    await backend.open(timeout_ms=TIMEOUT_MS)
    try:
        if requests:
            await backend.register(requests, timeout_ms=TIMEOUT_MS)  # type: ignore[attr-defined]  # a lease backend
    finally:
        await backend.close()


def made(url: str, *requests: RegisterRequest) -> str:
    """
    Make a store, and return its URL.
    """
    asyncio.run(use(backend_from_url(url), *requests))
    return url


def found(result: Result) -> dict[str, dict[str, Any]]:
    """
    Read findings by their checks.
    """
    return {finding["check"]: finding for finding in map(json.loads, result.stdout.splitlines())}


def test_sound_store_passes(anarchon: Anarchon, folder: Path) -> None:
    """
    Exit status 0, a line for each thing that was looked at, and how many of each kind in the end.
    """
    result = anarchon("doctor", "--backend", made("sqlite:///jobs.db"))
    *lines, last = result.stdout.splitlines()

    assert 0 == result.exit_code
    assert any(line.startswith("fine     journal") for line in lines)
    assert last.endswith(" fine")
    assert "problem" not in last


def test_findings_are_json_for_programs(anarchon: Anarchon, folder: Path) -> None:
    """
    One object a line: check, severity, message and advice.
    """
    findings = found(anarchon("doctor", "--backend", made("sqlite:///jobs.db"), "--json"))

    assert {"store", "clock", "server", "journal", "durability", "zone-rules"} <= set(findings)
    assert {"check", "severity", "message", "advice"} == set(findings["clock"])
    assert "fine" == findings["durability"]["severity"]


def test_store_that_is_not_there_is_a_problem(anarchon: Anarchon, folder: Path) -> None:
    """
    Exit status 1, and no file is made by looking.
    """
    result = anarchon("doctor", "--backend", "sqlite:///mistyped.db", "--json")

    assert 1 == result.exit_code
    assert "problem" == found(result)["store"]["severity"]
    assert "does not exist" in found(result)["store"]["message"]
    assert [] == list(folder.iterdir())


def test_store_that_does_not_answer_is_a_problem(anarchon: Anarchon) -> None:
    """
    A server that is away is told as a finding, with the way out.
    """
    result = anarchon("doctor", "--backend", "redis://127.0.0.1:1/0", "--timeout", "2s")

    assert 1 == result.exit_code
    assert "problem  store" in result.stdout
    assert "-> Look whether the store runs" in result.stdout


@pytest.mark.parametrize(("arguments", "status"), [((), 0), (("--strict",), 1)])
def test_strict_fails_for_a_warning(
    anarchon: Anarchon, folder: Path, arguments: tuple[str, ...], status: int
) -> None:
    """
    A health check may be content with warnings, or not.
    """
    url = made("sqlite:///jobs.db?synchronous=normal")
    result = anarchon("doctor", "--backend", url, *arguments)

    assert status == result.exit_code
    assert "warning  durability" in result.stdout
    assert " warning" in result.stdout.splitlines()[-1]


def test_jobs_of_the_code_are_compared(anarchon: Anarchon, written: Written) -> None:
    """
    The scheduler's own store is looked at, with its jobs: another schedule and other rules of a zone are found.
    """
    request = RegisterRequest(
        job="report", slot=0, fingerprint="another", zone_digests='{"2026": "x", "2027": "x"}'
    )
    url = made("sqlite:///jobs.db", request)
    result = anarchon("doctor", f"{written(CODE.format(url=url))}:scheduler", "--json")
    findings = found(result)

    assert 0 == result.exit_code
    assert "warning" == findings["schedules"]["severity"]
    assert "warning" == findings["zones"]["severity"]
    assert "tzdata" in findings["zones"]["message"]


def test_url_stands_in_for_the_schedulers_store(anarchon: Anarchon, written: Written) -> None:
    """
    --backend comes before what the code says.
    """
    url = made("sqlite:///jobs.db")
    module = written(CODE.format(url="sqlite:///elsewhere.db"))
    result = anarchon("doctor", f"{module}:scheduler", "--backend", url, "--json")

    assert "jobs.db" in found(result)["store"]["message"]
    assert "does not know job 'report'" in found(result)["jobs"]["message"]


def test_option_that_the_store_cannot_honour_is_a_problem(
    anarchon: Anarchon, written: Written
) -> None:
    """
    A scheduler with this store would not start, and that is said before it is tried.
    """
    code = CODE.format(url="memory:").replace("timezone=", "catch_up='all', timezone=")
    result = anarchon("doctor", f"{written(code)}:scheduler", "--backend", "memory-claim:")

    assert 1 == result.exit_code
    assert "problem  options" in result.stdout
    assert "catch_up" in result.stdout


def test_backend_without_the_optional_parts_is_looked_at_all_the_same(anarchon: Anarchon) -> None:
    """
    A third party's backend need not have findings of its own: that is a note.
    """
    findings = found(anarchon("doctor", "--backend", "memory:", "--json"))

    assert {"settings": "note", "jobs": "note", "clock": "fine", "store": "fine"} == {
        check: finding["severity"] for check, finding in findings.items() if check != "zone-rules"
    }


def test_zone_rules_of_the_system_are_a_note(
    anarchon: Anarchon, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Whoever takes the system's files is told to keep them alike.
    """
    monkeypatch.setattr("anarchon_cli.doctor.zone_rules", lambda: "system")
    finding = found(anarchon("doctor", "--backend", "memory:", "--json"))["zone-rules"]

    assert "note" == finding["severity"]
    assert "ANARCHON_TZ" in finding["message"]


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        ((), 2, "doctor needs a store"),
        (("nowhere:scheduler",), 2, "no module 'nowhere'"),
        (("--backend", "nosuch://x"), 1, "installed schemes"),
        (("--backend", "memory:", "--timeout", "soon"), 1, "--timeout"),
    ],
)
def test_wrong_command_is_one_line(
    anarchon: Anarchon, arguments: tuple[str, ...], status: int, said: str
) -> None:
    """
    What the command line itself lacks is no finding.
    """
    result = anarchon("doctor", *arguments)

    assert (status, "") == (result.exit_code, result.stdout)
    assert said in result.stderr


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["redis", "valkey", "postgres"])
def test_settings_of_a_real_server_reach_the_command(
    anarchon: Anarchon, written: Written, kind: str
) -> None:
    """
    On a server with dangerous settings the command fails or warns, and a job that nobody claims is found.
    """
    options: dict[str, Any] = {
        "redis": {"config": {"maxmemory": "100mb", "maxmemory-policy": "allkeys-lru"}},
        "valkey": {"config": {"maxmemory": "100mb", "maxmemory-policy": "allkeys-lru"}},
        "postgres": {"config": {"synchronous_commit": "off"}},
    }
    check, severity = (
        ("durability", Severity.WARNING) if kind == "postgres" else ("eviction", Severity.PROBLEM)
    )
    with getattr(testbed, kind)(**options[kind]) as server:
        url = made(server.url, RegisterRequest(job="report", slot=0))
        module = written(CODE.format(url=url))
        result = anarchon("doctor", f"{module}:scheduler", "--json")
        strict = anarchon("doctor", f"{module}:scheduler", "--strict")
    findings = found(result)

    assert severity == findings[check]["severity"]
    assert findings[check]["advice"]
    assert "warning" == findings["overdue"]["severity"]
    assert server.version in findings["server"]["message"]
    assert int(severity is Severity.PROBLEM) == result.exit_code
    assert 1 == strict.exit_code
