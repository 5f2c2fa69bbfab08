"""
Signals and forks, in processes of their own.
"""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator

import pytest

from anarchon import MemoryBackend, Scheduler

pytestmark = pytest.mark.slow

PATIENCE_S = 60

PRELUDE = """
import asyncio, json, os, signal, sys, threading
from anarchon import *

def say(*words):
    os.write(1, (json.dumps(words) + "\\n").encode())

scheduler = Scheduler(MemoryBackend(), heartbeat="100ms", stop_timeout=30)
scheduler.on("scheduler_started", lambda event: say("started"))
scheduler.on("start", lambda event: say("handler"))
scheduler.on("scheduler_stopped", lambda event: say("stopped"))
"""


class Program:
    """
    A program that tells what it does, a line of JSON each.
    """

    def __init__(self, code: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", PRELUDE + textwrap.dedent(code)],
            stdout=subprocess.PIPE,
            text=True,
        )
        self.timer = threading.Timer(PATIENCE_S, self.process.kill)
        self.timer.start()

    def says(self) -> Iterator[list[object]]:
        """
        Give each line as it comes, to the end.
        """
        assert self.process.stdout is not None
        for line in self.process.stdout:
            yield json.loads(line)

    def until(self, word: str) -> None:
        """
        Wait until the program says *word*.
        """
        assert any(word == words[0] for words in self.says())

    def end(self) -> tuple[int, list[list[object]]]:
        """
        Wait for its end: the exit status, and what it said last.
        """
        rest = list(self.says())
        assert self.process.stdout is not None
        self.process.stdout.close()
        status = self.process.wait()
        self.timer.cancel()
        return status, rest


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_run_returns_after_the_hand_over_with_status_zero(number: signal.Signals) -> None:
    """
    The first signal hands over; the handlers that stood there before are put back.
    """
    program = Program(
        """
        def mine(*_):
            pass

        signal.signal(signal.SIGTERM, mine)

        @scheduler.every("job", "100ms")
        async def job(ctx):
            await ctx.stopping.wait()
            say("stopping")

        scheduler.run()
        say("returned", signal.getsignal(signal.SIGTERM) is mine,
            signal.getsignal(signal.SIGINT) is signal.default_int_handler)
        """
    )
    program.until("handler")
    program.process.send_signal(number)

    assert (0, [["stopping"], ["stopped"], ["returned", True, True]]) == program.end()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_second_signal_ends_the_program_at_once(number: signal.Signals) -> None:
    """
    A hand-over that takes too long can be cut short.
    """
    program = Program(
        """
        @scheduler.every("job", "100ms")
        async def job(ctx):
            await ctx.stopping.wait()
            say("stopping")
            await asyncio.Event().wait()

        scheduler.run()
        """
    )
    program.until("handler")
    program.process.send_signal(number)
    program.until("stopping")
    program.process.send_signal(number)

    assert (-number, []) == program.end()


def test_wait_with_signals_stops_and_lets_the_program_go_on() -> None:
    """
    For a program that owns its loop: wait(signals=True) returns when the hand-over has ended.
    """
    program = Program(
        """
        scheduler.every("job", "100ms", lambda: None)
        before = signal.getsignal(signal.SIGTERM)

        async def main():
            async with scheduler:
                await scheduler.wait(signals=True)
                say("waited")
            say("end", signal.getsignal(signal.SIGTERM) is before)

        asyncio.run(main())
        """
    )
    program.until("handler")
    program.process.send_signal(signal.SIGTERM)
    status, rest = program.end()

    assert 0 == status
    assert [["stopped"], ["waited"], ["end", True]] == rest[-3:]


def test_signal_while_the_store_does_not_answer_ends_run() -> None:
    """
    A program that never came to life ends with status 0 too.
    """
    program = Program(
        """
        class Gone(MemoryBackend):
            async def open(self, *, timeout_ms):
                say("asked")
                raise StoreUnavailableError("gone")

        scheduler.use(Gone())
        scheduler.run()
        say("returned")
        """
    )
    program.until("asked")
    program.process.send_signal(signal.SIGTERM)
    status, rest = program.end()

    assert 0 == status
    assert ["returned"] == rest[-1]


