"""
Looking at a server, or at all primaries of a Cluster, for a person who operates it. Nothing is written.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from typing import Any, Final

from redis.asyncio import RedisCluster
from redis.exceptions import ResponseError

from anarchon.backend import EARLY_TOLERANCE_MS, RunView
from anarchon.errors import StoreUnavailableError
from anarchon.operating import Finding, KnownJob, Severity
from anarchon_redis.client import AnyRedis, close_client
from anarchon_redis.diagnosis import Facts, judge
from anarchon_redis.history import HistoryReader
from anarchon_redis.keys import Keys
from anarchon_redis.options import Options
from anarchon_redis.server import server_of
from anarchon_redis.trouble import CLIENT_ERRORS, store_error
from anarchon_redis.wire import Wire

__all__ = ["look_at_servers", "read_known_jobs"]

_AT_ONCE: Final = 8
_CLOSE_TIMEOUT_S: Final = 1.0
_SETTINGS: Final = ("appendfsync", "save", "stop-writes-on-bgsave-error")
_STATE: Final = (
    "high",
    "slot",
    "attempt",
    "token",
    "instance",
    "until",
    "fingerprint",
    "digests",
    "since",
)


async def look_at_servers(
    client: AnyRedis, options: Options, where: str, *, timeout_ms: int
) -> list[Finding]:
    """
    Ask the server, or each primary of a Cluster, and judge what it says; *client* is closed.

    Raises:
        StoreUnavailableError: A server did not answer in time.

        BackendError: It refused to answer at all.
    """
    try:
        async with asyncio.timeout(timeout_ms / 1_000):
            if isinstance(client, RedisCluster):
                return await _look_at_cluster(client, options)
            return list(judge(await _facts(client), options))
    except TimeoutError as error:
        msg = f"{where} did not answer within {timeout_ms} ms"
        raise StoreUnavailableError(msg) from error
    except CLIENT_ERRORS as error:
        raise store_error(error, where) from error
    finally:
        # Nobody waits for a server's last word.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                await close_client(client)


async def _look_at_cluster(client: RedisCluster, options: Options) -> list[Finding]:
    """
    Look at each primary. What is fine everywhere is said once; what is not, with the node's name.
    """
    primaries: Sequence[Any] = (await client.initialize()).get_primaries()
    found: dict[tuple[str, Severity], Finding] = {}
    named: list[Finding] = []
    clocks: list[int] = []
    for node in primaries:
        facts = await _facts(node, cluster=True)
        for finding in judge(facts, options):
            if finding.severity in (Severity.FINE, Severity.NOTE):
                found.setdefault((finding.check, finding.severity), finding)
            else:
                message = f"{node.name}: {finding.message}"
                named.append(
                    Finding(
                        check=finding.check,
                        severity=finding.severity,
                        message=message,
                        advice=finding.advice,
                    )
                )
        seconds, micros = await node.execute_command("TIME")
        clocks.append(int(seconds) * 1_000 + int(micros) // 1_000)
    apart_ms = max(clocks) - min(clocks)
    if apart_ms > EARLY_TOLERANCE_MS:
        named.append(
            Finding(
                check="clocks",
                severity=Severity.WARNING,
                message=f"The clocks of the primaries are up to {apart_ms} ms apart; after a fail-over a lease may"
                " seem to be over too early.",
                advice="Let NTP keep the servers' clocks.",
            )
        )
    return [*found.values(), *named]


async def _facts(node: Any, *, cluster: bool = False) -> Facts:
    """
    Ask one server. A command that the user may not give is left out.
    """
    hello = await node.execute_command("HELLO")
    info = _fields(await node.execute_command("INFO"))
    state = None
    if cluster:
        state = _fields(await node.execute_command("CLUSTER INFO")).get("cluster_state")
    try:
        config = _texts(await node.execute_command("CONFIG GET", *_SETTINGS))
    except ResponseError:
        # The user has no right to ask, or the server is a service that hides its settings.
        config = None
    return Facts(server=server_of(hello), info=info, config=config, cluster_state=state)


async def read_known_jobs(
    wire: Wire, keys: Keys, *, history: HistoryReader | None, now_ms: int
) -> list[KnownJob]:
    """
    Read every job of a prefix, by name.

    Args:
        wire: The connection.

        keys: The names of keys.

        history: What reads the history of a strategy that keeps claims alone: its newest
            record is all that is known of a job. None where there are leases.

        now_ms: The server's time.
    """
    names = sorted(
        keys.decoded(name.decode()) for name in await wire.command("SMEMBERS", keys.index)
    )
    known: list[KnownJob] = []
    for start in range(0, len(names), _AT_ONCE):
        some = names[start : start + _AT_ONCE]
        if history is not None:
            newest = await asyncio.gather(*(history.read(name, limit=1) for name in some))
            known += [
                KnownJob(job=name, high=records[0].slot if records else None)
                for name, records in zip(some, newest, strict=True)
            ]
            continue
        told = await asyncio.gather(
            *(wire.command("HMGET", *keys.of(name, "state"), *_STATE) for name in some)
        )
        known += [_known_job(name, values, now_ms) for name, values in zip(some, told, strict=True)]
    return known


def _known_job(job: str, values: Sequence[bytes | None], now_ms: int) -> KnownJob:
    texts = ["" if value is None else value.decode("utf-8", "replace") for value in values]
    high, slot, attempt, token, instance, until, fingerprint, digests, since = texts
    run = None
    if slot:
        remaining_ms = max(0, int(until) - now_ms) if token else 0
        run = RunView(
            slot=int(slot), attempt=int(attempt), remaining_ms=remaining_ms, instance_id=instance
        )
    return KnownJob(
        job=job,
        high=_number(high),
        since_ms=_number(since),
        fingerprint=_told(fingerprint),
        zone_digests=_told(digests),
        run=run,
    )


def _number(text: str) -> int | None:
    return int(text) if text else None


def _told(text: str) -> str | None:
    # A text that may be empty itself has a sign in front.
    return text[1:] if text else None


def _fields(answer: Any) -> dict[str, str]:
    """
    Read INFO: a text, or what redis-py has made of it.
    """
    if isinstance(answer, Mapping):
        return _texts(answer)
    text = answer.decode("utf-8", "replace") if isinstance(answer, bytes) else str(answer)
    lines = (line.partition(":") for line in text.splitlines() if ":" in line)
    return {name: value.strip() for name, _, value in lines}


def _texts(answer: Any) -> dict[str, str]:
    """
    Make texts of a mapping, or of a flat list of names and values.
    """
    if not isinstance(answer, Mapping):
        answer = dict(zip(answer[::2], answer[1::2], strict=True))
    return {_text(name): _text(value) for name, value in answer.items()}


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
