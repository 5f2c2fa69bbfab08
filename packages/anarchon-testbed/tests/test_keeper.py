"""
Nothing is left behind, whatever ends the test, and what went wrong can be read.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

import anarchon_testbed as testbed
from anarchon_testbed import kept, server
from anarchon_testbed.keeper import tree

pytestmark = pytest.mark.slow

Until = Callable[[Callable[[], bool]], bool]
IsGone = Callable[[int], bool]

HOLD = """
import os, signal, sys
import anarchon_testbed as testbed

server = getattr(testbed, sys.argv[1])(own=True).__enter__()
if "frozen" in sys.argv:
    server.freeze()
child = 0
if "forked" in sys.argv:
    child = os.fork()
    if not child:
        signal.pause()
print(server.pid, server.folder, child, flush=True)
signal.pause()
"""


@pytest.mark.parametrize(
    "how",
    [("redis",), ("redis", "frozen"), ("redis", "forked"), ("postgres", "frozen")],
    ids="-".join,
)
def test_a_killed_test_leaves_nothing(how: tuple[str, ...], until: Until, is_gone: IsGone) -> None:
    """
    When the test's process is killed, the server ends and its folder goes: also when the server is frozen, and when
    a process that the test forked lives on.
    """
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, *how], stdout=subprocess.PIPE, text=True
    ) as test:
        assert test.stdout is not None
        words = test.stdout.readline().split()
        pid, folder, child = int(words[0]), Path(words[1]), int(words[2])
        pids = [pid, *tree(pid)]
        test.kill()
    ended = until(lambda: all(map(is_gone, pids)))
    removed = until(lambda: not folder.parent.exists())
    if child:
        os.kill(child, signal.SIGKILL)

    assert (True, True) == (ended, removed)
    assert len(pids) > 1 or "postgres" not in how


@pytest.mark.skipif(  # Only Linux promises it; elsewhere there is nothing to test.
    sys.platform != "linux", reason="only Linux ends a child with its parent"
)
def test_a_killed_keeper_takes_the_server_along(until: Until, is_gone: IsGone) -> None:
    """
    Without its keeper the server ends too, every call says what happened, and leaving still removes the folder.
    """
    with testbed.redis(own=True) as server:
        pid, folder = server.pid, server.folder
        assert pid is not None
        with Path(f"/proc/{pid}/stat").open() as stat:
            keeper = int(stat.read().rpartition(")")[2].split()[1])
        os.kill(keeper, signal.SIGKILL)

        assert until(lambda: is_gone(pid))
        with pytest.raises(testbed.ServerFailedError, match="keeper"):
            server.restart_now()

    assert not folder.parent.exists()


def test_what_a_killed_keeper_left_goes_with_the_next_start() -> None:
    """
    A folder that nobody keeps is removed once it is old enough; a kept one, and a fresh one, stay.
    """
    base = Path(tempfile.gettempdir())
    with testbed.redis(own=True) as server:
        left = Path(tempfile.mkdtemp(prefix="anarchon-testbed-", dir=base))
        fresh = Path(tempfile.mkdtemp(prefix="anarchon-testbed-", dir=base))
        for folder in (left, server.folder.parent):
            os.utime(folder, (1, 1))
        kept._sweep(base)
        there = [left.exists(), fresh.exists(), server.folder.exists()]
        fresh.rmdir()

    assert [False, True, True] == there


def test_a_server_that_does_not_start_says_why(bare_logs: Path) -> None:
    """
    The error has the last words of the server, and a note that names the log which is kept.
    """
    with pytest.raises(testbed.ServerFailedError, match=r"Bad directive|bad-setting") as caught:
        testbed.redis(config={"bad-setting": "1"}).__enter__()

    (note,) = caught.value.__notes__
    assert "bad-setting" in Path(note.rpartition(": ")[2]).read_text(encoding="utf-8")
    assert [] == testbed.running()


def test_a_failed_test_keeps_the_log(bare_logs: Path) -> None:
    """
    An error that leaves the context takes along where the log is; a context that ends well keeps none.
    """
    with testbed.redis(own=True):
        pass
    before = list(bare_logs.rglob("*.log"))

    def fail() -> None:
        with testbed.redis(own=True):
            raise AssertionError("as a test does")

    with pytest.raises(AssertionError) as caught:
        fail()

    assert [] == before
    assert 1 == len(list(bare_logs.rglob("*.log")))
    assert "log of redis" in caught.value.__notes__[0]


def test_a_cancelled_start_leaves_nothing() -> None:
    """
    A task that is cancelled while its server starts ends cancelled, and the server is gone.
    """

    async def main() -> bool:
        server = testbed.redis(own=True)
        task = asyncio.create_task(server.__aenter__())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task})
        return task.cancelled() and server.pid is None

    assert asyncio.run(main())
    assert [] == testbed.running()


def test_processes_of_a_run_share_a_server() -> None:
    """
    A process that is started after the first call gets the same URL; the server ends with the process that started it.
    """
    program = """
import subprocess, sys
import anarchon_testbed as testbed
url = testbed.shared_url("redis")
child = "import anarchon_testbed as t; print(t.shared_url('redis'), len(t.running()))"
told = subprocess.run([sys.executable, "-c", child], capture_output=True, text=True, check=True).stdout.split()
print(told == [url, "0"], url == testbed.shared_url("redis"), testbed.running()[0].pid)
"""
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=300
    )
    same, again, pid = result.stdout.split()

    assert ("True", "True") == (same, again)
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid), 0)


@pytest.fixture
def bare_logs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """
    Let logs be kept in a folder of the test, and servers be found where they are.
    """
    testbed.redis(own=True)._find()  # It is remembered where the program is.
    monkeypatch.setattr(server, "logs_folder", lambda: tmp_path)
    return tmp_path
