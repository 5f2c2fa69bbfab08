"""
A client of nats-py for one server, with its own retries off: deadlines and retries are ours.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl
from collections.abc import Callable
from typing import Any, Final

from nats import errors
from nats.aio.client import Client

from anarchon.errors import StoreRefusedError
from anarchon_nats.address import Address
from anarchon_nats.options import Options

__all__ = ["close_client", "connect", "tls_context"]

_CLOSE_TIMEOUT_S: Final = 1.0
_PING_INTERVAL_S: Final = 20


def tls_context(options: Options, *, asked: bool) -> ssl.SSLContext | None:
    """
    Read the certificates, and look at the other files. Blocking: they are files.

    Without an option, and where the address does not ask for TLS, there is nothing to read:
    nats-py trusts whom the system trusts if the server insists.

    Raises:
        StoreRefusedError: One of the files cannot be used; asking again will not help.
    """
    for name in ("credentials_file", "nkey_file"):
        path = getattr(options, name)
        if path is not None and not os.access(path, os.R_OK):
            msg = f"{name}={path!r} cannot be read"
            raise StoreRefusedError(msg)
    if (
        not asked
        and options.ca_file is None
        and options.certificate_file is None
        and options.verify
    ):
        return None
    try:
        context = ssl.create_default_context(cafile=options.ca_file)
        if options.certificate_file is not None:
            context.load_cert_chain(options.certificate_file, options.key_file)
    except (OSError, ssl.SSLError) as error:
        msg = f"ca_file, certificate_file or key_file cannot be used: {error}"
        raise StoreRefusedError(msg) from error
    if not options.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


async def connect(
    address: Address,
    options: Options,
    *,
    context: ssl.SSLContext | None,
    timeout_s: float,
    told: Callable[[str], None],
    ended: Callable[[], None],
) -> Client:
    """
    Connect to one server, once.

    Args:
        address: The server.

        options: How to log in.

        context: For TLS, which is used if the server or the address asks for it.

        timeout_s: The deadline, in seconds.

        told: Hears what the server says about the connection.

        ended: Hears that the connection is over.
    """
    client = Client()
    connected = False

    async def failed(error: Exception) -> None:
        if not connected:
            # nats-py would try again by itself; what is raised here ends its try.
            raise error
        told(str(error))

    async def over() -> None:
        ended()

    def read_to_end(reading: asyncio.Task[None]) -> None:
        # nats-py stumbles in its own clean-up where much was left to send, and calls nobody back.
        if not reading.cancelled():
            reading.exception()
        ended()

    try:
        async with asyncio.timeout(timeout_s):
            await client.connect(
                servers=f"nats://{address.place}",
                error_cb=failed,
                closed_cb=over,
                name="anarchon",
                allow_reconnect=False,
                connect_timeout=timeout_s,  # type: ignore[arg-type]  # it only goes into asyncio.wait_for
                ping_interval=_PING_INTERVAL_S,
                pending_size=0,  # It buffers for no later connection, and no publish waits for a peer.
                tls=context,
                tls_hostname=address.host,
                **_login(client, address, options),
            )
            _check_ready(client, address)
            connected = True
            reading = client._reading_task  # noqa: SLF001 - nats-py has no public name for it
            assert reading is not None
            reading.add_done_callback(read_to_end)
    except BaseException:
        await close_client(client)
        raise
    return client


def _login(client: Client, address: Address, options: Options) -> dict[str, Any]:
    """
    Name the login in calls that are made when it is about to be sent: a server that
    was to speak TLS and does not must not see it.
    """

    def guarded(text: str) -> Callable[[], str]:
        def tell() -> str:
            _check_secret(client, address)
            return text

        return tell

    login: dict[str, Any] = {}
    if options.credentials_file is not None:
        login["user_credentials"] = options.credentials_file
    if options.nkey_file is not None:
        login["nkeys_seed"] = options.nkey_file
    if address.username is not None:
        login["user"] = guarded(address.username)
        login["password"] = guarded(address.password or "")
    if address.token is not None:
        login["token"] = guarded(address.token)
    return login


def _check_ready(client: Client, address: Address) -> None:
    """
    Look at a connection that was made: nats-py takes whatever comes for the answer to its first PING.
    """
    _check_secret(client, address)
    if not client.is_connected:
        raise errors.Error("the server said something else than that it is ready")


def _check_secret(client: Client, address: Address) -> None:
    """
    Refuse to go on in the open where the address says tls://.
    """
    # What the server said of itself: nats-py has no public name for it.
    info = client._server_info  # noqa: SLF001 - read only
    if address.tls and not info.get("tls_required"):
        msg = f"{address.shown}: the server does not ask for TLS; say nats:// to do without it"
        raise StoreRefusedError(msg)


async def close_client(client: Client) -> None:
    """
    End a client at once: what it has not sent yet must not arrive later.
    """
    transport = client._transport  # noqa: SLF001 - a close of nats-py's waits for a peer that is silent
    writer = getattr(transport, "_io_writer", None)
    if writer is not None:
        writer.transport.abort()
    with contextlib.suppress(Exception):  # The connection is over, whatever there is to say to it.
        async with asyncio.timeout(_CLOSE_TIMEOUT_S):
            await client.close()
