"""
A Toxiproxy is had, starts, passes bytes on, and counts those that it swallows.
"""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

import anarchon_testbed as testbed
from anarchon_testbed import golang
from anarchon_testbed.ports import HOST, free_port
from anarchon_testbed.programs import find_program, obtain_program
from anarchon_testbed.recipes import recipes_for

RECIPE = recipes_for("toxiproxy", None)[0]


def post(proxy: testbed.ToxiproxyServer, path: str, body: object) -> dict[str, Any]:
    """
    Tell a Toxiproxy something, and give what it answers.
    """
    connection = HTTPConnection(proxy.host, proxy.port, timeout=60)
    connection.request("POST", path, json.dumps(body))
    response = connection.getresponse()
    told: dict[str, Any] = json.loads(response.read())
    connection.close()

    assert response.status in {200, 201}
    return told


def listening(proxy: testbed.ToxiproxyServer, name: str, upstream_port: int) -> tuple[str, int]:
    """
    Make a proxy on a port that nobody else can take, and give its address.
    """
    addresses = {"listen": f"{HOST}:0", "upstream": f"{HOST}:{upstream_port}"}
    host, _, port = post(proxy, "/proxies", {"name": name, **addresses})["listen"].partition(":")
    return host, int(port)


@pytest.fixture
def upstream() -> Iterator[socket.socket]:
    """
    Give a socket that listens.
    """
    with socket.create_server((HOST, 0)) as listener:
        listener.settimeout(60)
        yield listener


@pytest.mark.slow
def test_answers_that_are_swallowed_are_counted(
    upstream: socket.socket, until: Callable[[Callable[[], bool]], bool]
) -> None:
    """
    Requests go through, an answer past the limit does not, and the count says so once the connection is over.
    """
    with testbed.toxiproxy(own=True) as proxy:
        address = listening(proxy, "one", upstream.getsockname()[1])
        limit = {"type": "limit_data", "stream": "downstream", "attributes": {"bytes": 0}}
        post(proxy, "/proxies/one/toxics", limit)
        with socket.create_connection(address, timeout=60) as client:
            client.sendall(b"request")
            server, _ = upstream.accept()
            with server:
                request = server.recv(100)
                server.sendall(b"an answer")
                answer = client.recv(100)
        counted = until(lambda: proxy.bytes_swallowed("one", "downstream") == len(b"an answer"))

    assert (b"request", b"") == (request, answer)
    assert counted


@pytest.mark.slow
def test_connections_are_counted_for_each_proxy(
    upstream: socket.socket, until: Callable[[Callable[[], bool]], bool]
) -> None:
    """
    Those that reach the upstream and those that find none count alike, and a proxy that has had none is not named.
    """
    with testbed.toxiproxy(own=True) as proxy:
        there, gone = upstream.getsockname()[1], free_port()
        for name, port, connections in (("here", there, 1), ("gone", gone, 3), ("idle", gone, 0)):
            address = listening(proxy, name, port)
            for _ in range(connections):
                socket.create_connection(address, timeout=60).close()
        counted = until(lambda: proxy.connections() == {"here": 1, "gone": 3})

    assert counted


@pytest.mark.slow
def test_the_seed_is_handed_on() -> None:
    """
    A Toxiproxy with a seed is one's own, and it starts.
    """
    with testbed.toxiproxy(seed=7) as proxy:
        assert proxy.managed
        assert proxy.url == f"http://127.0.0.1:{proxy.port}"


def test_a_program_that_tells_no_number_counts_as_the_version_asked_for(
    bare: Path, tmp_path: Path
) -> None:
    """
    What `go install` makes calls its version "git", so no number can be asked for.
    """
    program = bare / "servers" / RECIPE.name / RECIPE.program
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\necho 'toxiproxy-server version git'\n", encoding="utf-8")
    program.chmod(0o755)

    found = find_program(RECIPE)

    assert (RECIPE.version, "made by go install") == (found.version, found.origin)


def test_go_puts_the_program_under_its_own_name(
    bare: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    `go install` names a program after its folder; in the cache it has the name that it is looked for by.
    """
    go = tmp_path / "bin/go"
    go.parent.mkdir()
    shell = shutil.which("sh", path="/usr/bin:/bin")
    says = "#!/bin/sh\\necho toxiproxy-server version git\\n"
    go.write_text(
        f'#!{shell}\nPATH=/usr/bin:/bin\nmkdir -p "$GOBIN"\nprintf "{says}" > "$GOBIN/server"\n'
        'chmod +x "$GOBIN/server"\n',
        encoding="utf-8",
    )
    go.chmod(0o755)

    found = obtain_program(RECIPE)

    assert bare / "servers" / RECIPE.name / RECIPE.program == found.path


def test_what_go_says_is_passed_on(bare: Path, tmp_path: Path) -> None:
    """
    A Go that fails is quoted; one that is not there is named.
    """
    assert "no go in PATH" in (golang.why_not_go() or "")
    with pytest.raises(testbed.ServerUnavailableError, match="no go in PATH"):
        obtain_program(RECIPE)

    go = tmp_path / "bin/go"
    go.parent.mkdir()
    go.write_text("#!/bin/sh\necho 'module not found' >&2\nexit 1\n", encoding="utf-8")
    go.chmod(0o755)

    assert golang.why_not_go() is None
    with pytest.raises(testbed.ServerUnavailableError, match="module not found"):
        obtain_program(RECIPE)


def test_a_container_has_the_network_of_its_machine() -> None:
    """
    Its proxies listen on ports that nobody knows before, so none could be passed on one by one.
    """
    plan = testbed.toxiproxy()._container()

    assert plan is not None
    assert plan.host_network
