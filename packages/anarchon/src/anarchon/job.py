"""
A job: its name, schedule, handler and options, checked and with the defaults applied.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypedDict, get_args

from anarchon.capabilities import Capabilities
from anarchon.durations import Duration, duration_ms, format_ms
from anarchon.errors import InvalidJobError, InvalidOptionError
from anarchon.handler import HandlerCall, inspect_handler
from anarchon.registry import lease_alternatives
from anarchon.slots import Schedule
from anarchon.slots.facts import fingerprint_of, shortest_gap_of

__all__ = ["CatchUp", "Job", "JobOptions", "JobSpec", "build_job", "check_name", "make_spec"]

CatchUp: TypeAlias = Literal["latest", "none", "all"]

_JITTER_MS_MAX = 2_000
_JITTER_SHARE = 5
_CRASHES_MAX = 3


class JobOptions(TypedDict, total=False):
    """
    The options that every job takes. Durations as everywhere: a timedelta, a text, or seconds.
    """

    jitter: Duration | None
    timeout: Duration | None
    catch_up: CatchUp | None
    catch_up_window: Duration | None
    max_lateness: Duration | None
    max_crashes: int | None
    takeover: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """
    A job as it was written: nothing is applied to it yet.

    ``schedule`` builds the schedule, given the default time zone.
    """

    name: str
    schedule: Callable[[str], Schedule]
    handler: HandlerCall
    options: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """
    A job as the scheduler runs it. Durations are milliseconds.
    """

    name: str
    schedule: Schedule
    handler: HandlerCall
    jitter_ms: int
    timeout_ms: int | None
    catch_up: CatchUp
    catch_up_window_ms: int | None
    max_lateness_ms: int | None
    max_crashes: int
    takeover: bool
    fingerprint: str | None


def make_spec(
    name: object, schedule: Callable[[str], Schedule], handler: object, options: Mapping[str, Any]
) -> JobSpec:
    """
    Check what can be checked without a backend.

    Raises:
        InvalidJobError: The name or the handler cannot be used.

        InvalidOptionError: An option is unknown.
    """
    checked = check_name(name)
    _check_option_names(checked, options)
    return JobSpec(
        name=checked,
        schedule=schedule,
        handler=inspect_handler(checked, handler),
        options=dict(options),
    )


def check_name(name: object) -> str:
    """
    Return the name if a store can hold it.

    Raises:
        InvalidJobError: It is no text, empty, or has a lone surrogate.
    """
    if not isinstance(name, str) or not name:
        msg = f"a job's name is a text of at least one character: it identifies the job in the store; got {name!r}"
        raise InvalidJobError(msg)
    try:
        name.encode()
    except UnicodeEncodeError:
        msg = f"job {name!r}: the name has a lone surrogate, which no store can hold"
        raise InvalidJobError(msg) from None
    if "\x00" in name:
        msg = f"job {name!r}: the name has a NUL character, which not every store can hold"
        raise InvalidJobError(msg)
    return name


def build_job(
    spec: JobSpec,
    capabilities: Capabilities,
    *,
    backend: str,
    timezone: str,
    jitter: Duration | None,
    now_ms: int,
) -> Job:
    """
    Check a job against its backend, and apply the defaults.

    Args:
        spec: The job as it was written.

        capabilities: What the backend offers.

        backend: The backend's name, for messages.

        timezone: The scheduler's default time zone.

        jitter: The scheduler's default jitter; None for the rule of thumb.

        now_ms: From when on the gaps of a schedule of the user's own are looked at.

    Raises:
        DefinitionError: An option is wrong, or the backend does not offer it. The
            message names the job, the option and what is allowed.
    """
    name, options = spec.name, spec.options
    size = len(name.encode())
    if size > capabilities.name_bytes_max:
        msg = (
            f"job {name[:40]!r}…: the name has {size} bytes; {backend} holds at most"
            f" {capabilities.name_bytes_max}, and a name is never cut"
        )
        raise InvalidJobError(msg)
    schedule = spec.schedule(timezone)
    _check_leases(name, options, capabilities, backend)
    catch_up = _catch_up(name, options.get("catch_up"), capabilities)
    takeover = options.get("takeover")
    if takeover is not None and not isinstance(takeover, bool):
        msg = f"job {name!r}: takeover is True or False; got {takeover!r}"
        raise InvalidOptionError(msg)
    return Job(
        name=name,
        schedule=schedule,
        handler=spec.handler,
        jitter_ms=_jitter_ms(
            name, options.get("jitter"), jitter, shortest_gap_of(schedule, now_ms)
        ),
        timeout_ms=_optional_ms(name, "timeout", options),
        catch_up=catch_up,
        catch_up_window_ms=_optional_ms(name, "catch_up_window", options),
        max_lateness_ms=_lateness_ms(name, options, capabilities, backend),
        max_crashes=_crashes(name, options.get("max_crashes")),
        takeover=takeover is not False,
        fingerprint=fingerprint_of(schedule),
    )


def _check_option_names(name: str, options: Mapping[str, Any]) -> None:
    allowed = JobOptions.__annotations__
    for option in options:
        if option == "retries":
            msg = (
                f"job {name!r}: there is no option 'retries': a handler's exception is final. Retry inside the"
                " handler, where it is known what may be repeated (the library stamina does that well)"
            )
            raise InvalidOptionError(msg)
        if option not in allowed:
            msg = f"job {name!r}: unknown option {option!r}; allowed: {', '.join(sorted(allowed))}"
            raise InvalidOptionError(msg)


def _check_leases(
    name: str, options: Mapping[str, Any], capabilities: Capabilities, backend: str
) -> None:
    """
    Refuse what only a lease backend can do.
    """
    if capabilities.leases:
        return
    wanted = {
        "catch_up": options.get("catch_up") in ("latest", "all"),
        "catch_up_window": options.get("catch_up_window") is not None,
        "max_crashes": options.get("max_crashes") is not None,
        "takeover": options.get("takeover") is True,
    }
    for option, asked in wanted.items():
        if asked:
            capabilities.require(
                "leases",
                needed_for=f"job {name!r}: the option {option}={options[option]!r}",
                backend=backend,
                alternatives=lease_alternatives(),
            )


def _catch_up(name: str, value: object, capabilities: Capabilities) -> CatchUp:
    if value is None:
        return "latest" if capabilities.leases else "none"
    allowed: tuple[CatchUp, ...] = get_args(CatchUp)
    for policy in allowed:
        if value == policy:
            return policy
    msg = f"job {name!r}: catch_up is one of {', '.join(map(repr, allowed))}; got {value!r}"
    raise InvalidOptionError(msg)


def _optional_ms(name: str, option: str, options: Mapping[str, Any]) -> int | None:
    value = options.get(option)
    return None if value is None else duration_ms(value, what=f"job {name!r}: {option}")


def _lateness_ms(
    name: str, options: Mapping[str, Any], capabilities: Capabilities, backend: str
) -> int | None:
    """
    Say how late a slot may be claimed: no later than the store remembers who had it.
    """
    wanted_ms = _optional_ms(name, "max_lateness", options)
    memory_ms = capabilities.claim_memory_ms
    if wanted_ms is not None and memory_ms is not None and wanted_ms > memory_ms:
        msg = (
            f"job {name!r}: a max_lateness of {format_ms(wanted_ms)} is longer than {backend} remembers a claim"
            f" ({format_ms(memory_ms)}), and a slot that is older is refused. Allowed: at most"
            f" {format_ms(memory_ms)}, or a longer memory of the backend"
        )
        raise InvalidOptionError(msg)
    return wanted_ms


def _crashes(name: str, value: object) -> int:
    if value is None:
        return _CRASHES_MAX
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        msg = f"job {name!r}: max_crashes is a whole number from 1; got {value!r}"
        raise InvalidOptionError(msg)
    return value


def _jitter_ms(
    name: str, own: Duration | None, default: Duration | None, gap_ms: int | None
) -> int:
    """
    Say how long a claim may be delayed at random.

    At most half of the gap between slots: a claim that comes after the next
    slot's has no winner.
    """
    if own is None and default is None:
        return 0 if gap_ms is None else min(_JITTER_MS_MAX, gap_ms // _JITTER_SHARE)
    if own is None and default is not None:
        wanted_ms = duration_ms(default, what="jitter", minimum_ms=0)
        return wanted_ms if gap_ms is None else min(wanted_ms, gap_ms // 2)
    assert own is not None
    wanted_ms = duration_ms(own, what=f"job {name!r}: jitter", minimum_ms=0)
    if gap_ms is not None and wanted_ms > gap_ms // 2:
        msg = (
            f"job {name!r}: a jitter of {format_ms(wanted_ms)} is more than half of the shortest gap between slots"
            f" ({format_ms(gap_ms)}); a claim that comes after the next slot's has no winner. Allowed: at most"
            f" {format_ms(gap_ms // 2)}"
        )
        raise InvalidOptionError(msg)
    return wanted_ms
