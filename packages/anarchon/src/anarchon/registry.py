"""
Find backends by the scheme of a URL, third parties' exactly as our own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, cast
from urllib.parse import SplitResult, parse_qsl

from anarchon.backend import Backend
from anarchon.errors import DefinitionError, InvalidOptionError, UnknownBackendError

__all__ = [
    "backend_from_url",
    "installed_backends",
    "lease_alternatives",
    "split_url",
    "url_options",
]

_GROUP = "anarchon.backends"

_URL = re.compile(r"(?:([^:/?#]+):)?(?://([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#(.*))?", re.DOTALL)


def installed_backends() -> dict[str, EntryPoint]:
    """
    Return the entry point of every installed backend, by URL scheme.
    """
    return {
        point.name: point
        for point in sorted(entry_points(group=_GROUP), key=lambda point: point.name)
    }


def backend_from_url(url: str) -> Backend:
    """
    Build an unopened backend from a URL.

    The scheme names an entry point of the group ``anarchon.backends``, whose class
    reads the rest with its ``from_url``. A constructor's keyword options are query
    parameters there.

    Raises:
        UnknownBackendError: No installed distribution serves the scheme.

        DefinitionError: The URL or one of its parameters cannot be read.
    """
    text: object = url  # callers without a type checker hand in anything
    scheme = text.partition(":")[0].lower() if isinstance(text, str) else ""
    backends = installed_backends()
    point = backends.get(scheme)
    if point is None or ":" not in url:
        known = ", ".join(backends) or "none"
        msg = f"no installed backend serves the URL {_shown(url)!r}; installed schemes: {known}"
        raise UnknownBackendError(msg)
    try:
        backend_class: Any = point.load()
    except ImportError as error:
        msg = f"the backend of scheme {scheme!r} ({point.value}) cannot be imported: {error}"
        raise UnknownBackendError(msg) from error
    return cast("Backend", backend_class.from_url(url))


def split_url(url: str) -> SplitResult:
    """
    Part a URL as RFC 3986, appendix B, does; it never fails.

    `urllib.parse.urlsplit` refuses what a backend URL may well hold, several hosts of which
    one is an IPv6 address, and since which patch of Python it does so differs.
    """
    found = _URL.fullmatch(url)
    assert found is not None, "the expression matches every text"
    scheme, netloc, path, query, fragment = (part or "" for part in found.groups())
    return SplitResult(scheme.lower(), netloc, path, query, fragment)


def lease_alternatives() -> str:
    """
    Say in a sentence which installed backends keep leases.
    """
    names = []
    for name, point in installed_backends().items():
        try:
            declared = point.load().keeps_leases
        except Exception:  # noqa: BLE001 - a broken third party must not break our message
            declared = False
        if declared:
            names.append(f"{name} ({point.value.partition(':')[2] or point.value})")
    if not names:
        return "The documentation's page on choosing a backend lists those that have them."
    return f"Installed backends that have them: {', '.join(names)}."


def url_options(url: str, readers: Mapping[str, Callable[[str], Any]]) -> dict[str, Any]:
    """
    Read the query parameters of a backend URL.

    Args:
        url: The whole URL.

        readers: For each parameter that is allowed, what turns its text into a value.

    Raises:
        InvalidOptionError: A parameter is unknown, repeated or unreadable.
    """
    options: dict[str, Any] = {}
    allowed = ", ".join(sorted(readers)) or "none"
    for name, text in parse_qsl(split_url(url).query, keep_blank_values=True):
        if name not in readers:
            msg = f"backend URL {_shown(url)!r}: unknown parameter {name!r}; allowed: {allowed}"
            raise InvalidOptionError(msg)
        if name in options:
            msg = f"backend URL {_shown(url)!r}: parameter {name!r} is given twice"
            raise InvalidOptionError(msg)
        try:
            options[name] = readers[name](text)
        except DefinitionError:
            raise
        except (TypeError, ValueError) as error:
            msg = f"backend URL {_shown(url)!r}: parameter {name!r} cannot be {text!r}: {error}"
            raise InvalidOptionError(msg) from error
    return options


def _shown(url: object) -> str:
    """
    Return the URL without its password.
    """
    if not isinstance(url, str):
        return repr(url)
    parts = split_url(url)
    if parts.password is None:
        return url
    return url.replace(f":{parts.password}@", ":***@")
