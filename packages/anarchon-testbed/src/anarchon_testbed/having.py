"""
Say what this machine has, obtain what it lacks, and share one server among the processes of a run.
"""

from __future__ import annotations

import atexit
import os
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from anarchon_testbed.cache import cache_folder
from anarchon_testbed.containers import why_no_container
from anarchon_testbed.errors import ServerUnavailableError, TestbedError
from anarchon_testbed.nats_server import NatsServer
from anarchon_testbed.pgbouncer_server import PgBouncerServer
from anarchon_testbed.postgres_server import PostgresServer
from anarchon_testbed.programs import find_program, obtain_program, why_not_obtainable
from anarchon_testbed.rabbitmq_server import RabbitMQServer
from anarchon_testbed.recipes import RECIPES, Recipe, recipes_for
from anarchon_testbed.redis_server import RedisServer, ValkeyServer
from anarchon_testbed.server import Server
from anarchon_testbed.toxiproxy_server import ToxiproxyServer

__all__ = ["Availability", "available", "obtain", "served", "shared_url"]

_KINDS: dict[str, Callable[..., Server]] = {
    "nats": NatsServer,
    "redis": RedisServer,
    "valkey": ValkeyServer,
    "postgres": PostgresServer,
    "rabbitmq": RabbitMQServer,
    "toxiproxy": ToxiproxyServer,
}
_sharing = threading.Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class Availability:
    """
    Whether one server can be had: its version and where it comes from, or the reason why not and what can be done.
    """

    name: str
    version: str | None
    origin: str
    obtainable: bool

    def __str__(self) -> str:
        """
        One line for people.
        """
        if self.version is not None:
            return f"{self.name:13} {self.version:8} {self.origin}"
        way_out = "can be obtained" if self.obtainable else "cannot be obtained"
        return f"{self.name:13} {'-':8} {way_out}: {self.origin}"


def available() -> list[Availability]:
    """
    Say for each server that the testbed knows whether it can be had here, without downloading or starting one.
    """
    return [_availability(recipe) for recipe in RECIPES]


def _availability(recipe: Recipe) -> Availability:
    for variable in recipe.variables:
        if os.environ.get(variable):
            return Availability(
                name=recipe.name, version="?", origin=f"by URL: {variable}", obtainable=True
            )
    try:
        program = find_program(recipe)
    except ServerUnavailableError:
        if why_no_container(recipe) is None:
            origin = f"container {recipe.image}"
            return Availability(
                name=recipe.name, version=recipe.version, origin=origin, obtainable=True
            )
        reason = why_not_obtainable(recipe)
        return Availability(
            name=recipe.name,
            version=None,
            origin=reason or f"python -m anarchon_testbed obtain {recipe.name}",
            obtainable=reason is None,
        )
    origin = f"{program.origin} ({program.path})"
    return Availability(name=recipe.name, version=program.version, origin=origin, obtainable=True)


def obtain(names: Iterable[str] = ()) -> list[Availability]:
    """
    Download what is missing of the servers named (none: of all) into the project's cache.

    A program is brought where a container would do too: many options need one.

    What cannot be had is said in the answer, not raised. Raises TestbedError for a name that the testbed does not know.
    """
    wanted = list(names)
    known = {recipe.name: recipe for recipe in RECIPES}
    for name in wanted:
        if name not in known:
            raise TestbedError(f"The testbed knows no {name}. It knows {', '.join(known)}.")
    answers = []
    for recipe in (known[name] for name in wanted or known):
        failure = _bring(recipe)
        answer = _availability(recipe)
        if answer.version is None and failure is not None:
            answer = Availability(name=recipe.name, version=None, origin=failure, obtainable=False)
        answers.append(answer)
    for lists in cache_folder().glob("apt-*"):  # A hundred megabytes that are old tomorrow.
        shutil.rmtree(lists, ignore_errors=True)
    return answers


def _bring(recipe: Recipe) -> str | None:
    """
    Bring a program that is missing and can be had; gives the reason if that has failed.
    """
    if any(os.environ.get(variable) for variable in recipe.variables):
        return None
    if why_not_obtainable(recipe) is None:
        try:
            obtain_program(recipe)
        except ServerUnavailableError as error:
            return str(error)
    return None


@contextmanager
def served(kind: str, version: str | None = None) -> Iterator[str]:
    """
    Give the URL of a plain server of a kind for as long as the context lasts. A PgBouncer gets its target by itself.
    """
    with ExitStack() as stack:
        if kind == "pgbouncer":
            target = stack.enter_context(PostgresServer(own=True))
            yield stack.enter_context(PgBouncerServer(target)).url
        else:
            recipes_for(kind, version)
            yield stack.enter_context(_KINDS[kind](version=version)).url


def shared_url(kind: str, version: str | None = None) -> str:
    """
    Give the URL of a server that this process and those it starts share; it is started on the first call.

    It ends with the process that started it. Raises as entering a server does.
    """
    variable = f"ANARCHON_TESTBED_SHARED_{recipes_for(kind, version)[0].name}".upper()
    variable = variable.replace("-", "_").replace(".", "_")
    with _sharing:
        if url := os.environ.get(variable):
            return url
        stack = ExitStack()
        url = stack.enter_context(served(kind, version))
        atexit.register(_end_shared, stack, os.getpid())
        # Processes that are started after this find the server in their environment.
        os.environ[variable] = url
        return url


def _end_shared(stack: ExitStack, owner: int) -> None:
    # A forked process runs this too when it ends; the server is not its own.
    if os.getpid() == owner:
        stack.close()
