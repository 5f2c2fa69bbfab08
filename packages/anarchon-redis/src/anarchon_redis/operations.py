"""
The kinds of request of each strategy: the script that answers them, what it is given, what it says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from anarchon.backend import (
    ClaimAnswer,
    ClaimRequest,
    CloseAnswer,
    FinishRequest,
    RegisterAnswer,
    RegisterRequest,
    ReleaseRequest,
    RenewAnswer,
    RenewRequest,
)
from anarchon.errors import BackendError, RequestError
from anarchon.protocol import check_finish_status
from anarchon.records import Reason, Status
from anarchon_redis import answers
from anarchon_redis.keys import Keys
from anarchon_redis.options import IDMP_GRACE_MS, Options, Strategy
from anarchon_redis.requests import AnyRequest, check_request
from anarchon_redis.scripts import Script, script

__all__ = ["Operation", "Plan", "plan_for"]

Request = TypeVar("Request", bound=AnyRequest)
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation(Generic[Request, Answer]):
    """
    One kind of request.

    Args:
        script: What answers it in the server.

        check: Says why a request cannot be kept; None if it can.

        fields: Lays a request out for the script.

        read: Reads the answer, which came at an instant of the server's clock.
    """

    script: Script
    check: Callable[[Request], RequestError | None]
    fields: Callable[[Request], list[str]]
    read: Callable[[Request, list[str], int], Answer | BackendError]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """
    How a strategy serves each kind of request, and where it keeps things.

    Args:
        keys: Names the keys of an item: (keys of the prefix, job, slot).

        settings: What every script is told.

        claim, finish, register, renew, release: The kinds; the last three are those
            of a lease backend.

        history, look: The scripts that only read.
    """

    keys: Callable[[Keys, str, int | None], tuple[str, ...]]
    settings: dict[str, Any]
    claim: Operation[ClaimRequest, ClaimAnswer]
    finish: Operation[FinishRequest, CloseAnswer]
    history: Script
    register: Operation[RegisterRequest, RegisterAnswer] | None = None
    renew: Operation[RenewRequest, RenewAnswer] | None = None
    release: Operation[ReleaseRequest, CloseAnswer] | None = None
    look: Script | None = None

    @property
    def scripts(self) -> list[Script]:
        """
        All scripts of the strategy.
        """
        operations = (self.claim, self.finish, self.register, self.renew, self.release)
        found = [operation.script for operation in operations if operation is not None]
        return [*found, self.history, *([] if self.look is None else [self.look])]


def plan_for(options: Options) -> Plan:
    """
    Return the plan of a strategy.
    """
    settings = {"keep": options.retention.records_per_job}
    if options.retention.age_ms is not None:
        settings["age"] = options.retention.age_ms
    return _lease_plan(settings) if options.leases else _claim_only_plan(options, settings)


def _lease_plan(settings: dict[str, Any]) -> Plan:
    shared = ("clock", "batch", "records", "lease")
    return Plan(
        keys=lambda keys, job, _slot: keys.of(job, "state", "runs", "records"),
        settings=settings,
        claim=Operation(
            script=script("lease_claim", "clock", "lease_glance", "batch", "records", "lease"),
            check=check_request,
            fields=answers.claim_fields,
            read=answers.claim_answer,
        ),
        finish=Operation(
            script=script("lease_finish", *shared),
            check=lambda request: _check_finish(request, leases=True),
            fields=answers.finish_fields,
            read=answers.close_answer,
        ),
        register=Operation(
            script=script("lease_register", *shared),
            check=check_request,
            fields=answers.register_fields,
            read=answers.register_answer,
        ),
        renew=Operation(
            script=script("lease_renew", *shared),
            check=check_request,
            fields=answers.renew_fields,
            read=answers.renew_answer,
        ),
        release=Operation(
            script=script("lease_release", *shared),
            check=check_request,
            fields=answers.release_fields,
            read=answers.close_answer,
        ),
        history=script("lease_history", *shared, "newest"),
        look=script("lease_look", *shared),
    )


def _claim_only_plan(options: Options, settings: dict[str, Any]) -> Plan:
    memory_ms = options.claim_memory_ms
    settings["memory"] = memory_ms
    settings["duration"] = -(-(memory_ms + IDMP_GRACE_MS) // 1_000)
    least_slot = 0 if options.strategy == "stream-id" else None
    name = {"stream-id": "stream", "idmp": "ids"}.get(options.strategy)
    shared = ("clock", "batch", "records", "claims")

    def keys_of(keys: Keys, job: str, slot: int | None) -> tuple[str, ...]:
        return keys.of(job, "open", "runs", "records", name or f"claim:{slot}", "memory")

    def check_claim(request: ClaimRequest) -> RequestError | None:
        unfit = check_request(request, **({} if least_slot is None else {"least_slot": least_slot}))
        if unfit is None and (request.max_lateness_ms or 0) > memory_ms:
            return RequestError(
                f"job {request.job!r}: max_lateness is {request.max_lateness_ms} ms, and claims are remembered"
                f" for {memory_ms} ms; give the backend a longer claim_memory_ms"
            )
        return unfit

    return Plan(
        keys=keys_of,
        settings=settings,
        claim=Operation(
            script=_claims_script(options.strategy),
            check=check_claim,
            fields=answers.only_claim_fields,
            read=answers.only_claim_answer,
        ),
        finish=Operation(
            script=script("claims_finish", *shared),
            check=lambda request: _check_finish(request, leases=False),
            fields=_only_finish_fields,
            read=answers.close_answer,
        ),
        history=script("claims_history", *shared, "newest"),
    )


def _claims_script(strategy: Strategy) -> Script:
    # A claim pays for each function that is made, so that those of the records stay away where they can.
    records = ("records",) if strategy == "idmp" else ()
    return script(f"{strategy.replace('-', '_')}_claim", "clock", "batch", *records, "claims")


def _only_finish_fields(request: FinishRequest) -> list[str]:
    if request.status is Status.INTERRUPTED:
        request = replace(request, reason=Reason.STOPPED)
    return answers.finish_fields(request)


def _check_finish(request: FinishRequest, *, leases: bool) -> RequestError | None:
    unfit = check_request(request)
    if unfit is None:
        try:
            check_finish_status(request, leases=leases)
        except RequestError as error:
            return error
    return unfit
