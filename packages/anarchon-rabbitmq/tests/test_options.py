"""
What a user may write: URLs, options, and the errors that bad ones meet before anything is opened.
"""

from __future__ import annotations

from typing import Any

import pytest

from anarchon import backend_from_url
from anarchon.backend import PROTOCOL_VERSION, Backend, LeaseBackend
from anarchon.errors import InvalidOptionError
from anarchon.records import Retention
from anarchon_rabbitmq import RabbitMQBackend
from anarchon_rabbitmq.address import read_address
from anarchon_rabbitmq.options import Options


def test_it_is_a_claim_only_backend() -> None:
    """
    It offers the calls of a backend, and declares what it cannot do.
    """
    backend = RabbitMQBackend()

    assert isinstance(backend, Backend)
    assert not isinstance(backend, LeaseBackend)
    assert PROTOCOL_VERSION == backend.protocol_version
    assert (False, False, False, 600_000) == (
        backend.capabilities.leases,
        backend.capabilities.store_clock,
        backend.capabilities.rising_slots,
        backend.capabilities.claim_memory_ms,
    )
    assert not RabbitMQBackend.keeps_leases


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("amqp://broker", ((("broker", 5672),), "/", "guest", "guest", False)),
        ("amqp://broker/", ((("broker", 5672),), "/", "guest", "guest", False)),
        ("amqp:///shop", ((("localhost", 5672),), "shop", "guest", "guest", False)),
        (
            "amqp://a:1,b,[::1]:3",
            ((("a", 1), ("b", 5672), ("::1", 3)), "/", "guest", "guest", False),
        ),
        ("amqps://u%40x:p%3Aw@b/a%2Fb", ((("b", 5671),), "a/b", "u@x", "p:w", True)),
    ],
)
def test_urls(url: str, expected: tuple[Any, ...]) -> None:
    """
    Hosts, virtual host, login and TLS are read from the URL.
    """
    address = read_address(url)

    assert expected == (
        address.hosts,
        address.vhost,
        address.username,
        address.password,
        address.tls,
    )


def test_no_password_is_shown() -> None:
    """
    Neither the service's words nor the address have the login.
    """
    backend = RabbitMQBackend("amqps://me:secret@a:1,[::1]:2/shop", prefix="billing")

    assert "RabbitMQ at amqps://a:1,[::1]:2 (vhost 'shop'), stream billing.runs" == backend.service
    assert "secret" not in repr(read_address("amqp://me:secret@a"))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"url": 5}, "must be a str"),
        ({"url": "http://a"}, "not of scheme 'http'"),
        ({"url": "amqp://a?prefix=x"}, "options are keyword arguments here"),
        ({"url": "amqp://me:secret@a:x"}, "host 'a:x': the port must be a number"),
        ({"url": "amqp://a/b/c"}, "written %2F"),
        ({"prefix": ""}, "prefix must be 1 to 64"),
        ({"prefix": "a b"}, "prefix must be 1 to 64"),
        ({"prefix": 7}, "prefix must be 1 to 64"),
        ({"claim_memory_ms": 59_999}, "claim_memory_ms must be an integer from 60000"),
        ({"claim_memory_ms": True}, "claim_memory_ms must be an integer"),
        ({"log_bytes_max": 10}, "log_bytes_max must be an integer from 10000000"),
        ({"replicas": 0}, "replicas must be an integer from 1"),
        ({"retention": Retention(records_per_job=0)}, "retention.records_per_job must be"),
        ({"retention": Retention(age_ms=0)}, "retention.age_ms must be"),
        ({"certificate_file": "a"}, "are given together"),
    ],
)
def test_bad_options(options: dict[str, Any], words: str) -> None:
    """
    The constructor says what is wrong and what is allowed, and shows no password.
    """
    with pytest.raises(InvalidOptionError, match=words) as caught:
        RabbitMQBackend(**options)

    assert "secret" not in str(caught.value)


def test_options_by_url() -> None:
    """
    Every option is a parameter of the URL.
    """
    backend = backend_from_url(
        "amqp://a/shop?prefix=p&claim_memory_ms=90000&log_bytes_max=20000000&replicas=3&verify=false"
        "&ca_file=c&certificate_file=d&key_file=e&retention_age_ms=none&retention_records_per_job=7"
    )

    assert isinstance(backend, RabbitMQBackend)
    assert (
        Options(
            prefix="p",
            claim_memory_ms=90_000,
            log_bytes_max=20_000_000,
            replicas=3,
            verify=False,
            ca_file="c",
            certificate_file="d",
            key_file="e",
            retention=Retention(age_ms=None, records_per_job=7),
        )
        == backend._options
    )
    assert backend.service == backend.clone().service


@pytest.mark.parametrize("query", ["color=red", "verify=maybe", "replicas=many"])
def test_bad_parameters(query: str) -> None:
    """
    An unknown or unreadable parameter is an error.
    """
    with pytest.raises(InvalidOptionError, match=query.partition("=")[0]):
        backend_from_url(f"amqp://a?{query}")


def test_the_stream_outlives_the_window() -> None:
    """
    However short the retention is, no record goes before it is out of everybody's mind.
    """
    short = Options(retention=Retention(age_ms=1_000)).stream_arguments
    endless = Options(retention=Retention(age_ms=None), replicas=3).stream_arguments

    assert "1440s" == short["x-max-age"]
    assert "x-max-age" not in endless
    assert 3 == endless["x-initial-cluster-size"]
