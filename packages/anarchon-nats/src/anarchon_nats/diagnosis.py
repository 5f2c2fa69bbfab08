"""
What endangers a stream, which jobs it knows, and looking at it without making it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from anarchon.backend import EARLY_TOLERANCE_MS
from anarchon.clock import Clock
from anarchon.errors import StoreRefusedError
from anarchon.operating import Finding, KnownJob, Severity
from anarchon_nats.history import kept_of
from anarchon_nats.instants import instant_ms
from anarchon_nats.line import Letter
from anarchon_nats.options import Options
from anarchon_nats.stream import Stream, check_stream
from anarchon_nats.subjects import Subjects
from anarchon_nats.trouble import NO_STREAM, api_error
from anarchon_nats.wire import Wire

__all__ = ["Facts", "ask_for_facts", "judge", "look_at_stream", "read_known_jobs"]

_FULL: Final = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """
    What a server says.

    Args:
        version: The server's version.

        clustered: Whether it is a node of a cluster.

        told: What the stream's leader tells of the stream.

        account: What JetStream tells of the account; empty where it does not.

        ahead_ms: By how much our own clock is ahead of the server's.

        trip_ms: How long the answer took that told its clock.
    """

    version: str
    clustered: bool
    told: Mapping[str, Any]
    account: Mapping[str, Any] = field(default_factory=dict)
    ahead_ms: int = 0
    trip_ms: int = 0

    @property
    def config(self) -> Mapping[str, Any]:
        """
        How the stream is set up.
        """
        config: Mapping[str, Any] = self.told.get("config") or {}
        return config

    @property
    def replicas(self) -> int:
        """
        How many nodes keep the stream.
        """
        return int(self.config.get("num_replicas", 1))


async def look_at_stream(
    wire: Wire, options: Options, subjects: Subjects, where: str
) -> Mapping[str, Any]:
    """
    Look at the stream that is there; make none.

    Raises:
        StoreRefusedError: There is none, or it does not keep what is promised.

        ProtocolVersionError: Another anarchon-nats has made it.
    """
    told = await wire.ask(_letter(options, f"STREAM.INFO.{subjects.stream}"))
    error = told.get("error")
    if error is not None and error.get("err_code") == NO_STREAM:
        msg = (
            f"{where}: there is no stream {subjects.stream!r}; a scheduler makes it when it starts"
        )
        raise StoreRefusedError(msg)
    if error is not None:
        raise api_error(error, where)
    check_stream(told["config"], options, subjects, where)
    return told


async def ask_for_facts(
    wire: Wire, options: Options, subjects: Subjects, where: str, *, clock: Clock
) -> Facts:
    """
    Ask the server, the stream's leader and the account.
    """
    hello = await wire.hello()
    sent_ms = clock.wall_ms()
    told = await look_at_stream(wire, options, subjects, where)
    received_ms = clock.wall_ms()
    account = await wire.ask(_letter(options, "INFO"))
    return Facts(
        version=str(hello.get("version", "")),
        clustered=bool(hello.get("cluster")),
        told=told,
        account={} if "error" in account else account,
        ahead_ms=(sent_ms + received_ms) // 2 - instant_ms(told["ts"]),
        trip_ms=max(0, received_ms - sent_ms),
    )


async def read_known_jobs(stream: Stream, subjects: Subjects) -> list[KnownJob]:
    """
    Read every job that has a claim, by name, with the newest slot that is remembered.
    """
    kept = kept_of(subjects, await stream.subjects_of(subjects.everything))
    return [
        KnownJob(job=job, high=max(slots.open[:1] + slots.ended[:1]))
        for job, slots in sorted(kept.items())
    ]


def judge(facts: Facts) -> Iterator[Finding]:
    """
    Say what each fact means for claims.
    """
    yield Finding(
        check="server",
        severity=Severity.FINE,
        message=f"NATS {facts.version}, a stream on {facts.replicas} node{'s' if facts.replicas > 1 else ''}.",
    )
    yield _durability(facts)
    yield from _replicas(facts)
    yield from _room(facts)
    yield _server_clock(facts)


def _durability(facts: Facts) -> Finding:
    if facts.config.get("storage") == "memory":
        return Finding(
            check="durability",
            severity=Severity.WARNING,
            message="The stream is kept in memory: a server that restarts has forgotten claims, and a slot that ran"
            " may run again.",
            advice="Remove the stream while no instance runs, and let a scheduler make it anew, on disk.",
        )
    nodes = "the machine fails" if facts.replicas == 1 else "most nodes fail at once"
    return Finding(
        check="durability",
        severity=Severity.NOTE,
        message=f"The stream is kept on disk, which it reaches within the server's sync_interval (two minutes unless"
        f" set): when {nodes}, claims of that time may be forgotten. The end of the server's process forgets nothing.",
        advice="`sync_interval: always` in the server's jetstream block closes this, and makes claims slower.",
    )


def _replicas(facts: Facts) -> Iterator[Finding]:
    if facts.clustered and facts.replicas == 1:
        yield Finding(
            check="replicas",
            severity=Severity.WARNING,
            message="One node of the cluster keeps everything: while it is away nothing is claimed, and if it is lost,"
            " everything is forgotten.",
            advice=f"`nats stream edit {facts.config.get('name')} --replicas=3` while all nodes are there.",
        )
    cluster = facts.told.get("cluster") or {}
    behind = [
        str(each.get("name"))
        for each in cluster.get("replicas") or ()
        if each.get("offline") or not each.get("current", True)
    ]
    if behind:
        yield Finding(
            check="nodes",
            severity=Severity.WARNING,
            message=f"Replicas of the stream are away or behind: {', '.join(behind)}. Without a majority nothing is"
            " claimed.",
            advice="Bring these nodes back.",
        )


def _room(facts: Facts) -> Iterator[Finding]:
    state = facts.told.get("state") or {}
    limits = facts.account.get("limits") or {}
    bounds = {
        "the stream's max_bytes": (state.get("bytes", 0), facts.config.get("max_bytes", -1)),
        "the stream's max_msgs": (state.get("messages", 0), facts.config.get("max_msgs", -1)),
        "the account's storage": (facts.account.get("storage", 0), limits.get("max_storage", -1)),
    }
    for name, (used, most) in bounds.items():
        if most > 0 and used > _FULL * most:
            yield Finding(
                check="room",
                severity=Severity.WARNING,
                message=f"{used * 100 // most} % of {name} are used; a full stream refuses claims.",
                advice="Raise the limit, or keep fewer records (retention).",
            )
            return


def _server_clock(facts: Facts) -> Finding:
    apart_ms, unsure_ms = abs(facts.ahead_ms), -(-facts.trip_ms // 2)
    words = "ahead of" if facts.ahead_ms > 0 else "behind"
    if apart_ms - unsure_ms <= EARLY_TOLERANCE_MS:
        return Finding(
            check="server-clock",
            severity=Severity.FINE,
            message=f"This machine's clock and the server's are {apart_ms} ms apart (within {unsure_ms} ms).",
        )
    cost = "runs slots early, for all" if facts.ahead_ms > 0 else "starts slots late"
    return Finding(
        check="server-clock",
        severity=Severity.WARNING,
        message=f"This machine's clock is {apart_ms} ms {words} the server's (within {unsure_ms} ms): an instance here"
        f" {cost}.",
        advice="Let NTP keep both clocks, and find out which of them is wrong.",
    )


def _letter(options: Options, call: str) -> Letter:
    api = "$JS.API" if options.domain is None else f"$JS.{options.domain}.API"
    return Letter(f"{api}.{call}", json.dumps({}).encode())
