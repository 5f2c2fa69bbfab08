"""
The one stream of a prefix: made by whoever comes first, looked at by everybody else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from anarchon.errors import ProtocolVersionError, ServerTooOldError, StoreRefusedError
from anarchon_nats.line import Letter
from anarchon_nats.options import Options
from anarchon_nats.subjects import Subjects
from anarchon_nats.trouble import NO_MESSAGE, NO_STREAM, api_error
from anarchon_nats.wire import Wire

__all__ = ["Stream", "check_server", "check_stream", "stream_config"]

_LAYOUT: Final = "1"
_LAYOUT_KEY: Final = "anarchon.layout"
_MEMORY_KEY: Final = "anarchon.claim_memory_ms"
_OLDEST: Final = (2, 10)
_NANOSECONDS: Final = 1_000_000
_NAME_TAKEN: Final = 10058
_TRIES_MAX: Final = 5


def check_server(info: Mapping[str, Any], options: Options, where: str) -> str:
    """
    Return the server's version.

    Raises:
        ServerTooOldError: It cannot do what is needed.

        StoreRefusedError: It has no JetStream.
    """
    version = str(info.get("version", ""))
    found = re.match(r"(\d+)\.(\d+)", version)
    if found is None or (int(found[1]), int(found[2])) < _OLDEST:
        msg = f"{where}: the server is NATS {version or 'of unknown version'}; 2.10 or newer is needed"
        raise ServerTooOldError(msg)
    # One without a store of its own may be a node of a cluster, or a leaf, of which others have one.
    if not (info.get("jetstream") or info.get("cluster") or options.domain):
        msg = (
            f"{where}: NATS {version} has no JetStream, and keeps nothing without; start it with -js, or with a"
            " jetstream block in its configuration"
        )
        raise StoreRefusedError(msg)
    return version


def stream_config(options: Options, subjects: Subjects) -> dict[str, Any]:
    """
    Write what the stream has to be.

    A subject takes one message and refuses every other one: that is the claim.
    """
    return {
        "name": subjects.stream,
        "description": "anarchon: claims and ends of runs",
        "subjects": subjects.all_of_stream,
        "retention": "limits",
        "storage": "file",
        "num_replicas": options.replicas or 1,
        "max_msgs_per_subject": 1,
        "discard": "new",
        "discard_new_per_subject": True,
        "max_age": (options.max_age_ms or 0) * _NANOSECONDS,
        "max_consumers": -1,
        "max_msgs": -1,
        "max_bytes": -1,
        "metadata": {_LAYOUT_KEY: _LAYOUT, _MEMORY_KEY: str(options.claim_memory_ms)},
    }


def check_stream(
    config: Mapping[str, Any], options: Options, subjects: Subjects, where: str
) -> None:
    """
    Look at a stream that is there already.

    Raises:
        ProtocolVersionError: Another anarchon-nats has made it.

        StoreRefusedError: It does not keep what is promised, or other instances
            were given other options.
    """
    what = f"{where}: stream {subjects.stream!r}"
    metadata = config.get("metadata") or {}
    layout = metadata.get(_LAYOUT_KEY)
    if layout is None:
        msg = f"{what} is not anarchon's; give this service another prefix"
        raise StoreRefusedError(msg)
    if layout != _LAYOUT:
        msg = (
            f"{what} has layout {layout}, and this version of anarchon-nats knows layout {_LAYOUT}"
        )
        raise ProtocolVersionError(msg)
    must = stream_config(options, subjects)
    for name in ("retention", "max_msgs_per_subject", "discard", "discard_new_per_subject"):
        if config.get(name) != must[name]:
            msg = (
                f"{what} was changed: {name} is {config.get(name)!r} and must be {must[name]!r}, or a run has two"
                " winners"
            )
            raise StoreRefusedError(msg)
    missing = [each for each in subjects.all_of_stream if each not in config.get("subjects", ())]
    if missing:
        raise StoreRefusedError(f"{what} was changed: it does not listen to {', '.join(missing)}")
    memory = metadata.get(_MEMORY_KEY)
    if memory != str(options.claim_memory_ms):
        msg = (
            f"{what} remembers claims for {memory} ms, and claim_memory_ms is {options.claim_memory_ms}: all instances"
            " must be given the same, or one grants what another has forgotten"
        )
        raise StoreRefusedError(msg)
    max_age_ms = config.get("max_age", 0) // _NANOSECONDS
    if 0 < max_age_ms < options.kept_ms:
        msg = (
            f"{what} drops everything after {max_age_ms} ms (max_age), and claim_memory_ms={options.claim_memory_ms}"
            f" needs at least {options.kept_ms}"
        )
        raise StoreRefusedError(msg)
    replicas = config.get("num_replicas", 1)
    if options.replicas not in (None, replicas):
        msg = (
            f"{what} has {replicas} replicas, and replicas is {options.replicas}; `nats stream edit"
            f" {subjects.stream} --replicas={options.replicas}` changes it"
        )
        raise StoreRefusedError(msg)


class Stream:
    """
    What is asked of the stream, beside messages to its subjects.

    Args:
        wire: The connection.

        options: What the user wants.

        subjects: The names.

        where: The server in words.
    """

    def __init__(self, wire: Wire, options: Options, subjects: Subjects, where: str) -> None:
        self._wire = wire
        self._options = options
        self._subjects = subjects
        self._where = where
        self._api = "$JS.API" if options.domain is None else f"$JS.{options.domain}.API"

    async def prepare(self) -> Mapping[str, Any]:
        """
        Make the stream, or look at the one that is there; return what the server tells of it.
        """
        config = stream_config(self._options, self._subjects)
        error: dict[str, Any] | None = None
        for _ in range(_TRIES_MAX):
            told = await self._wire.ask(self._letter("STREAM.INFO", {}))
            error = told.get("error")
            if error is None:
                check_stream(told["config"], self._options, self._subjects, self._where)
                return told
            if error.get("err_code") != NO_STREAM:
                break
            made = await self._wire.ask(self._letter("STREAM.CREATE", config))
            error = made.get("error")
            # Another instance may have come first: what it has made is looked at.
            if error is not None and error.get("err_code") != _NAME_TAKEN:
                break
        assert error is not None
        raise api_error(error, self._where)

    async def info(self) -> Mapping[str, Any]:
        """
        Ask the stream's leader how the stream is; the answer carries the server's time.
        """
        told = await self._wire.ask(self._letter("STREAM.INFO", {}))
        return self._checked(told)

    async def subjects_of(self, filtered: str) -> list[str]:
        """
        List the subjects that have a message and match a filter. The server tells some 100,000 at a time.
        """
        found: list[str] = []
        while True:
            body = {"subjects_filter": filtered, "offset": len(found)}
            told = self._checked(await self._wire.ask(self._letter("STREAM.INFO", body)))
            some = list(told["state"].get("subjects") or ())
            found += some
            if not some or len(found) >= told.get("total", 0):
                return found

    async def read(self, subjects: Sequence[str]) -> list[Mapping[str, Any] | None]:
        """
        Ask the stream's leader for the message of each subject; None where there is none.
        """
        letters = [self._letter("STREAM.MSG.GET", {"last_by_subj": each}) for each in subjects]
        found: list[Mapping[str, Any] | None] = []
        for told in await self._wire.exchange(letters):
            error = told.get("error")
            if error is not None and error.get("err_code") != NO_MESSAGE:
                raise api_error(error, self._where)
            found.append(None if error is not None else told["message"])
        return found

    async def purge(self, filters: Sequence[str]) -> None:
        """
        Remove the messages of the subjects that match.
        """
        letters = [self._letter("STREAM.PURGE", {"filter": each}) for each in filters]
        for told in await self._wire.exchange(letters):
            self._checked(told)

    def _letter(self, call: str, body: Mapping[str, Any]) -> Letter:
        return Letter(f"{self._api}.{call}.{self._subjects.stream}", json.dumps(body).encode())

    def _checked(self, told: dict[str, Any]) -> dict[str, Any]:
        if (error := told.get("error")) is not None:
            raise api_error(error, self._where)
        return told
