"""
A store that is there and refuses: out of memory, read-only, without rights, with another password, with a full disk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import asyncpg  # type: ignore[import-untyped]  # It ships no types.

import anarchon_testbed as testbed
from anarchon_chaos.evidence import now_ns
from anarchon_chaos.history import Fault
from anarchon_chaos.places import Store
from anarchon_chaos.stage import ChaosError, Stage
from anarchon_testbed.resp import Address, RespError, ask

__all__ = ["Refuse"]

_SECRET = "another-password"  # noqa: S105 - It guards a server that lives for a scenario.
_FILL = b"\0" * 65_536


class _Refusal(Protocol):
    """
    One way to refuse: begin it, look whether it is there, lift it.
    """

    def begin(self, store: Store) -> None: ...

    def refuses(self, store: Store) -> bool: ...

    def lift(self, store: Store) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Commands:
    """
    A refusal of Redis or Valkey: the commands that begin and lift it; a write of our own shows that it is there.
    """

    begins: tuple[tuple[str, ...], ...]
    lifts: tuple[tuple[str, ...], ...]
    password: str | None = None

    def begin(self, store: Store) -> None:
        for words in self.begins:
            # The connection that is to be killed may be this one.
            with suppress(OSError):
                ask(self._address(store, None), words)
            if words[:2] == ("CONFIG", "SET") and self.password is not None:
                ask(self._address(store, self.password), ("CLIENT", "KILL", "SKIPME", "yes"))

    def refuses(self, store: Store) -> bool:
        try:
            ask(self._address(store, None), ("SET", "chaos:probe", "1"))
        except RespError:
            return True
        return False

    def lift(self, store: Store) -> None:
        for words in self.lifts:
            ask(self._address(store, self.password), words)

    def _address(self, store: Store, password: str | None) -> Address:
        server = store.server
        assert isinstance(server, testbed.RedisServer)
        return replace(server.address, password=password)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Statements:
    """
    A refusal of PostgreSQL, for the user that the instances are.
    """

    begins: tuple[str, ...]
    lifts: tuple[str, ...]
    probe: str = "CREATE TABLE {schema}.probe (n int); DROP TABLE {schema}.probe"

    def begin(self, store: Store) -> None:
        self._say(store, self.begins)

    def refuses(self, store: Store) -> bool:
        try:
            asyncio.run(self._run(store, (self.probe,), as_user=True))
        except (asyncpg.PostgresError, OSError):
            return True
        return False

    def lift(self, store: Store) -> None:
        self._say(store, self.lifts)

    def _say(self, store: Store, statements: tuple[str, ...]) -> None:
        asyncio.run(self._run(store, statements, as_user=False))

    async def _run(self, store: Store, statements: tuple[str, ...], *, as_user: bool) -> None:
        server = store.server
        assert isinstance(server, testbed.PostgresServer)
        url = store.url().partition("?")[0] if as_user else server.url
        connection = await asyncpg.connect(url)
        try:
            for statement in statements:
                await connection.execute(statement.format(schema=store.place))
        finally:
            await connection.close()


class _FullDisk:
    """
    The file's disk is full: a file beside it takes the rest of a small file system of its own.
    """

    def begin(self, store: Store) -> None:
        with suppress(OSError), self._filler(store).open("wb", buffering=0) as file:
            while file.write(_FILL):
                pass

    def refuses(self, store: Store) -> bool:
        try:
            (Path(store.place).parent / "probe").write_bytes(_FILL)
        except OSError:
            return True
        return False

    def lift(self, store: Store) -> None:
        self._filler(store).unlink()

    @staticmethod
    def _filler(store: Store) -> Path:
        return Path(store.place).parent / "filler"


_KILL_OTHERS = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'chaos'"

_REFUSALS: Mapping[tuple[str, str], Callable[[], _Refusal]] = {
    ("redis", "full"): lambda: _Commands(
        begins=(("CONFIG", "SET", "maxmemory", "1"),), lifts=(("CONFIG", "SET", "maxmemory", "0"),)
    ),
    ("redis", "read-only"): lambda: _Commands(
        # Nobody listens on that port, so nothing is copied from there.
        begins=(("REPLICAOF", "127.0.0.1", "1"),),
        lifts=(("REPLICAOF", "NO", "ONE"),),
    ),
    ("redis", "no-rights"): lambda: _Commands(
        begins=(("ACL", "SETUSER", "default", "-@write", "-@scripting"),),
        lifts=(("ACL", "SETUSER", "default", "+@all"),),
    ),
    ("redis", "password"): lambda: _Commands(
        begins=(("CONFIG", "SET", "requirepass", _SECRET),),
        lifts=(("CONFIG", "SET", "requirepass", ""),),
        password=_SECRET,
    ),
    ("postgres", "read-only"): lambda: _Statements(
        begins=("ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()"),
        lifts=(
            "SET default_transaction_read_only = off",
            "ALTER SYSTEM RESET default_transaction_read_only",
            "SELECT pg_reload_conf()",
        ),
    ),
    ("postgres", "no-rights"): lambda: _Statements(
        begins=("REVOKE ALL ON ALL TABLES IN SCHEMA {schema} FROM chaos",),
        lifts=("GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO chaos",),
        probe="SELECT count(*) FROM {schema}.jobs",
    ),
    ("postgres", "password"): lambda: _Statements(
        begins=("ALTER ROLE chaos NOLOGIN", _KILL_OTHERS), lifts=("ALTER ROLE chaos LOGIN",)
    ),
    ("file", "full"): _FullDisk,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Refuse:
    """
    Make the store refuse for a while: "full", "read-only", "no-rights" or "password".
    """

    how: str
    ms: int

    async def play(self, stage: Stage) -> None:
        """
        Begin it, look whether it refuses, and lift it.
        """
        server = stage.store.server
        kind = server.kind if server is not None else "file"
        make = _REFUSALS.get(("redis" if kind == "valkey" else kind, self.how))
        if make is None:
            raise ChaosError(f"{stage.store.kind.name} cannot be made {self.how}")
        refusal = make()
        since_ns = now_ns()
        await asyncio.to_thread(refusal.begin, stage.store)
        bites = int(await asyncio.to_thread(refusal.refuses, stage.store))
        await asyncio.sleep(self.ms / 1_000)
        bites += int(await asyncio.to_thread(refusal.refuses, stage.store))
        until_ns = now_ns()
        await asyncio.to_thread(refusal.lift, stage.store)
        stage.note(
            Fault(
                kind=f"refuses: {self.how}",
                target="store",
                since_ns=since_ns,
                until_ns=until_ns,
                bites=bites,
            )
        )
