"""
A server for a test, whatever its kind: entered with `with` or `async with`, then killed, frozen and restarted at will.
"""

from __future__ import annotations

import os
import signal
import time
from abc import abstractmethod
from contextlib import suppress
from pathlib import Path

from anarchon_testbed.cache import logs_folder
from anarchon_testbed.containers import Contained, ContainerPlan, why_no_container
from anarchon_testbed.context import Enterable, in_thread
from anarchon_testbed.errors import NotOurServerError, ServerFailedError, ServerUnavailableError
from anarchon_testbed.kept import Kept, ordinary_user
from anarchon_testbed.ports import HOST, free_port
from anarchon_testbed.programs import Program, find_program, reachable_by_all
from anarchon_testbed.recipes import Recipe, matches, recipes_for

__all__ = ["Server", "running", "used"]

_READY_MS_MAX = 120_000
_PORT_TRIES_MAX = 5
_POLL_MS = 10
_LOGS_KEPT_MAX = 100

_running: list[Server] = []
_used: dict[str, None] = {}


def running() -> list[Server]:
    """
    List the servers of this process that have been entered and not left yet.
    """
    return list(_running)


def used() -> list[str]:
    """
    Say which servers this process has used so far, each with its version and where it came from.
    """
    return list(_used)


class Server(Enterable):
    """
    One server. Nothing is looked for or started before it is entered, and nothing is left of it after.

    Attributes are of use inside of the context alone. `version` is what the server says itself, `origin` where it was
    found; `managed` is false for one that a URL of the environment gave, which the testbed can neither stop nor start.
    Every waiting method has a blocking twin with `_now` at the end of its name.
    """

    kind: str
    refuses_root = False
    ready_ms_max = _READY_MS_MAX
    stop_signal = signal.SIGTERM

    def __init__(
        self, *, version: str | None, own: bool, environment: dict[str, str] | None
    ) -> None:
        self._wanted = version
        self._own = own
        self._extra_environment = environment or {}
        self._kept: Kept | Contained | None = None
        self._program: Program | None = None
        self.recipe: Recipe = recipes_for(self.kind, version)[0]
        self.name = self.recipe.name
        self.version = ""
        self.origin = ""
        self.host = HOST
        self.port = 0
        self.url = ""
        self.managed = True

    # What a kind says about itself.

    @abstractmethod
    def _prepare(self) -> None:
        """
        Write what the server reads when it starts, for `self.port`. Called again for another port.
        """

    @abstractmethod
    def _command(self) -> list[str]:
        """
        Give the words that start the server.
        """

    def _start_environment(self) -> dict[str, str]:
        """
        Give the variables that the server reads when it starts.
        """
        return {}

    @abstractmethod
    def _probe(self) -> str:
        """
        Ask the server whether it is ready, by its protocol; gives its version, or nothing where it does not tell.

        Raises OSError or ServerFailedError while it is not.
        """

    def _container(self) -> ContainerPlan | None:
        """
        Say how a container of this server is started; None where its options need a program on this machine.
        """
        return None

    @abstractmethod
    def _own_url(self) -> str:
        """
        Give the URL of the server that was started.
        """

    @abstractmethod
    def _adopt(self, url: str) -> str:
        """
        Take a server that somebody else started, and give its version. Raises as `_probe` does.
        """

    # What a test calls.

    @property
    def pid(self) -> int | None:
        """
        The server's first process while it runs. A server given by URL has none here.
        """
        return self._kept.pid if self._kept is not None else None

    @property
    def log(self) -> str:
        """
        All that the server has said so far, over every start.
        """
        return self._kept.log if self._kept is not None else ""

    @property
    def folder(self) -> Path:
        """
        The folder of its data and configuration; it goes with the server. A container has none here.
        """
        kept = self._ours()
        if isinstance(kept, Contained):
            raise ServerFailedError(f"{self.name} runs in a container: its files are not here.")
        return kept.data

    def freeze(self) -> None:
        """
        Stop every process of the server (SIGSTOP), as a paused machine would: connections stay and are silent.
        """
        self._ours().freeze()

    def thaw(self) -> None:
        """
        Let a frozen server go on (SIGCONT).
        """
        self._ours().thaw()

    async def kill(self) -> None:
        """
        Kill the server (SIGKILL), every process of it. Its data stays for a start.
        """
        await in_thread(self.kill_now)

    def kill_now(self) -> None:
        """
        Kill the server as `kill` does, blocking.
        """
        self._ours().kill()

    async def stop(self) -> None:
        """
        End the server as its own manual says. Its data stays for a start.
        """
        await in_thread(self.stop_now)

    def stop_now(self) -> None:
        """
        End the server as `stop` does, blocking.
        """
        self._ours().stop(number=self.stop_signal)

    async def start(self) -> None:
        """
        Start a killed or stopped server again, on its port and with its data, and wait until it is ready.
        """
        await in_thread(self.start_now)

    def start_now(self) -> None:
        """
        Start the server again as `start` does, blocking.
        """
        kept = self._ours()
        if kept.pid is None:
            self._run(kept)
            self._await_ready(kept)

    async def restart(self) -> None:
        """
        Kill the server if it runs, and start it again with its data. Await `stop` first for an orderly end.
        """
        await in_thread(self.restart_now)

    def restart_now(self) -> None:
        """
        Restart the server as `restart` does, blocking.
        """
        self.kill_now()
        self.start_now()

    # Entering and leaving.

    def _enter(self) -> None:
        try:
            if self._own or not self._take_from_environment():
                self._open()
        except BaseException as error:
            self._leave(error)
            raise
        _running.append(self)
        _used[f"{self.kind} {self.version} ({self.origin})"] = None

    # How it is done.

    def _ours(self) -> Kept | Contained:
        if not self.managed:
            raise NotOurServerError(
                f"{self.name} was given by {self.origin}: only who started it can do this. "
                "Ask for a server with `own=True`."
            )
        if self._kept is None:
            raise ServerFailedError(f"{self.name} is not running: enter it first.")
        return self._kept

    def _take_from_environment(self) -> bool:
        recipes = recipes_for(self.kind, self._wanted)
        for variable in dict.fromkeys(name for recipe in recipes for name in recipe.variables):
            if url := os.environ.get(variable):
                try:
                    self.version = self._adopt(url)
                except (OSError, ServerFailedError) as error:
                    raise ServerFailedError(
                        f"The server that {variable} gives does not answer: {error}"
                    ) from error
                if matches(self._wanted, self.version):
                    self.managed, self.url, self.origin = False, url, variable
                    return True
        return False

    def _open(self) -> None:
        user = ordinary_user() if self.refuses_root else None
        self._program = self._find()
        if self._program is None:
            self.version, self.origin = self.recipe.version, f"container {self.recipe.image}"
        else:
            if user is not None:
                self._program = reachable_by_all(self._program)
            self.version, self.origin = self._program.version, self._program.origin
        for attempt in range(1, _PORT_TRIES_MAX + 1):
            self.port = free_port()
            kept: Kept | Contained
            if self._program is None:
                kept = self._kept = Contained(self.recipe, self._container(), port=self.port)
            else:
                kept = self._kept = Kept(user=user)
                self._prepare()
            try:
                self._run(kept)
                self._await_ready(kept)
            except ServerFailedError:
                if attempt == _PORT_TRIES_MAX or "in use" not in kept.log:
                    raise
                kept.close()
            else:
                break
        self.url = self._own_url()

    def _find(self) -> Program | None:
        """
        Find a program, or else say by None that a container of `self.recipe` will do.
        """
        reasons = []
        for recipe in recipes_for(self.kind, self._wanted):
            try:
                program = find_program(recipe)
            except ServerUnavailableError as error:
                reasons.append(str(error))
            else:
                self.recipe, self.name = recipe, recipe.name
                return program
        reason = why_no_container(self.recipe)
        if reason is None and self._container() is not None:
            return None
        reasons.append(
            f"Nor is there a container: {reason or 'these options need a program here'}."
        )
        raise ServerUnavailableError(" ".join(reasons))

    def _run(self, kept: Kept | Contained) -> None:
        if isinstance(kept, Contained):
            kept.run()
        else:
            surroundings = {**_plain_environment(), **self._start_environment()}
            kept.run(self._command(), {**surroundings, **self._extra_environment})

    def _await_ready(self, kept: Kept | Contained) -> None:
        end = time.monotonic() + self.ready_ms_max / 1000
        last: Exception | None = None
        while time.monotonic() < end:
            try:
                version = self._probe()
            except (OSError, ServerFailedError) as error:
                last = error
            else:
                # Somebody else's server may sit on the port; ours has ended then.
                if kept.wait(ms=0):
                    self.version = version or self.version
                    return
            if not kept.wait(ms=_POLL_MS):
                raise ServerFailedError(
                    f"{self.name} ended with status {kept.end_status()} instead of starting:\n{kept.log_end()}"
                )
        raise ServerFailedError(
            f"{self.name} was not ready after {self.ready_ms_max} ms ({last}):\n{kept.log_end()}"
        )

    def _leave(self, error: BaseException | None) -> None:
        with suppress(ValueError):
            _running.remove(self)
        kept, self._kept = self._kept, None
        if kept is None:
            return
        if isinstance(error, Exception) and not isinstance(error, ServerUnavailableError):
            with suppress(OSError):
                error.add_note(f"The log of {self.name} is kept: {self._keep_log(kept)}")
        kept.close()

    def _keep_log(self, kept: Kept | Contained) -> Path:
        target = logs_folder() / f"{self.name}-{os.getpid()}-{self.port}.log"
        target.parent.mkdir(parents=True, exist_ok=True)
        by_age = sorted(target.parent.glob("*.log"), key=lambda path: path.stat().st_mtime)
        for old in by_age[:-_LOGS_KEPT_MAX]:
            old.unlink(missing_ok=True)
        target.write_text(kept.log, encoding="utf-8")
        return target


def _plain_environment() -> dict[str, str]:
    # What the test's own surroundings say of languages, libraries and databases is not for the server.
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}
