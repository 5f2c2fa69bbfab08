"""
The commands and their options. What they do stands in a module each.

Those modules are imported inside the commands: a help page needs none of them, and
asyncio, the stores and Rich take longer to import than it takes to read the page.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from anarchon_cli.failing import UsageError, in_one_line

__all__ = ["LogLevel", "StatusName", "app"]

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # Errors that are expected are one line; the others keep Python's own form.
    rich_markup_mode=None,  # Plain help starts in a third of the time, and reads the same in a pipe.
    context_settings={"help_option_names": ["-h", "--help"]},
)

_Target = Annotated[
    str,
    typer.Argument(
        metavar="MODULE:SCHEDULER",
        help="A Scheduler, or a function that returns one, in a module of the current folder or an installed one.",
    ),
]
_Traceback = Annotated[
    bool, typer.Option("--traceback", help="Show the whole traceback of an error.")
]
_Backend = Annotated[
    str | None,
    typer.Option(
        metavar="URL", envvar="ANARCHON_BACKEND", help="The store, e.g. sqlite:///jobs.db."
    ),
]
_Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON object a line instead of a table.")
]


class LogLevel(StrEnum):
    """
    How much of the log is shown.
    """

    DEBUG = "DEBUG"
    INFO = "INFO"
    WARNING = "WARNING"
    ERROR = "ERROR"
    CRITICAL = "CRITICAL"


class StatusName(StrEnum):
    """
    The statuses of an attempt, spelled here so that a help page need not import the core.
    """

    RUNNING = "running"
    SUCCESS = "success"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    SKIPPED = "skipped"


def _show_version(wanted: bool) -> None:
    if wanted:
        from anarchon import __version__  # noqa: PLC0415 - see the module's docstring

        typer.echo(f"anarchon {__version__}")
        raise typer.Exit


@app.callback()
def _anarchon(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """
    A leaderless scheduler: run it, see its next slots, read its history, look after its store.
    """


@app.command("run")
def _run(
    target: _Target,
    *,
    backend: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Use this store in place of the scheduler's own, e.g. sqlite:///jobs.db.",
        ),
    ] = None,
    log_level: Annotated[
        LogLevel, typer.Option(case_sensitive=False, help="Show log records from this level on.")
    ] = LogLevel.INFO,
    traceback: _Traceback = False,
) -> None:
    """
    Run a scheduler until SIGTERM or SIGINT, then hand over. A second signal ends it at once.
    """
    with in_one_line(show_traceback=traceback):
        from anarchon_cli.running import run_scheduler  # noqa: PLC0415 - see the module's docstring

        run_scheduler(target, backend=backend, log_level=log_level)


@app.command("next")
def _next(
    target: Annotated[
        str | None,
        typer.Argument(metavar="MODULE:SCHEDULER", help="The scheduler whose jobs are shown."),
    ] = None,
    *,
    cron: Annotated[
        str | None,
        typer.Option(metavar="EXPRESSION", help="A cron expression instead of a scheduler."),
    ] = None,
    every: Annotated[
        str | None,
        typer.Option(metavar="INTERVAL", help="An interval instead of a scheduler, e.g. 10s."),
    ] = None,
    timezone: Annotated[
        str | None,
        typer.Option(
            metavar="ZONE",
            help="The zone of --cron, and that of the times shown, e.g. Europe/Berlin.",
        ),
    ] = None,
    job: Annotated[str | None, typer.Option(metavar="NAME", help="Only this job.")] = None,
    count: Annotated[int, typer.Option(min=1, max=10_000, help="How many slots of each job.")] = 3,
    after: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Start after this time (ISO 8601, with an offset), not now."
        ),
    ] = None,
    as_json: _Json = False,
    traceback: _Traceback = False,
) -> None:
    """
    Show the next slots of each job. No store is asked.
    """
    with in_one_line(show_traceback=traceback):
        from anarchon_cli.upcoming import (  # noqa: PLC0415 - see the module's docstring
            instant_ms,
            schedules_of,
            show_next,
        )

        fine = show_next(
            schedules_of(target, cron=cron, every=every, timezone=timezone, job=job),
            after_ms=instant_ms(after),
            count=count,
            timezone=timezone,
            as_json=as_json,
        )
        if not fine:
            raise typer.Exit(1)


@app.command("history")
def _history(
    job: Annotated[str | None, typer.Argument(metavar="JOB", help="Only this job.")] = None,
    *,
    backend: _Backend = None,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="How many records at most.")] = 20,
    status: Annotated[
        StatusName | None, typer.Option(help="Only attempts that stand or ended so.")
    ] = None,
    as_json: _Json = False,
    traceback: _Traceback = False,
) -> None:
    """
    Show what ran, where, and how it ended, newest first. The jobs' code is not needed.
    """
    with in_one_line(show_traceback=traceback):
        if backend is None:
            msg = "history needs a store: --backend URL, for example --backend sqlite:///jobs.db."
            raise UsageError(msg)
        from anarchon.records import Status  # noqa: PLC0415 - see the module's docstring
        from anarchon_cli.history import show_history  # noqa: PLC0415 - the same

        wanted = None if status is None else Status(status.value)
        show_history(backend, job, limit=limit, status=wanted, as_json=as_json)


@app.command("doctor")
def _doctor(
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="MODULE:SCHEDULER", help="Compare the jobs of this scheduler with the store's."
        ),
    ] = None,
    *,
    backend: _Backend = None,
    timeout: Annotated[
        str, typer.Option(metavar="DURATION", help="How long the store may take for an answer.")
    ] = "10s",
    strict: Annotated[bool, typer.Option("--strict", help="Fail for a warning too.")] = False,
    as_json: _Json = False,
    traceback: _Traceback = False,
) -> None:
    """
    Look at a store: its settings, its clock, its jobs. Fails when there is a problem.
    """
    with in_one_line(show_traceback=traceback):
        from anarchon_cli.doctor import show_findings  # noqa: PLC0415 - see the module's docstring

        fine = show_findings(target, url=backend, timeout=timeout, strict=strict, as_json=as_json)
        if not fine:
            raise typer.Exit(1)


@app.command("migrate")
def _migrate(
    *,
    backend: _Backend = None,
    sql: Annotated[
        bool, typer.Option("--sql", help="Print the SQL for somebody who may create tables.")
    ] = False,
    grant_to: Annotated[
        str | None,
        typer.Option(metavar="ROLE", help="With --sql: the role that gets a backend's rights."),
    ] = None,
    traceback: _Traceback = False,
) -> None:
    """
    Make or upgrade what a backend keeps in its store. A scheduler does that too when it starts.
    """
    with in_one_line(show_traceback=traceback):
        if backend is None:
            msg = "migrate needs a store: --backend URL, for example --backend sqlite:///jobs.db."
            raise UsageError(msg)
        from anarchon_cli.migrating import (  # noqa: PLC0415 - see the module's docstring
            migrate_store,
        )

        migrate_store(backend, sql=sql, grant_to=grant_to)


@app.command("backends")
def _backends(*, as_json: _Json = False) -> None:
    """
    Show the backends that are installed.
    """
    from anarchon_cli.backends import show_backends  # noqa: PLC0415 - see the module's docstring

    show_backends(as_json=as_json)
