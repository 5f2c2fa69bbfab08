"""
The test's side of the keeper: a folder, and a process in it that can be started, signalled and waited for.
"""

from __future__ import annotations

import fcntl
import json
import os
import pwd
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from anarchon_testbed import keeper
from anarchon_testbed.errors import ServerFailedError, ServerUnavailableError

__all__ = ["Kept", "ordinary_user"]

_ANSWER_MS_MAX = 120_000
_PREFIX = "anarchon-testbed-"
_STALE_AFTER_S = 60
_LOG_LINES_SHOWN = 15


def ordinary_user() -> int | None:
    """
    Give the user that a server which refuses to run as root should run as; nothing where we are not root.
    """
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam("nobody").pw_uid
    except KeyError:
        raise ServerUnavailableError(
            "This server refuses to run as root, and this machine has no user `nobody`: run as another user."
        ) from None


class Kept:
    """
    One server's processes and folder, kept by a process that outlives this one and then removes both.

    `folder/data` is the server's to write in. Calls block, from any thread, one at a time.
    """

    def __init__(self, *, user: int | None = None) -> None:
        base = _base()
        _sweep(base)
        self.user = user
        self.folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base))
        self.folder.chmod(0o711)
        self.data = self.folder / "data"
        self.data.mkdir(mode=0o700)
        self.log_path = self.folder / "server.log"
        self.log_path.touch()
        if user is not None:
            os.chown(self.data, user, user)
        self._lock = threading.Lock()
        self._keeper = subprocess.Popen(  # noqa: S603 - It is our own script.
            [sys.executable, "-I", "-S", keeper.__file__, str(self.folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            bufsize=0,
        )

    @property
    def pid(self) -> int | None:
        """
        The server's first process while it runs.
        """
        pid: int | None = self._ask(do="wait", ms=0)["pid"]
        return pid

    @property
    def log(self) -> str:
        """
        All that the server has said so far, over every start.
        """
        return self.log_path.read_text(encoding="utf-8", errors="replace")

    def log_end(self) -> str:
        """
        The last lines of the log, for a message.
        """
        lines = self.log.strip().splitlines()
        return "\n".join(lines[-_LOG_LINES_SHOWN:]) or "(the log is empty)"

    def run(self, command: Sequence[str | Path], environment: dict[str, str]) -> None:
        """
        Start the server's first process.
        """
        self._ask(
            do="start",
            command=[str(word) for word in command],
            environment=environment,
            log=str(self.log_path),
            user=self.user,
        )

    def wait(self, *, ms: int) -> bool:
        """
        Wait until the first process ends, at most so long, and tell whether it still runs.
        """
        return self._ask(do="wait", ms=ms)["pid"] is not None

    def end_status(self) -> int | None:
        """
        The exit status of the last process that ended; a signal's number is negative.
        """
        status: int | None = self._ask(do="wait", ms=0)["status"]
        return status

    def freeze(self) -> None:
        """
        Stop every process of the server (SIGSTOP); they are stopped when this returns.
        """
        self._ask(do="freeze")

    def thaw(self) -> None:
        """
        Let every process of the server go on (SIGCONT).
        """
        self._ask(do="thaw")

    def kill(self) -> None:
        """
        Kill every process of the server (SIGKILL); none is left when this returns.
        """
        self._ask(do="kill")

    def stop(self, *, number: int = signal.SIGTERM, ms: int = 10_000) -> None:
        """
        Ask the server to end by a signal, and kill it if it has not ended in time.
        """
        self.thaw()  # A frozen process would never see the signal.
        self._ask(do="signal", number=int(number))
        end = time.monotonic() + ms / 1000
        while (left := end - time.monotonic()) > 0 and self.wait(ms=min(int(left * 1000) + 1, 200)):
            pass
        self.kill()

    def close(self) -> None:
        """
        End the server and its keeper, and remove the folder. Twice is once.
        """
        with self._lock:
            assert self._keeper.stdin is not None
            assert self._keeper.stdout is not None
            if self._keeper.stdin.closed:
                return
            self._keeper.stdin.close()
            with suppress(subprocess.TimeoutExpired):
                self._keeper.wait(_ANSWER_MS_MAX / 1000)
            self._keeper.stdout.close()
            shutil.rmtree(self.folder, ignore_errors=True)

    def _ask(self, **request: Any) -> dict[str, Any]:
        with self._lock:
            assert self._keeper.stdin is not None
            assert self._keeper.stdout is not None
            if self._keeper.stdin.closed:
                raise ServerFailedError("This server was removed already: start a new one.")
            output = self._keeper.stdout.fileno()
            line = b""
            with suppress(OSError):
                self._keeper.stdin.write(json.dumps(request).encode() + b"\n")
                while not line.endswith(b"\n"):
                    if not select.select([output], [], [], _ANSWER_MS_MAX / 1000)[0]:
                        break
                    if not (data := os.read(output, 65536)):
                        break
                    line += data
        if not line.endswith(b"\n"):
            raise ServerFailedError("The keeper of this server is gone, and the server with it.")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise ServerFailedError(f"{request['do']} failed: {answer['error']}")
        return answer


def _base() -> Path:
    # Servers that run as another user must reach their folder, and a Unix socket's path has some 100 characters.
    base = Path(tempfile.gettempdir())
    open_to_all = all(folder.stat().st_mode & 0o001 for folder in (base, *base.parents))
    if (os.geteuid() == 0 and not open_to_all) or len(str(base)) > 60:
        return Path("/tmp")  # noqa: S108 - mkdtemp makes the folder in it.
    return base


def _sweep(base: Path) -> None:
    """
    Remove what was left when a keeper was killed together with its test.
    """
    for folder in base.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            if time.time() - folder.stat().st_mtime < _STALE_AFTER_S:
                continue  # Its keeper may not have come to lock it yet.
            with (folder / "keeper.lock").open("a") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
