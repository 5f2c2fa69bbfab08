"""
What endangers a log of claims, as far as a broker tells it, and looking at it without making it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

from aio_pika import exceptions

from anarchon.errors import BackendError, StoreRefusedError, StoreUnavailableError
from anarchon.operating import Finding, KnownJob, Severity
from anarchon.records import RunRecord
from anarchon_rabbitmq.address import Address
from anarchon_rabbitmq.client import Client
from anarchon_rabbitmq.options import Options
from anarchon_rabbitmq.trouble import CLIENT_ERRORS, store_error

__all__ = ["insist_on_stream", "judge", "known_jobs_of"]


async def insist_on_stream(address: Address, options: Options, *, deadline: float) -> None:
    """
    Make sure that the stream is there, and make none.

    Args:
        address: The nodes; the first one that answers is asked.

        options: The options.

        deadline: When to give up, by the event loop's clock.

    Raises:
        StoreRefusedError: There is no such stream.

        BackendError: No node can be asked.
    """
    failure: BackendError | None = None
    for host in address.hosts:
        where = f"RabbitMQ at {host[0]}:{host[1]}"
        try:
            async with asyncio.timeout_at(deadline):
                await _look(Client(address, host, options), options.stream, where)
        except TimeoutError:
            failure = StoreUnavailableError(f"{where}: no answer in time")
        except StoreUnavailableError as error:
            failure = error
        else:
            return
    assert failure is not None
    raise failure


async def _look(client: Client, stream: str, where: str) -> None:
    try:
        await client.connect()
        opened = await client.connection.channel()
        channel = await opened.get_underlay_channel()
        await channel.queue_declare(stream, passive=True)
    except exceptions.ChannelNotFoundEntity as error:
        msg = f"{where}: there is no stream {stream!r}; a scheduler makes it when it starts"
        raise StoreRefusedError(msg) from error
    except CLIENT_ERRORS as error:
        raise store_error(error, where) from error
    finally:
        await client.close()


def known_jobs_of(records: Sequence[RunRecord]) -> list[KnownJob]:
    """
    Name the jobs of a history, each with its newest slot.
    """
    newest: dict[str, int] = {}
    for record in records:
        newest[record.job] = max(record.slot, newest.get(record.job, record.slot))
    return [KnownJob(job=job, high=slot) for job, slot in sorted(newest.items())]


def judge(version: str, address: Address, options: Options) -> Iterator[Finding]:
    """
    Say what is known of a broker. Over its protocol it tells no settings.
    """
    yield Finding(check="server", severity=Severity.FINE, message=f"RabbitMQ {version}.")
    if len(address.hosts) > 1 and options.replicas == 1:
        yield Finding(
            check="replicas",
            severity=Severity.WARNING,
            message="One node of the cluster keeps the stream (replicas is 1): while it is away nothing is claimed, and"
            " if it is lost, everything is forgotten.",
            advice="Leave replicas out where the stream is made, or say 3; `rabbitmq-streams add_replica` adds one.",
        )
    nodes = "the machine fails" if len(address.hosts) == 1 else "most nodes fail at once"
    yield Finding(
        check="durability",
        severity=Severity.NOTE,
        message="A claim is answered when the nodes that keep the stream have taken it, and each pushes it to its disk"
        f" a little later: when {nodes}, the last claims may be forgotten. The end of the broker's process forgets"
        " nothing.",
        advice="Keep the stream on three nodes, on machines that do not fail together.",
    )
