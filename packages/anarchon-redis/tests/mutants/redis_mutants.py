"""
Backends with one fault each in what runs in the server.

A module of its own, so that the processes which the kit starts find them by name.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import ClassVar
from weakref import WeakKeyDictionary

from anarchon.backend import ClaimAnswer, ClaimRequest
from anarchon.errors import BackendError
from anarchon_conformance.profile import BackendProfile
from anarchon_redis import RedisBackend, Strategy
from anarchon_redis.conformance import opener_for
from anarchon_redis.hints import Run
from anarchon_redis.scripts import Script

MEMORY_MS = 86_000_000


class Mutant(RedisBackend):
    """
    A backend whose scripts are changed: in each that has it, the old text becomes the new one.

    A fault of the table is not hidden by the glance, which is off unless the fault is in both.
    """

    old: ClassVar[str] = ""
    new: ClassVar[str] = ""
    glances: ClassVar[bool] = False

    def _script(self, script: Script) -> Script:
        changed = script.source
        if self.old:
            changed = changed.replace(self.old, self.new)
        if self.old and not self.glances:
            changed = changed.replace("pcall(glance,", "pcall(error,")
        return Script(script.name, changed)


class NoToken(Mutant):
    """
    Does not look at the token of whoever renews, finishes or claims again.
    """

    old = "state.token ~= '' and state.token == token"
    new = "state.token ~= ''"


class AnyAttempt(Mutant):
    """
    Grants an expired run to whoever asks, whatever attempt they had in mind.
    """

    old = "not over or tonumber(request.attempt) ~= state.attempt + 1"
    new = "not over"


class NoHigh(Mutant):
    """
    Forgets the newest slot once its run has ended.
    """

    old = "state.high ~= '' and tonumber(request.slot) <= tonumber(state.high)"
    new = "false"


class KeptToken(Mutant):
    """
    Leaves the token of a released run in place.
    """

    old = "save(item, state, {'token', '', 'until', NOW_TEXT})"
    new = "save(item, state, {'until', NOW_TEXT})"


class NoOverlap(Mutant):
    """
    Lets two slots of a job be live at once.
    """

    old = "if live and state.token ~= '' and tonumber(state['until']) > NOW then"
    new = "if false then"


class RoundedSlots(Mutant):
    """
    Keeps slots as Lua prints numbers that were computed with.
    """

    old = "local slot, attempt, token, status, reason, problem, started_ago = unpack(fields)"
    new = old + "\n  slot = string.format('%.10g', slot)"


class NoHint(Mutant):
    """
    Publishes nothing, and does not look either, which is how a change of the first moment is heard of.
    """

    old = "redis.pcall('PUBLISH',"
    new = "tostring("

    async def _look(self, runs: Sequence[Run], timeout_ms: int) -> frozenset[str]:
        return frozenset()


class SplitSteps(Mutant):
    """
    Reads the state of every job in one call, and claims by what it has read in the next.

    That next one is several here. Whatever pace the clients keep, none of another client's comes between them:
    where all took the state away before the first claimed, there would be one winner again.
    """

    _claiming: ClassVar[WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Lock]] = (
        WeakKeyDictionary()
    )

    async def claim(
        self, requests: Sequence[ClaimRequest], *, timeout_ms: int
    ) -> Sequence[ClaimAnswer | BackendError]:
        """
        Look first; where nobody has the run, take it from whoever got it meanwhile.
        """
        watched = [(request.job, request.slot, request.attempt) for request in requests]
        free = await self._look(watched, timeout_ms)
        wire = self._opened_wire()
        async with self._claiming.setdefault(asyncio.get_running_loop(), asyncio.Lock()):
            for request in requests:
                if request.job in free:
                    await wire.command("DEL", *self._keys.of(request.job, "state"))
            return await super().claim(requests, timeout_ms=timeout_ms)


class ForgetfulScript(Mutant):
    """
    Sets the key of a claim whether it is there or not.
    """

    old = "if holder then"
    new = "if false then"


class BlindStream(Mutant):
    """
    Takes an entry that is there for its own.
    """

    old = "return held_by(entry[2][2], request)"
    new = "return {'won', '', ''}"


class BlindIds(Mutant):
    """
    Does not look whose token stands in the entry that the server names.
    """

    old = "if not entry or entry[2][2] ~= request.token then"
    new = "if not entry then"


class NeverEarly(Mutant):
    """
    Grants slots of the future.
    """

    glances = True
    old = "EARLY_TOLERANCE = 500"
    new = "EARLY_TOLERANCE = 1e15"


def _profile(kind: type[RedisBackend], strategy: Strategy = "lease") -> BackendProfile:
    memory = {} if strategy == "lease" else {"claim_memory_ms": MEMORY_MS}
    return BackendProfile(name=kind.__name__, open=opener_for(kind, "redis", strategy, **memory))


sound = _profile(Mutant)
sound_script = _profile(Mutant, "script")
sound_stream = _profile(Mutant, "stream-id")
sound_ids = _profile(Mutant, "idmp")
no_token = _profile(NoToken)
any_attempt = _profile(AnyAttempt)
no_high = _profile(NoHigh)
kept_token = _profile(KeptToken)
no_overlap = _profile(NoOverlap)
no_hint = _profile(NoHint)
split_steps = _profile(SplitSteps)
rounded_slots = _profile(RoundedSlots)
never_early = _profile(NeverEarly)
forgetful_script = _profile(ForgetfulScript, "script")
blind_stream = _profile(BlindStream, "stream-id")
blind_ids = _profile(BlindIds, "idmp")
early_script = _profile(NeverEarly, "script")
