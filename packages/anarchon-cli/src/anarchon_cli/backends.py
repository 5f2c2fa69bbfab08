"""
Which backends are installed, and what each is.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from importlib.metadata import EntryPoint

from anarchon.registry import installed_backends
from anarchon_cli.screen import print_json_lines, print_table

__all__ = ["InstalledBackend", "describe_backend", "show_backends"]


@dataclass(frozen=True, slots=True, kw_only=True)
class InstalledBackend:
    """
    One scheme of backend URLs. ``error`` says why its class cannot be used; ``leases`` is None then.
    """

    scheme: str
    backend: str
    distribution: str
    version: str
    leases: bool | None
    error: str | None = None


def show_backends(*, as_json: bool) -> None:
    """
    Print every installed backend. One that cannot be imported is shown with its error.
    """
    found = [describe_backend(point) for point in installed_backends().values()]
    if as_json:
        print_json_lines(asdict(backend) for backend in found)
        return
    leases = {True: "yes", False: "no: claim only", None: "?"}
    columns = ["scheme", "class", "distribution", "version", "leases"]
    rows = [
        [
            backend.scheme,
            backend.backend,
            backend.distribution,
            backend.version,
            leases[backend.leases],
        ]
        for backend in found
    ]
    if any(backend.error for backend in found):
        columns.append("error")
        for row, backend in zip(rows, found, strict=True):
            row.append(backend.error or "")
    print_table(columns, rows)


def describe_backend(point: EntryPoint) -> InstalledBackend:
    """
    Say what an entry point of a backend leads to. Nothing that it does raises here.
    """
    leases: bool | None = None
    error: str | None = None
    try:
        leases = bool(getattr(point.load(), "keeps_leases", False))
    except Exception as raised:  # noqa: BLE001 - one broken third party must not hide the others
        error = " ".join(f"{type(raised).__qualname__}: {raised}".split())
    return InstalledBackend(
        scheme=point.name,
        backend=point.value.replace(":", "."),
        distribution="?" if point.dist is None else point.dist.name,
        version="?" if point.dist is None else point.dist.version,
        leases=leases,
        error=error,
    )
