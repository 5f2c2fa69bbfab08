"""
Backends are found by the scheme of a URL, third parties' exactly as our own.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import EntryPoint
from typing import Any

import pytest

from anarchon import (
    InvalidOptionError,
    MemoryBackend,
    UnknownBackendError,
    backend_from_url,
    registry,
)
from anarchon.errors import DefinitionError
from anarchon.registry import installed_backends, lease_alternatives, split_url, url_options


def offer(monkeypatch: pytest.MonkeyPatch, **points: str) -> None:
    """
    Install entry points.
    """
    found = [
        EntryPoint(name=name, value=value, group="anarchon.backends")
        for name, value in points.items()
    ]
    monkeypatch.setattr(registry, "entry_points", lambda group: found)


def test_memory_is_found_by_its_scheme() -> None:
    """
    Each URL that is read is a store of its own.
    """
    one, two = backend_from_url("memory:"), backend_from_url("MEMORY:")

    assert isinstance(one, MemoryBackend)
    assert isinstance(two, MemoryBackend)
    assert one._store is not two._store
    assert "memory" in installed_backends()


@pytest.mark.parametrize("url", ["memory", "", "nowhere:", 7, None])
def test_url_without_a_known_scheme_is_refused(url: Any) -> None:
    """
    The message lists the schemes that are installed.
    """
    with pytest.raises(
        UnknownBackendError, match=r"no installed backend serves .*installed schemes: .*memory"
    ):
        backend_from_url(url)


def test_message_never_shows_a_password() -> None:
    """
    URLs end up in logs.
    """
    with pytest.raises(UnknownBackendError) as raised:
        backend_from_url("nowhere://user:secret@host/")

    assert "secret" not in str(raised.value)
    assert "nowhere://user:***@host/" in str(raised.value)


def test_third_partys_backend_is_found_as_ours_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    The entry point's class reads the URL.
    """
    offer(monkeypatch, theirs="anarchon.memory:MemoryBackend")

    assert isinstance(backend_from_url("theirs://host"), MemoryBackend)
    assert "Installed backends that have them: theirs (MemoryBackend)." == lease_alternatives()


def test_backend_that_cannot_be_imported_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    A missing client library is named, and the cause is chained.
    """
    offer(monkeypatch, theirs="no_such_module:Backend")
    with pytest.raises(
        UnknownBackendError, match=r"'theirs' .*cannot be imported: No module named"
    ) as raised:
        backend_from_url("theirs://host")

    assert isinstance(raised.value.__cause__, ImportError)


def test_broken_third_party_does_not_break_our_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Alternatives are those that load and keep leases; with none, the documentation lists them.
    """
    offer(
        monkeypatch,
        broken="no_such_module:Backend",
        claims="anarchon.memory:MemoryClaimBackend",
        plain="anarchon.memory.lease",
    )

    assert lease_alternatives().startswith("The documentation's page")
    offer(monkeypatch)

    assert lease_alternatives().startswith("The documentation's page")
    with pytest.raises(UnknownBackendError, match="installed schemes: none"):
        backend_from_url("memory:")


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("x://a:1,[::1]:2,b/p?q=1#f", ("x", "a:1,[::1]:2,b", "/p", "q=1", "f")),
        ("X://user:p%40ss@[::1/", ("x", "user:p%40ss@[::1", "/", "", "")),
        ("x:///p", ("x", "", "/p", "", "")),
        ("memory:", ("memory", "", "", "", "")),
        ("no colon\n", ("", "", "no colon\n", "", "")),
        ("", ("", "", "", "", "")),
    ],
)
def test_a_url_is_parted_whatever_it_holds(url: str, expected: tuple[str, ...]) -> None:
    """
    Several hosts of which one is an IPv6 address are usual here, and refused by urlsplit() of newer Pythons.
    """
    assert expected == tuple(split_url(url))


def boolean(text: str) -> bool:
    """
    Read a yes or a no.
    """
    if text not in ("yes", "no"):
        raise InvalidOptionError("yes or no")
    return text == "yes"


def test_options_of_a_url_are_read_by_name() -> None:
    """
    Query parameters are a constructor's keyword options.
    """
    readers: dict[str, Callable[[str], Any]] = {"size": int, "strict": boolean}

    assert {"size": 3, "strict": True} == url_options("x://host?size=3&strict=yes", readers)
    assert {} == url_options("x://host", readers)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("x://host?other=1", "unknown parameter 'other'; allowed: size, strict"),
        ("x://host?size=1&size=2", "parameter 'size' is given twice"),
        ("x://host?size=big", "parameter 'size' cannot be 'big'"),
        ("x://host?size=", "parameter 'size' cannot be ''"),
        ("x://u:secret@host?size=big", r"x://u:\*\*\*@host"),
    ],
)
def test_wrong_option_of_a_url_is_refused(url: str, words: str) -> None:
    """
    The message names the parameter and what is allowed.
    """
    with pytest.raises(InvalidOptionError, match=words):
        url_options(url, {"size": int, "strict": boolean})


def test_readers_own_message_passes() -> None:
    """
    A reader that says itself what is wrong is not rewritten.
    """
    with pytest.raises(DefinitionError, match=r"^yes or no$"):
        url_options("x://host?strict=maybe", {"strict": boolean})
