"""
Where a server may be and how one gets in: TLS, logins of every kind, several servers, a cluster.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import nkeys  # type: ignore[import-untyped]  # it has no types
import pytest

import anarchon_testbed as testbed
from anarchon.backend import ClaimRequest, Verdict
from anarchon.errors import BackendError, StoreRefusedError, StoreUnavailableError
from anarchon_nats import NatsBackend

pytestmark = pytest.mark.slow

TIMEOUT_MS = 10_000

Opened = Callable[..., AbstractAsyncContextManager[NatsBackend]]
Ask = Callable[..., ClaimRequest]


async def wins(backend: NatsBackend, ask: Ask, job: str = "job") -> bool:
    """
    Claim a recent slot, and say whether it was won.
    """
    await backend.time(timeout_ms=TIMEOUT_MS)
    slot = backend._time.now_ms() - 60_000
    (answer,) = await backend.claim([ask(job, slot)], timeout_ms=TIMEOUT_MS)
    assert not isinstance(answer, BackendError)
    return answer.verdict is Verdict.WON


def test_tls_is_checked(opened: Opened, ask: Ask) -> None:
    """
    Who trusts the authority gets in, whoever does not is refused, and looking away is a choice of one's own.
    """

    async def scenario(server: testbed.NatsServer) -> list[bool]:
        assert server.certificates is not None
        ca = str(server.certificates.ca)
        won = []
        ways: list[tuple[str, dict[str, Any]]] = [
            (server.url, {"ca_file": ca}),
            (server.url, {"verify": False}),
            (server.url.replace("tls:", "nats:"), {"ca_file": ca}),
        ]
        for number, (place, options) in enumerate(ways):
            async with opened(place, **options) as backend:
                won.append(await wins(backend, ask, f"job-{number}"))
        with pytest.raises(StoreRefusedError, match="certificate was refused"):
            await NatsBackend(server.url).open(timeout_ms=TIMEOUT_MS)
        return won

    with testbed.nats(tls=True, users={"me": "p@ss/w:ord"}) as server:
        assert [True] * 3 == asyncio.run(scenario(server))


def test_a_token_lets_in(opened: Opened, ask: Ask) -> None:
    """
    A login without a password is a token.
    """

    async def scenario(place: str) -> bool:
        async with opened(place) as backend:
            return await wins(backend, ask)

    with testbed.nats(token="t:o k/e@n") as server:
        assert asyncio.run(scenario(server.url))


def key_pair(kind: int) -> tuple[bytes, Any]:
    """
    Make an nkey: its seed, and what signs with it.
    """
    seed = nkeys.encode_seed(os.urandom(32), kind)
    return seed, nkeys.from_seed(bytearray(seed))


def test_an_nkey_lets_in(opened: Opened, ask: Ask, tmp_path: Path) -> None:
    """
    The seed stays here; what goes to the server is a signature.
    """
    seed, pair = key_pair(nkeys.PREFIX_BYTE_USER)
    path = tmp_path / "user.nk"
    path.write_bytes(seed)
    users = [{"user": "admin", "password": "p"}, {"nkey": pair.public_key.decode()}]

    async def scenario(port: int) -> bool:
        async with opened(f"nats://127.0.0.1:{port}", nkey_file=str(path)) as backend:
            return await wins(backend, ask)

    config = {"authorization": {"users": users}}
    with testbed.nats(users={"admin": "p"}, config=config) as server:
        assert asyncio.run(scenario(server.port))


def jwt(issuer: Any, subject: Any, name: str, nats: dict[str, Any]) -> str:
    """
    Write a token of NATS, signed by an nkey.
    """
    claims = {
        "jti": name,
        "iat": 1,
        "iss": issuer.public_key.decode(),
        "name": name,
        "sub": subject.public_key.decode(),
        "nats": {"version": 2} | nats,
    }
    parts = [
        base64.urlsafe_b64encode(json.dumps(each).encode()).rstrip(b"=")
        for each in ({"typ": "JWT", "alg": "ed25519-nkey"}, claims)
    ]
    signature = base64.urlsafe_b64encode(issuer.sign(b".".join(parts))).rstrip(b"=")
    return b".".join([*parts, signature]).decode()


def test_a_credentials_file_lets_in(opened: Opened, ask: Ask, tmp_path: Path) -> None:
    """
    A user's JWT and seed in one file, as `nsc` writes it: account and operator have signed it.
    """
    _, operator = key_pair(nkeys.PREFIX_BYTE_OPERATOR)
    _, account = key_pair(nkeys.PREFIX_BYTE_ACCOUNT)
    _, system = key_pair(nkeys.PREFIX_BYTE_ACCOUNT)
    seed, user = key_pair(nkeys.PREFIX_BYTE_USER)
    open_limits = dict.fromkeys(
        ("subs", "data", "payload", "imports", "exports", "conn", "leaf"), -1
    )
    stored = {"mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1}
    limits = open_limits | stored | {"wildcards": True}
    root = jwt(operator, operator, "O", {"type": "operator"})
    middle = jwt(operator, account, "A", {"type": "account", "limits": limits})
    leaf = jwt(account, user, "U", {"type": "user", "subs": -1, "data": -1, "payload": -1})
    path = tmp_path / "user.creds"
    path.write_text(
        f"-----BEGIN NATS USER JWT-----\n{leaf}\n------END NATS USER JWT------\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{seed.decode()}\n------END USER NKEY SEED------\n",
        encoding="utf-8",
    )
    config = {
        "operator": root,
        "resolver": "MEMORY",
        "system_account": system.public_key.decode(),
        "resolver_preload": {
            account.public_key.decode(): middle,
            system.public_key.decode(): jwt(
                operator, system, "S", {"type": "account", "limits": open_limits}
            ),
        },
    }

    async def scenario(port: int) -> bool:
        async with opened(f"nats://127.0.0.1:{port}", credentials_file=str(path)) as backend:
            return await wins(backend, ask)

    with testbed.nats(greeted=False, config=config) as server:
        assert asyncio.run(scenario(server.port))


def test_a_domain_is_asked_by_its_name(opened: Opened, ask: Ask) -> None:
    """
    Where JetStream has a domain its name is a part of what is asked; a wrong one is nobody's.
    """

    async def scenario(place: str) -> bool:
        with pytest.raises(StoreUnavailableError, match="nobody answers"):
            await NatsBackend(place, domain="other").open(timeout_ms=TIMEOUT_MS)
        async with opened(place, domain="hub") as backend:
            return await wins(backend, ask)

    with testbed.nats(config={"jetstream": {"domain": "hub"}}) as server:
        assert asyncio.run(scenario(server.url))


def test_another_server_is_taken_when_one_is_down(url: str, opened: Opened, ask: Ask) -> None:
    """
    Whichever of them a client begins with: the outage is one of all of them alone.
    """

    async def scenario() -> list[bool]:
        won = []
        for number in range(6):
            async with opened(f"nats://127.0.0.1:1,{url},127.0.0.1:2") as backend:
                won.append(await wins(backend, ask, f"job-{number}"))
        return won

    assert [True] * 6 == asyncio.run(scenario())


def test_the_cluster_goes_on_when_the_node_spoken_to_dies(
    cluster: testbed.NatsCluster, opened: Opened, ask: Ask
) -> None:
    """
    The connection is made again to another node, and the next claims are served there.
    """

    async def scenario() -> bool:
        async with opened(cluster.url, replicas=3) as backend:
            assert await wins(backend, ask, "before")
            line = backend._opened().wire._line
            assert line is not None
            node = next(each for each in cluster.nodes if each.port == line.address.port)
            await node.kill()
            try:
                while True:
                    try:
                        return await wins(backend, ask, "after")
                    except StoreUnavailableError:
                        await asyncio.sleep(0.1)  # As long as the others agree on a leader.
            finally:
                await node.start()
                await cluster.agree()

    assert asyncio.run(scenario())


def test_service_says_where_and_how_many_replicas(
    cluster: testbed.NatsCluster, opened: Opened
) -> None:
    """
    A certificate and the command line show it.
    """

    async def scenario() -> str:
        async with opened(cluster.url, replicas=3, prefix="acme.billing") as backend:
            return backend.service

    told = asyncio.run(scenario())

    assert f"NATS {cluster.version} at {cluster.url}, stream acme=billing, R3" == told
