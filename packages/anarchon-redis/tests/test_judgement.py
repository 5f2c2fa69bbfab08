"""
What the settings of a server mean for claims; pure, without one.
"""

from __future__ import annotations

from typing import Any

import pytest

from anarchon.operating import Finding, Severity
from anarchon_redis.diagnosis import Facts, judge
from anarchon_redis.options import Options
from anarchon_redis.server import Server

SOUND = {
    "aof_enabled": "1",
    "aof_last_write_status": "ok",
    "rdb_last_bgsave_status": "ok",
    "maxmemory": "0",
    "maxmemory_policy": "noeviction",
    "maxclients": "100",
    "connected_clients": "3",
}
SETTINGS = {"appendfsync": "always", "save": "", "stop-writes-on-bgsave-error": "yes"}


def judged(
    options: Options | None = None,
    *,
    config: dict[str, str] | None = None,
    cluster_state: str | None = None,
    **info: str,
) -> dict[str, Finding]:
    """
    Judge a server that is sound but for what is named.
    """
    facts = Facts(
        server=Server(kind="redis", version="8.6.3", mode="standalone", role="master"),
        info={**SOUND, **info},
        config={**SETTINGS, **(config or {})},
        cluster_state=cluster_state,
    )
    found = list(judge(facts, options or Options()))
    assert len({finding.check for finding in found}) == len(found)
    return {finding.check: finding for finding in found}


def test_sound_server_has_nothing_but_fine_findings() -> None:
    """
    No eviction, the append-only file on the disk before each answer: there is nothing to say.
    """
    found = judged()

    assert {"server", "eviction", "durability"} == set(found)
    assert {Severity.FINE} == {finding.severity for finding in found.values()}


@pytest.mark.parametrize(
    ("facts", "check", "severity", "said"),
    [
        (
            {"maxmemory": "1000", "used_memory": "950"},
            "memory",
            Severity.WARNING,
            "95 % of maxmemory",
        ),
        (
            {"aof_enabled": "0", "rdb_changes_since_last_save": "7", "config": {"save": "900 1"}},
            "durability",
            Severity.WARNING,
            "7 changes since the last one",
        ),
        (
            {"aof_enabled": "0"},
            "durability",
            Severity.WARNING,
            "nothing is kept on disk",
        ),
        (
            {"config": {"appendfsync": "everysec"}},
            "durability",
            Severity.NOTE,
            "the last second or two",
        ),
        (
            {"config": {"appendfsync": "no"}},
            "durability",
            Severity.WARNING,
            "half minute",
        ),
        (
            {"aof_last_write_status": "err"},
            "writes",
            Severity.PROBLEM,
            "takes no claims",
        ),
        (
            {"rdb_last_bgsave_status": "err", "config": {"save": "900 1"}},
            "snapshots",
            Severity.PROBLEM,
            "takes no claims",
        ),
        ({"connected_slaves": "2"}, "replicas", Severity.NOTE, "a fail-over may lose"),
        (
            {"connected_clients": "95"},
            "clients",
            Severity.WARNING,
            "95 of 100 connections",
        ),
        ({"cluster_state": "fail"}, "cluster", Severity.PROBLEM, "'fail'"),
    ],
)
def test_fact_is_judged(facts: dict[str, Any], check: str, severity: Severity, said: str) -> None:
    """
    Each fact has its finding, with what to do about it.
    """
    finding = judged(**facts)[check]

    assert severity is finding.severity
    assert said in finding.message
    assert finding.advice


@pytest.mark.parametrize(
    ("policy", "maxmemory", "strategy", "severity"),
    [
        ("allkeys-lru", "0", "lease", Severity.WARNING),
        ("allkeys-lru", "1000", "lease", Severity.PROBLEM),
        ("volatile-ttl", "1000", "lease", Severity.FINE),
        ("volatile-ttl", "1000", "script", Severity.PROBLEM),
        ("volatile-ttl", "0", "script", Severity.WARNING),
        ("noeviction", "1000", "script", Severity.FINE),
    ],
)
def test_eviction_is_judged_by_what_a_strategy_keeps(
    policy: str, maxmemory: str, strategy: Any, severity: Severity
) -> None:
    """
    Only keys that a policy may take endanger claims: those that expire are the strategy script's.
    """
    found = judged(
        Options(strategy=strategy), maxmemory_policy=policy, maxmemory=maxmemory, used_memory="1"
    )

    assert severity is found["eviction"].severity


def test_settings_that_are_not_known_are_not_guessed() -> None:
    """
    Without the right to ask, the append-only file is a note, and a failed snapshot a problem.
    """
    found = {
        each.check: each
        for each in judge(
            Facts(
                server=Server(kind="redis", version="8.6.3", mode="standalone", role="master"),
                info={**SOUND, "rdb_last_bgsave_status": "err"},
            ),
            Options(),
        )
    }

    assert Severity.NOTE is found["settings"].severity
    assert "appendfsync is not known" in found["durability"].message
    assert (
        "appendfsync everysec" in judged(config={"appendfsync": "everysec"})["durability"].message
    )
    assert Severity.PROBLEM is found["snapshots"].severity


@pytest.mark.parametrize(
    "config", [{"save": ""}, {"save": "900 1", "stop-writes-on-bgsave-error": "no"}]
)
def test_failed_snapshot_that_stops_no_claim_is_passed_over(config: dict[str, str]) -> None:
    """
    Where no snapshot is asked for, or claims go on without one, an old failure says nothing.
    """
    assert "snapshots" not in judged(config=config, rdb_last_bgsave_status="err")
    assert "snapshots" not in judged(config={"save": "900 1"})


def test_replicas_of_a_cluster_cannot_be_waited_for() -> None:
    """
    The advice is one that the options allow.
    """
    plain = judged(connected_slaves="1")["replicas"]
    cluster = judged(Options(cluster=True))["replicas"]

    assert "wait_replicas=1" in plain.advice
    assert "wait_replicas" not in cluster.advice


def test_too_few_replicas_are_a_problem() -> None:
    """
    A claim that must reach replicas is not won while they are away.
    """
    options = Options(wait_replicas=2)

    assert Severity.PROBLEM is judged(options, connected_slaves="1")["replicas"].severity
    assert "replicas" not in judged(options, connected_slaves="2")
