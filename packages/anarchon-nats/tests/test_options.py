"""
What a user writes: read exactly, or refused with a message that says what is allowed.
"""

from __future__ import annotations

import inspect
from dataclasses import fields
from typing import Any

import pytest

from anarchon import Scheduler, backend_from_url
from anarchon.errors import InvalidOptionError, UnsupportedByBackendError
from anarchon.records import Retention
from anarchon_nats import NatsBackend
from anarchon_nats.address import read_addresses
from anarchon_nats.options import CLOCK_GRACE_MS, Options, read_url


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("nats://localhost", ["nats://localhost:4222"]),
        ("nats://", ["nats://localhost:4222"]),
        ("tls://nats.example.org:4333", ["tls://nats.example.org:4333"]),
        ("nats://[::1]:4223", ["nats://[::1]:4223"]),
        ("nats://a:1,b:2,c", ["nats://a:1", "nats://b:2", "nats://c:4222"]),
        ("nats://a:1, nats://b:2", ["nats://a:1", "nats://b:2"]),
        ("tls://a,b", ["tls://a:4222", "tls://b:4222"]),
        (["nats://a", "nats://b:2"], ["nats://a:4222", "nats://b:2"]),
    ],
)
def test_addresses_are_read(url: Any, shown: list[str]) -> None:
    """
    One server or several, as one text or as a list; what the first says goes for those that are silent.
    """
    assert shown == [each.shown for each in read_addresses(url)]


def test_logins_are_read_and_not_shown() -> None:
    """
    A login is a user with a password, or a token; the first one's serves all, unless another says its own.
    """
    user, same, token = read_addresses("nats://b%20o:p%40s@a,b,t%3Ak@c")

    assert ("b o", "p@s", None) == (user.username, user.password, user.token)
    assert ("b o", "p@s", None) == (same.username, same.password, same.token)
    assert (None, None, "t:k") == (token.username, token.password, token.token)
    assert "p@s" not in repr(user)
    assert "t:k" not in repr(token)
    assert "p%40s" not in NatsBackend("nats://b:p%40s@a").service


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://a", "not of scheme 'http'"),
        ("nats://a/path", "nothing behind it"),
        ("nats://a?prefix=x", "parameters in"),
        ("nats://a:port", "number from 1 to 65535"),
        ("nats://a:0", "number from 1 to 65535"),
        ("nats://[::1", "must be nats://host:port"),
        ("nats://a,tls://b", "all be nats:// or all tls://"),
        ("", "not of scheme ''"),
        ([], "a URL or a list of URLs"),
        (None, "a URL or a list of URLs"),
        ([1], "a URL or a list of URLs"),
    ],
)
def test_bad_addresses_are_refused(url: Any, words: str) -> None:
    """
    The message says what is allowed, from the constructor itself.
    """
    with pytest.raises(InvalidOptionError) as raised:
        NatsBackend(url)

    assert words in str(raised.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"prefix": ""}, "in parts that dots separate"),
        ({"prefix": "a..b"}, "in parts that dots separate"),
        ({"prefix": "a.*"}, "in parts that dots separate"),
        ({"prefix": "a b"}, "in parts that dots separate"),
        ({"prefix": "x" * 65}, "1 to 64"),
        ({"prefix": 7}, "1 to 64"),
        ({"claim_memory_ms": 10}, "claim_memory_ms must be an integer from 1000"),
        ({"claim_memory_ms": 1.5e6}, "claim_memory_ms must be an integer from 1000"),
        ({"claim_memory_ms": True}, "claim_memory_ms must be an integer from 1000"),
        ({"replicas": 0}, "replicas must be an integer from 1 to 5"),
        ({"replicas": "3"}, "replicas must be an integer from 1 to 5"),
        ({"max_age_ms": 7_200_000}, "it must be at least 8100000"),
        ({"domain": "a.b"}, "domain must be 1 to 64"),
        ({"retention": Retention(records_per_job=0)}, "retention.records_per_job"),
        ({"retention": Retention(age_ms=0)}, "retention.age_ms"),
        ({"certificate_file": "a.pem"}, "are given together"),
        ({"credentials_file": "a", "nkey_file": "b"}, "give one of them"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], words: str) -> None:
    """
    The message names the option and what it may be.
    """
    with pytest.raises(InvalidOptionError) as raised:
        NatsBackend("nats://localhost", **options)

    assert words in str(raised.value)


def test_the_streams_limit_is_held_against_the_memory() -> None:
    """
    A limit that keeps claims for as long as they are promised, and for the clocks' difference, is taken.
    """
    least_ms = 60_000 + CLOCK_GRACE_MS
    taken = Options(claim_memory_ms=60_000, max_age_ms=least_ms)

    assert least_ms == taken.kept_ms
    with pytest.raises(InvalidOptionError, match="claim_memory_ms=60000"):
        Options(claim_memory_ms=60_000, max_age_ms=least_ms - 1)


def test_a_url_says_all_that_the_constructor_does() -> None:
    """
    Each keyword option is a parameter; the retention is two.
    """
    place, options = read_url(
        "nats://u:p@a:1,b:2?prefix=x.y&claim_memory_ms=60000&replicas=3&max_age_ms=2000000&domain=d&verify=false"
        "&credentials_file=/c&nkey_file=/n&ca_file=/a&certificate_file=/e&key_file=/k&retention_age_ms=none"
        "&retention_records_per_job=7"
    )

    assert "nats://u:p@a:1,b:2" == place
    assert Retention(age_ms=None, records_per_job=7) == options["retention"]
    assert {field.name for field in fields(Options)} == set(options)
    public = {name for name in inspect.signature(NatsBackend).parameters if name[0] != "_"}

    assert {"url", *options} == public
    assert (60_000, 3, False) == (
        options["claim_memory_ms"],
        options["replicas"],
        options["verify"],
    )


def test_backends_are_found_by_scheme() -> None:
    """
    Both schemes are ours, several servers are one URL, and an unknown parameter is an error.
    """
    several = backend_from_url("nats://a:1,nats://b:2?prefix=x")
    secret = backend_from_url("tls://a?retention_records_per_job=5")

    assert "NATS at nats://a:1,nats://b:2, stream x" == several.service
    assert isinstance(secret, NatsBackend)
    for url in ("nats://a?pre=x", "nats://a?verify=1", "nats://a?replicas=many"):
        with pytest.raises(InvalidOptionError, match="parameter"):
            backend_from_url(url)


@pytest.mark.parametrize(
    "options",
    [{"catch_up": "latest"}, {"takeover": True}, {"max_crashes": 3}, {"catch_up_window": "1h"}],
)
def test_lease_options_are_refused_when_a_job_is_defined(options: dict[str, Any]) -> None:
    """
    The message names the option, this backend, and those that have leases.
    """
    scheduler = Scheduler(NatsBackend("nats://localhost"))
    with pytest.raises(UnsupportedByBackendError) as raised:
        scheduler.every("job", "10s", print, **options)
    words = str(raised.value)

    assert next(iter(options)) in words
    assert "NatsBackend has none" in words
    assert "RedisBackend" in words or "PostgresBackend" in words


def test_a_clone_has_the_same_options() -> None:
    """
    Nothing that was said is lost on the way.
    """
    first = NatsBackend("nats://a,b", prefix="x", claim_memory_ms=60_000, replicas=3)
    second = first.clone()

    assert first.service == second.service
    assert first.capabilities == second.capabilities
    assert 60_000 == second.capabilities.claim_memory_ms
