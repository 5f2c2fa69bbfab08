"""
The keeper: a small process beside each server that starts it, signals it, and outlives the test to remove it.

It runs as a script of its own (`python -I -S keeper.py FOLDER`), so that it starts fast and shares nothing with the
test. The server is its child, every process that the server leaves behind becomes its child too, and it ends them all,
and removes the folder, when its standard input closes or the test's process dies, however that dies. Should the keeper
itself be killed, Linux kills the server with it.

One request a line on standard input, one answer a line on standard output, both JSON.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

__all__ = ["Keeper", "main", "tree"]

_LINUX = sys.platform == "linux"
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PARENT_CHECK_MS = 1000
_END_MS_MAX = 60_000
_LOOK_MS = 20


def tree(root: int) -> list[int]:
    """
    List the processes below `root`, parents before their children. Those that only wait to be reaped count too.
    """
    children: dict[int, list[int]] = {}
    for pid, parent in _parents():
        children.setdefault(parent, []).append(pid)
    found = list(children.get(root, []))
    for pid in found:
        found.extend(children.get(pid, []))
    return found


def _parents() -> Iterator[tuple[int, int]]:
    if _LINUX:
        for entry in os.listdir("/proc"):  # noqa: PTH208 - Path objects for every process cost milliseconds here.
            if entry.isdigit():
                with suppress(OSError):
                    stat = Path(f"/proc/{entry}/stat").read_bytes()
                    # The name in parentheses may hold anything, so fields are counted from its end.
                    yield int(entry), int(stat[stat.rindex(b")") + 1 :].split()[1])
        return
    listed = subprocess.run(
        ["/bin/ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True
    )
    for line in listed.stdout.splitlines():
        pid, parent = line.split()
        yield int(pid), int(parent)


class Keeper:
    """
    Keeps one server: at most one process tree at a time, in one folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pid: int | None = None
        self.status: int | None = None
        self.frozen = False
        self.wakeup, write = os.pipe()
        os.set_blocking(self.wakeup, False)
        os.set_blocking(write, False)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        self._libc = ctypes.CDLL(None) if _LINUX else None
        self._answers: dict[str, Callable[..., None]] = {
            "start": self.start,
            "signal": self.signal,
            "freeze": self.freeze,
            "thaw": self.thaw,
            "kill": self.kill,
            "wait": self.wait,
        }

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """
        Do what is asked and describe the server afterwards; what went wrong is an answer too.
        """
        try:
            self._answers[request.pop("do")](**request)
        except Exception as error:  # noqa: BLE001 - The keeper must live on whatever a request does.
            return {"error": f"{type(error).__name__}: {error}"}
        self._reap()
        return {"pid": self.pid, "status": self.status}

    def start(
        self, *, command: list[str], environment: dict[str, str], log: str, user: int | None
    ) -> None:
        """
        Start the server, in a session of its own, as the user given if any.
        """
        keeper = os.getpid()

        def die_with_keeper() -> None:
            if self._libc is not None:
                self._libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
                if os.getppid() != keeper:
                    os._exit(1)

        with Path(log).open("ab") as output:
            process = subprocess.Popen(  # noqa: S603 - The command is the testbed's own.
                command,
                cwd=self.folder / "data",
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                user=user,
                group=user,
                extra_groups=[] if user is not None else None,
                preexec_fn=die_with_keeper,  # noqa: PLW1509 - The keeper has one thread.
            )
        process.returncode = 0  # Its end is waited for here, with that of every other child.
        self.pid, self.status, self.frozen = process.pid, None, False

    def signal(self, *, number: int) -> None:
        """
        Send the server's first process a signal.
        """
        self._reap()
        if self.pid is not None:
            os.kill(self.pid, number)

    def freeze(self) -> None:
        """
        Stop every process of the server, the first one first, so that it starts no more of them meanwhile.
        """
        self._reap()
        if self.pid is None or self.frozen:
            return
        os.kill(self.pid, signal.SIGSTOP)
        if os.waitpid(self.pid, os.WUNTRACED)[1] & 0xFF != 0x7F:  # It ended instead.
            self.pid, self.status = None, -1
            return
        for pid in tree(self.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        self.frozen = True

    def thaw(self) -> None:
        """
        Let every process of the server go on.
        """
        for pid in reversed(tree(os.getpid())):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        self.frozen = False

    def kill(self) -> None:
        """
        End every process of the server at once, and return when none is left.
        """
        end_ms = time.monotonic_ns() // 1_000_000 + _END_MS_MAX
        if self.pid is not None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGSTOP)
        while pids := tree(os.getpid()):
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._reap()
            if time.monotonic_ns() // 1_000_000 > end_ms:
                raise TimeoutError(f"processes {pids} do not end")
            if pids == tree(os.getpid()):
                # The end of a child says so here; that of a grandchild is its parent's to hear.
                select.select([self.wakeup], [], [], _LOOK_MS / 1000)
        self._reap()

    def wait(self, *, ms: int) -> None:
        """
        Wait until the server ends, at most so long.
        """
        self._reap()
        if self.pid is not None and ms:
            select.select([self.wakeup], [], [], ms / 1000)
            self._reap()

    def serve(self) -> None:
        """
        Answer until standard input closes or the test's process is gone.
        """
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        if self._libc is not None:
            self._libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)
        parent = os.getppid()
        buffer = b""
        while os.getppid() == parent:
            readable, _, _ = select.select([0, self.wakeup], [], [], _PARENT_CHECK_MS / 1000)
            self._reap()
            if 0 not in readable:
                continue
            if not (data := os.read(0, 65536)):
                return
            *lines, buffer = (buffer + data).split(b"\n")
            for line in lines:
                os.write(1, json.dumps(self.answer(json.loads(line))).encode() + b"\n")

    def _reap(self) -> None:
        with suppress(BlockingIOError):
            while os.read(self.wakeup, 1024):
                pass
        with suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                pid, status = found
                if pid == self.pid:
                    self.pid, self.status = None, os.waitstatus_to_exitcode(status)


def main() -> None:
    """
    Keep the folder named until the test is over, then leave nothing of it.
    """
    folder = Path(sys.argv[1])
    keeper = Keeper(folder)
    # Held for life: a folder whose lock is free belongs to nobody, and the next server's start removes it.
    with (folder / "keeper.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            keeper.serve()
        finally:
            with suppress(TimeoutError):
                keeper.kill()
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
