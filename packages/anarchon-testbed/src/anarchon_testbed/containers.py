"""
A server in a container, where testcontainers is installed and an engine answers.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from anarchon_testbed.errors import ServerFailedError
from anarchon_testbed.ports import HOST
from anarchon_testbed.recipes import Recipe

__all__ = ["Contained", "ContainerPlan", "why_no_container"]

_LOG_LINES_SHOWN = 15
_MODULE = "testcontainers.core.container"
_ENGINE_SECONDS_MAX = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerPlan:
    """
    How a container is started: the port inside of it, the words of its command, its environment.

    With `host_network` it has no network of its own: a proxy listens on ports that nobody knows beforehand.
    """

    port: int
    command: tuple[str, ...]
    environment: Mapping[str, str]
    host_network: bool = False


def why_no_container(recipe: Recipe) -> str | None:
    """
    Say why a server cannot run in a container here, or nothing if it can.
    """
    if recipe.image is None:
        return f"there is no image of {recipe.name}"
    return _why_no_engine()


@cache
def _why_no_engine() -> str | None:
    if not os.environ.get("DOCKER_HOST") and not any(map(_answers, _sockets())):
        return "no container engine answers"
    try:
        docker = import_module("docker")  # It comes with testcontainers, which is optional.
        import_module(_MODULE)
    except ImportError:
        return "testcontainers is not installed (the extra `containers`)"
    try:
        client = docker.from_env(timeout=_ENGINE_SECONDS_MAX)
        try:
            client.ping()
        finally:
            client.close()
    except Exception as error:  # noqa: BLE001 - Whatever it is, no engine can be used.
        return f"no container engine answers ({type(error).__name__})"
    return None


def _sockets() -> list[Path]:
    runtime = os.environ.get("XDG_RUNTIME_DIR", "/nonexistent")
    return [
        Path("/var/run/docker.sock"),
        Path(runtime) / "docker.sock",
        Path("~/.docker/run/docker.sock").expanduser(),
        Path("~/.docker/desktop/docker.sock").expanduser(),
    ]


def _answers(path: Path) -> bool:
    # The client library leaves a socket open when nobody answers, which fails tests that are strict.
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(_ENGINE_SECONDS_MAX)
        try:
            probe.connect(str(path))
        except OSError:
            return False
    return True


class Contained:
    """
    One server's container, with the calls that a kept process has. testcontainers removes it if the test is killed.
    """

    def __init__(self, recipe: Recipe, plan: ContainerPlan | None, *, port: int) -> None:
        assert recipe.image is not None
        assert plan is not None
        self._container = (
            import_module(_MODULE).DockerContainer(recipe.image).with_command(list(plan.command))
        )
        if plan.host_network:
            self._container.with_kwargs(network_mode="host")
        else:
            self._container.ports[str(plan.port)] = (HOST, port)  # For this machine alone.
        for name, value in plan.environment.items():
            self._container.with_env(name, value)
        self._engine: Any = None

    @property
    def pid(self) -> int | None:
        """
        The server's first process on the engine's machine while it runs.
        """
        if self._engine is None or not self.wait(ms=0):
            return None
        pid: int = self._engine.attrs["State"]["Pid"]
        return pid

    @property
    def log(self) -> str:
        """
        All that the server has said so far.
        """
        if self._engine is None:
            return ""
        said: bytes = self._engine.logs()
        return said.decode(errors="replace")

    def log_end(self) -> str:
        """
        The last lines of the log, for a message.
        """
        return "\n".join(self.log.strip().splitlines()[-_LOG_LINES_SHOWN:]) or "(the log is empty)"

    def run(self) -> None:
        """
        Start the container, the same one again with its data after its first start.
        """
        if self._engine is not None:
            self._engine.start()
            return
        try:
            self._container.start()
        except Exception as error:
            raise ServerFailedError(f"The container did not start: {error}") from error
        self._engine = self._container.get_wrapped_container()

    def wait(self, *, ms: int) -> bool:
        """
        Wait until the container ends, at most so long, and tell whether it still runs.
        """
        end = time.monotonic() + ms / 1000
        while True:
            self._engine.reload()
            if not self._engine.attrs["State"]["Running"]:
                return False
            if time.monotonic() >= end:
                return True
            time.sleep(ms / 1000)  # The engine offers no wait that is this short.

    def end_status(self) -> int | None:
        """
        The exit status of the container's last end.
        """
        self._engine.reload()
        status: int = self._engine.attrs["State"]["ExitCode"]
        return status

    def freeze(self) -> None:
        """
        Pause every process of the container.
        """
        self._engine.pause()

    def thaw(self) -> None:
        """
        Let them go on.
        """
        if self._paused():
            self._engine.unpause()

    def kill(self) -> None:
        """
        Kill the container; it stays, with its data.
        """
        if self.wait(ms=0):
            self.thaw()
            self._engine.kill()
            self._engine.wait()

    def stop(self, *, number: int, ms: int = 10_000) -> None:
        """
        Ask the server to end by a signal, and kill the container if it has not ended in time.
        """
        self.thaw()
        self._engine.kill(signal=number)
        with suppress(Exception):
            self._engine.wait(timeout=ms / 1000)
        self.kill()

    def close(self) -> None:
        """
        Remove the container with its data.
        """
        self._engine = None
        with suppress(Exception):  # The engine may be gone by now, and its containers with it.
            self._container.stop(force=True, delete_volume=True)

    def _paused(self) -> bool:
        self._engine.reload()
        paused: bool = self._engine.attrs["State"]["Paused"]
        return paused