def test_run_raises_what_start_raises() -> None:
    """
    A refused login ends the program with its error.
    """

    class Refusing(MemoryBackend):
        """
        A store that does not let anybody in.
        """

        async def open(self, *, timeout_ms: int) -> None:
            """
            Refuse.
            """
            raise PermissionError("no")

    scheduler = Scheduler(Refusing(), start_timeout="300ms")
    with pytest.raises(Exception, match="has not answered within 300 ms"):
        scheduler.run()


def test_run_outside_of_the_main_thread_leaves_signals_alone() -> None:
    """
    There it ends by stop() alone.
    """
    before = signal.getsignal(signal.SIGTERM)
    during: list[object] = []
    stopping: list[object] = []
    scheduler = Scheduler(MemoryBackend(), heartbeat="100ms")

    @scheduler.every("job", "100ms")
    async def job() -> None:
        during.append(signal.getsignal(signal.SIGTERM))
        stopping.append(asyncio.ensure_future(scheduler.stop()))

    thread = threading.Thread(target=scheduler.run)
    thread.start()
    thread.join(PATIENCE_S)

    assert not thread.is_alive()
    assert before is during[0] is signal.getsignal(signal.SIGTERM)


def test_processes_forked_after_import_share_no_ids_tokens_or_random_numbers() -> None:
    """
    Preloading servers fork: the label, the tokens and the generator of jitter are made in start().
    """
    program = Program(
        """
        async def life():
            done = asyncio.Event()

            @scheduler.every("job", "100ms")
            def job(ctx):
                say("token", ctx.token, ctx.instance_id, scheduler.instance_id, os.getpid(),
                    scheduler._engine._random.random())
                loop.call_soon_threadsafe(done.set)

            loop = asyncio.get_running_loop()
            async with scheduler:
                await done.wait()

        assert threading.active_count() == 1
        children = []
        for _ in range(2):
            pid = os.fork()
            if pid == 0:
                asyncio.run(life())
                os._exit(0)
            children.append(pid)
        for pid in children:
            say("child", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        """
    )
    status, said = program.end()
    tokens = {words[4]: words for words in said if words[0] == "token"}

    assert 0 == status
    assert [0, 0] == [words[1] for words in said if words[0] == "child"]
    assert 2 == len(tokens)
    one, two = tokens.values()
    for index in (1, 2, 5):
        assert one[index] != two[index]
    for words in (one, two):
        assert words[2] == words[3]
        assert str(words[2]).endswith(f":{words[4]}")


def test_nothing_is_started_before_start() -> None:
    """
    Importing and defining jobs makes no thread and opens nothing.
    """
    program = Program(
        """
        scheduler.every("job", "1s", lambda: None)
        say("threads", threading.active_count(), len(os.listdir("/dev/fd")))
        Scheduler("memory:").cron("job", "* * * * *", lambda: None)
        say("threads", threading.active_count(), len(os.listdir("/dev/fd")))
        """
    )
    status, (before, after) = program.end()

    assert 0 == status
    assert before == after
    assert 1 == before[1]


@pytest.mark.parametrize("backend", ["MemoryBackend", "MemoryClaimBackend"])
def test_loop_that_ends_without_a_stop_ends_all_the_same(backend: str) -> None:
    """
    The program raised, or forgot to stop: its handlers are cancelled, and nobody waits for the store.
    """
    program = Program(
        f"""
        scheduler.use({backend}())

        async def main():
            begun = asyncio.Event()

            @scheduler.every("job", "100ms")
            async def job():
                begun.set()
                await asyncio.Event().wait()

            await scheduler.start()
            await begun.wait()

        asyncio.run(main())
        say("end")
        """
    )
    status, said = program.end()

    assert 0 == status
    assert ["end"] == said[-1]


def test_process_ends_although_a_handlers_thread_never_does() -> None:
    """
    The pool's threads are daemons: a plain function that hangs does not keep the process alive.
    """
    program = Program(
        """
        scheduler = Scheduler(MemoryBackend(), heartbeat="100ms", stop_timeout=0)

        @scheduler.every("job", "100ms")
        def job():
            say("hanging")
            threading.Event().wait()

        scheduler.run()
        say("returned")
        """
    )
    program.until("hanging")
    program.process.send_signal(signal.SIGTERM)

    assert (0, [["returned"]]) == program.end()
