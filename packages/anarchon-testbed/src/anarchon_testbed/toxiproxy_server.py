"""
Toxiproxy, the proxy that spoils what goes through it.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from http.client import HTTPConnection, HTTPException
from urllib.parse import urlsplit

from anarchon_testbed.containers import ContainerPlan
from anarchon_testbed.errors import ServerFailedError
from anarchon_testbed.server import Server

__all__ = ["ToxiproxyServer", "toxiproxy"]

_ANSWER_SECONDS_MAX = 60
_ACCEPTED = re.compile(r'"name":"([^"]*)".*"message":"Accepted client"')
_COUNTER = re.compile(r"toxiproxy_proxy_(received|sent)_bytes_total\{(.*)\} (\S+)")


class ToxiproxyServer(Server):
    """
    One Toxiproxy, spoken to over HTTP at `url`. It counts the bytes that its proxies pass on.

    Args:
        seed: What its random decisions start from; the same seed decides the same.
    """

    kind = "toxiproxy"

    def __init__(
        self,
        version: str | None = None,
        *,
        own: bool = False,
        seed: int | None = None,
        environment: dict[str, str] | None = None,
    ) -> None:
        special = seed is not None or environment
        super().__init__(version=version, own=own or bool(special), environment=environment)
        self._seed = seed

    def bytes_swallowed(self, proxy: str, direction: str) -> int:
        """
        Count the bytes that a proxy took in and did not pass on, on connections that are over.

        `direction` is "upstream" (requests) or "downstream" (answers).
        """
        total = 0.0
        for way, labels, value in _COUNTER.findall(self._get("/metrics")):
            if f'proxy="{proxy}"' in labels and f'direction="{direction}"' in labels:
                total += float(value) if way == "received" else -float(value)
        return round(total)

    def connections(self) -> Mapping[str, int]:
        """
        Count the connections that each proxy has accepted, by its name, whether its upstream was there or not.

        They are read from the log, which only a server that was started here has.
        """
        return Counter(_ACCEPTED.findall(self.log))

    def _get(self, path: str) -> str:
        connection = HTTPConnection(self.host, self.port, timeout=_ANSWER_SECONDS_MAX)
        with closing(connection):
            try:
                connection.request("GET", path)
                answer = connection.getresponse()
                text = answer.read().decode(errors="replace")
            except HTTPException as error:
                raise ServerFailedError(f"it does not speak HTTP: {error!r}") from error
        if answer.status != 200:
            raise ServerFailedError(f"{path} was answered with {answer.status}")
        return text

    def _prepare(self) -> None:
        """
        Nothing: all it needs to know is in the words that start it.
        """

    def _words(self) -> list[str]:
        words = ["-host", self.host, "-port", str(self.port), "-proxy-metrics"]
        return words if self._seed is None else [*words, "-seed", str(self._seed)]

    def _command(self) -> list[str]:
        assert self._program is not None
        return [*self._program.command, *self._words()]

    def _container(self) -> ContainerPlan | None:
        if self._extra_environment:
            return None
        return ContainerPlan(
            port=self.port, command=tuple(self._words()), environment={}, host_network=True
        )

    def _probe(self) -> str:
        try:
            version = str(json.loads(self._get("/version"))["version"])
        except (ValueError, KeyError) as error:
            raise ServerFailedError("whoever answers there is no Toxiproxy") from error
        return version if version[:1].isdigit() else self.recipe.version

    def _own_url(self) -> str:
        return f"http://{self.host}:{self.port}"

    def _adopt(self, url: str) -> str:
        parts = urlsplit(url)
        self.host, self.port = parts.hostname or "localhost", parts.port or 8474
        return self._probe()


toxiproxy = ToxiproxyServer
"""
Ask for a Toxiproxy (`"2"`), for itself alone with a seed.
"""
