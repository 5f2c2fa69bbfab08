"""
What may be written to set a backend up, and what is refused at once.
"""

from __future__ import annotations

from typing import Any

import pytest

from anarchon import backend_from_url
from anarchon.errors import InvalidOptionError
from anarchon.records import Retention
from anarchon_redis import RedisBackend
from anarchon_redis.address import Address, read_address
from anarchon_redis.keys import Keys


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("redis://", Address(hosts=(("localhost", 6379),))),
        ("redis://example", Address(hosts=(("example", 6379),))),
        (
            "rediss://me:p%40ss@example:7000/3",
            Address(hosts=(("example", 7000),), db=3, username="me", password="p@ss", tls=True),
        ),
        ("redis://:secret@[::1]:7000/", Address(hosts=(("::1", 7000),), password="secret")),
        ("redis://a:1,b:2,c", Address(hosts=(("a", 1), ("b", 2), ("c", 6379)))),
        ("unix:///run/my%20socket", Address(path="/run/my socket")),
        ("unix://me:pw@/run/s", Address(path="/run/s", username="me", password="pw")),
    ],
)
def test_an_address_is_read(url: str, address: Address) -> None:
    """
    Hosts, port, database, login and TLS come out of the URL.
    """
    assert address == read_address(url)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://example", "not of scheme 'http'"),
        ("redis://example?strategy=lease", "parameters in"),
        ("redis://example:port", "the port must be a number"),
        ("redis://example:70000", "the port must be a number"),
        ("redis://example/jobs", "the number of a database"),
        ("unix://host/path", "three slashes"),
        ("unix://", "three slashes"),
        (7, "must be a str"),
    ],
)
def test_a_bad_address_is_refused(url: Any, words: str) -> None:
    """
    The message says what is allowed, and shows no password.
    """
    with pytest.raises(InvalidOptionError, match=words):
        RedisBackend(url)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"strategy": "hope"}, "strategy must be one of 'lease', 'stream-id', 'idmp', 'script'"),
        ({"prefix": ""}, "prefix must be"),
        ({"prefix": "a{b}"}, "a brace would change where Cluster"),
        ({"retention": Retention(records_per_job=0)}, "records_per_job must be"),
        ({"retention": Retention(age_ms=0)}, "age_ms must be"),
        ({"claim_memory_ms": 10}, "claim_memory_ms must be"),
        ({"strategy": "idmp", "claim_memory_ms": 86_400_000}, "from 1000 to 86340000"),
        ({"wait_replicas": 0}, "wait_replicas must be"),
        ({"cluster": True, "wait_replicas": 1}, "neither with sentinel"),
        ({"cluster": True, "sentinel": "main"}, "neither with sentinel"),
        ({"certificate_file": "a.pem"}, "given together"),
        ({"db": -1}, "db must be"),
    ],
)
def test_a_bad_option_is_refused(options: dict[str, Any], words: str) -> None:
    """
    The constructor itself says which option cannot be meant.
    """
    with pytest.raises(InvalidOptionError, match=words):
        RedisBackend("redis://example", **options)


def test_a_url_has_the_options_as_parameters() -> None:
    """
    backend_from_url finds the backend by its schemes, and reads each option.
    """
    backend = backend_from_url(
        "rediss://example/2?strategy=script&prefix=mine&claim_memory_ms=5000&retention_age_ms=none"
        "&retention_records_per_job=7&verify=false"
    )

    assert isinstance(backend, RedisBackend)
    assert not backend.capabilities.leases
    assert backend.service == "Redis at rediss://example:6379/2, strategy script, prefix mine"
    assert Retention(age_ms=None, records_per_job=7) == backend._options.retention
    assert not backend._options.verify


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("cluster=maybe", "it must be true or false"),
        ("stategy=lease", "unknown parameter 'stategy'"),
        ("claim_memory_ms=long", "cannot be 'long'"),
    ],
)
def test_a_bad_parameter_is_refused(query: str, words: str) -> None:
    """
    A parameter that is unknown or unreadable is an error.
    """
    with pytest.raises(InvalidOptionError, match=words):
        backend_from_url(f"redis://example?{query}")


def test_no_password_is_shown() -> None:
    """
    What a backend says of itself leaves passwords out.
    """
    backend = RedisBackend("redis://me:hidden@example", sentinel="main", sentinel_password="hidden")

    assert "hidden" not in backend.service
    assert "hidden" not in repr(backend._options)
    assert "hidden" not in repr(backend._address)


def test_names_map_to_keys_injectively() -> None:
    """
    Names that differ give keys that differ, whatever braces and escapes are in them.
    """
    keys = Keys("p")
    names = ["a", "{a}", "%7Ba%7D", "%", "%25", "}{", "a:state", "a}:state", "ä", " "]
    made = [keys.of(name, "state")[0] for name in names]

    assert len(names) == len(set(made))
    assert names == [keys.decoded(keys.encoded(name)) for name in names]
    for key in made:
        assert 1 == key.count("{")
        assert 1 == key.count("}")
