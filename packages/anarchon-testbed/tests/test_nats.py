"""
NATS servers: broken and mended, with logins and TLS, without a store, and in clusters that elect leaders.
"""

from __future__ import annotations

import pytest

import anarchon_testbed as testbed
from anarchon_testbed.natswire import NatsAddress, ask_nats, greet_nats

pytestmark = pytest.mark.slow

STREAM = {"name": "kept", "subjects": ["kept"], "num_replicas": 1}


def answers(server: testbed.NatsServer, *, timeout_ms: int = 20_000) -> bool:
    """
    Ask a server over a new connection.
    """
    try:
        return greet_nats(server.address, timeout_ms=timeout_ms) == server.version
    except OSError:
        return False


@pytest.mark.parametrize("version", ["2.10", "2.15"])
def test_a_server_is_started_broken_and_mended(version: str) -> None:
    """
    Frozen it is silent; killed it refuses, and restarted it is another process with the same port and data.
    """
    with testbed.nats(version, own=True) as server:
        first, port = server.pid, server.port
        server.request("$JS.API.STREAM.CREATE.kept", STREAM)
        seen = [answers(server)]
        server.freeze()
        seen.append(answers(server, timeout_ms=100))
        server.thaw()
        seen.append(answers(server))
        server.kill_now()
        seen += [answers(server), server.pid is None]
        server.restart_now()
        seen += [answers(server), server.pid not in {None, first}]
        kept = server.request("$JS.API.STREAM.INFO.kept")
        folder = server.folder

    assert [True, False, True, False, True, True, True] == seen
    assert port == server.port
    assert server.version.startswith(f"{version}.")
    assert "kept" == kept["config"]["name"]
    assert not folder.exists()
    assert not answers(server)


def test_logins_are_asked_for_and_in_the_url() -> None:
    """
    A user's password or a token, escaped; who has neither hears so in the server's words.
    """
    with testbed.nats(users={"a b": "p@s"}) as users, testbed.nats(token="t:k") as token:
        told = [each.request("$JS.API.INFO")["type"] for each in (users, token)]
        strangers = [NatsAddress(host=each.host, port=each.port) for each in (users, token)]
        for stranger in strangers:
            with pytest.raises(testbed.ServerFailedError, match="Authorization Violation"):
                greet_nats(stranger)

    assert f"nats://a%20b:p%40s@127.0.0.1:{users.port}" == users.url
    assert f"nats://t%3Ak@127.0.0.1:{token.port}" == token.url
    assert ["io.nats.jetstream.api.v1.account_info_response"] * 2 == told


def test_tls_is_checked_against_its_own_authority() -> None:
    """
    The port asks for TLS, and only who trusts the authority gets through.
    """
    with testbed.nats(tls=True) as server, testbed.nats(tls=True) as other:
        assert server.url.startswith("tls://")
        assert answers(server)
        assert other.certificates is not None
        mistaken = NatsAddress(host=server.host, port=server.port, ca=other.certificates.ca)
        with pytest.raises(OSError, match="certificate verify failed"):
            greet_nats(mistaken)


def test_a_server_may_have_no_store_or_a_small_one() -> None:
    """
    Nobody answers for JetStream where there is none; a limit is the server's own.
    """
    with testbed.nats(jetstream=False) as without, testbed.nats(store_bytes_max=1_000) as small:
        nobody = without.request("$JS.API.INFO")
        small.request("$JS.API.STREAM.CREATE.kept", STREAM)
        told = [ask_nats(small.address, "kept", "x" * 2_000) for _ in range(2)]

    assert nobody is None
    assert [False, True] == ["error" in each for each in told]


def test_a_cluster_elects_another_leader() -> None:
    """
    A stream with three replicas goes on when its leader was killed, and the old one comes back.
    """
    with testbed.nats_cluster() as cluster:
        made = cluster.nodes[0].request("$JS.API.STREAM.CREATE.kept", {**STREAM, "num_replicas": 3})
        old = cluster.leader_of("kept")
        old.kill_now()
        new = cluster.leader_of("kept")
        old.start_now()
        cluster.agree_now()
        told = old.request("$JS.API.STREAM.INFO.kept")

    assert "error" not in made
    assert new is not old
    assert 3 == told["config"]["num_replicas"]
    assert [node.url for node in cluster.nodes] == cluster.url.split(",")


def test_a_url_of_the_environment_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    The server given is taken as it is, with its login, and cannot be broken.
    """
    with testbed.nats(users={"me": "p@s"}) as given:
        monkeypatch.setenv("ANARCHON_TEST_NATS_URL", given.url)
        with testbed.nats() as taken:
            told = taken.request("$JS.API.INFO")
            with pytest.raises(testbed.NotOurServerError, match="ANARCHON_TEST_NATS_URL"):
                taken.kill_now()

    assert (False, given.url, given.version) == (taken.managed, taken.url, taken.version)
    assert "error" not in told
