"""
Which settings of a server endanger claims. Each is judged by what the server says of itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from anarchon.operating import Finding, Severity
from anarchon_redis.options import Options
from anarchon_redis.server import Server, eviction_warning

__all__ = ["Facts", "judge"]

_FULL: Final = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """
    What one server says.

    Args:
        server: Who it is.

        info: Its INFO, of which memory, persistence, clients and replication are read.

        config: Its settings; None where the user may not ask for them.

        cluster_state: What CLUSTER INFO says of the cluster's state.
    """

    server: Server
    info: Mapping[str, str]
    config: Mapping[str, str] | None = field(default=None)
    cluster_state: str | None = None

    def number(self, name: str) -> int:
        """
        Read a number of INFO; 0 where the server does not tell it.
        """
        text = self.info.get(name, "0")
        return int(text) if text.lstrip("-").isdigit() else 0

    def setting(self, name: str) -> str | None:
        """
        Read a setting; None where it is not known.
        """
        return None if self.config is None else self.config.get(name)


def judge(facts: Facts, options: Options) -> Iterator[Finding]:
    """
    Say what each fact means for the claims of a strategy.
    """
    yield Finding(
        check="server",
        severity=Severity.FINE,
        message=f"{facts.server.shown} ({facts.server.mode}), strategy {options.strategy}.",
    )
    if facts.config is None:
        yield Finding(
            check="settings",
            severity=Severity.NOTE,
            message="This user may not ask for the server's settings (CONFIG GET): appendfsync and snapshots are not"
            " known.",
            advice="Look at them by hand, or let the user call CONFIG GET.",
        )
    yield _eviction(facts, options)
    yield from _memory(facts)
    yield _durability(facts)
    yield from _writes(facts)
    yield from _replicas(facts, options)
    yield from _clients(facts)
    if facts.cluster_state not in (None, "ok"):
        yield Finding(
            check="cluster",
            severity=Severity.PROBLEM,
            message=f"The cluster's state is {facts.cluster_state!r}: some hash slots have no primary.",
            advice="Repair the cluster (CLUSTER NODES shows which nodes have failed).",
        )


def _eviction(facts: Facts, options: Options) -> Finding:
    policy = facts.info.get("maxmemory_policy", "noeviction")
    memory = {"maxmemory_policy": policy, "maxmemory": facts.number("maxmemory")}
    advice = (
        "Set maxmemory-policy noeviction, in the configuration as well (CONFIG SET lasts until a restart); keep"
        " caches on a server of their own."
    )
    warning = eviction_warning(memory, options.strategy)
    if warning is not None:
        return Finding(
            check="eviction",
            severity=Severity.PROBLEM,
            message=f"{warning[0].upper()}{warning[1:].partition(';')[0]}.",
            advice=advice,
        )
    if eviction_warning({**memory, "maxmemory": 1}, options.strategy) is not None:
        return Finding(
            check="eviction",
            severity=Severity.WARNING,
            message=f"maxmemory-policy is {policy}: as soon as maxmemory is set, this server may evict claims, and"
            " their slots may run again.",
            advice=advice,
        )
    return Finding(
        check="eviction",
        severity=Severity.FINE,
        message=f"Claims are not evicted (maxmemory-policy {policy}).",
    )


def _memory(facts: Facts) -> Iterator[Finding]:
    most, used = facts.number("maxmemory"), facts.number("used_memory")
    if most and used > _FULL * most:
        yield Finding(
            check="memory",
            severity=Severity.WARNING,
            message=f"{used * 100 // most} % of maxmemory are used; a full server refuses claims.",
            advice="Give it more memory, or take other keys away.",
        )


def _durability(facts: Facts) -> Finding:
    if facts.number("aof_enabled"):
        return _append_only(facts.setting("appendfsync"))
    snapshots = facts.setting("save")
    changes = facts.number("rdb_changes_since_last_save")
    kept = (
        "nothing is kept on disk"
        if snapshots == ""
        else f"only snapshots are kept on disk ({changes} changes since the last one)"
    )
    return Finding(
        check="durability",
        severity=Severity.WARNING,
        message=f"appendonly is off, and {kept}: a server that restarts has forgotten claims, and a slot that ran"
        " may run again.",
        advice="Set appendonly yes, in the configuration as well; with appendfsync always nothing that was answered"
        " is forgotten.",
    )


def _append_only(fsync: str | None) -> Finding:
    if fsync == "no":
        return Finding(
            check="durability",
            severity=Severity.WARNING,
            message="appendfsync is no: when the machine fails, claims of the last half minute may be forgotten, and"
            " their slots may run again.",
            advice="Set appendfsync everysec, or always, in the configuration as well.",
        )
    if fsync == "always":
        return Finding(
            check="durability",
            severity=Severity.FINE,
            message="Claims are on the disk before they are answered (appendonly yes, appendfsync always).",
        )
    known = "appendfsync everysec" if fsync == "everysec" else "appendfsync is not known"
    return Finding(
        check="durability",
        severity=Severity.NOTE,
        message=f"appendonly is on ({known}): the end of the server's process forgets nothing; when the machine"
        " fails, claims of the last second or two may be forgotten.",
        advice="Set appendfsync always, if no slot may run again even then.",
    )


def _writes(facts: Facts) -> Iterator[Finding]:
    if facts.number("aof_enabled") and facts.info.get("aof_last_write_status", "ok") != "ok":
        yield Finding(
            check="writes",
            severity=Severity.PROBLEM,
            message="The server cannot write its append-only file, and takes no claims until it can.",
            advice="Look at its log and at the space that is left on its disk.",
        )
    stops = facts.setting("stop-writes-on-bgsave-error") != "no" and facts.setting("save") != ""
    if stops and facts.info.get("rdb_last_bgsave_status", "ok") != "ok":
        yield Finding(
            check="snapshots",
            severity=Severity.PROBLEM,
            message="The last snapshot failed, and the server takes no claims until one succeeds.",
            advice="Look at its log and at the space that is left on its disk.",
        )


def _replicas(facts: Facts, options: Options) -> Iterator[Finding]:
    replicas = facts.number("connected_slaves")
    if options.wait_replicas is not None and replicas < options.wait_replicas:
        yield Finding(
            check="replicas",
            severity=Severity.PROBLEM,
            message=f"wait_replicas is {options.wait_replicas}, and {replicas} replicas are connected: no claim is"
            " won.",
            advice="Bring the replicas back, or ask for fewer.",
        )
    elif options.wait_replicas is None and (
        replicas or options.sentinel is not None or options.cluster
    ):
        yield Finding(
            check="replicas",
            severity=Severity.NOTE,
            message=f"Replicas ({replicas} here) get claims a moment later: a fail-over may lose the last ones, and"
            " their slots may run again.",
            advice="Nothing closes this gap entirely."
            + ("" if options.cluster else " wait_replicas=1 narrows it, for a round trip more."),
        )


def _clients(facts: Facts) -> Iterator[Finding]:
    most, now = facts.number("maxclients"), facts.number("connected_clients")
    if most and now > _FULL * most:
        yield Finding(
            check="clients",
            severity=Severity.WARNING,
            message=f"{now} of {most} connections are in use; an instance that finds none cannot claim.",
            advice="Raise maxclients, or find who keeps so many connections open.",
        )
