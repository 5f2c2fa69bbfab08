"""
Run a scheduler as a program of its own.
"""

from __future__ import annotations

import logging

from anarchon_cli.loading import load_scheduler

__all__ = ["run_scheduler"]

_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def run_scheduler(target: str, *, backend: str | None, log_level: str) -> None:
    """
    Run the scheduler until SIGTERM or SIGINT, and return after the hand-over.

    Raises:
        UsageError: *target* names no scheduler.

        AnarchonError: The scheduler could not start, or cannot use that backend.
    """
    scheduler = load_scheduler(target)
    if backend is not None:
        scheduler.use(backend)
    # A program that has configured its logging by itself keeps what it has.
    logging.basicConfig(level=log_level, format=_FORMAT)
    scheduler.run()
