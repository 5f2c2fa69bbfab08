"""
Certificates for a server on the loopback address, made anew each time.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from anarchon_testbed.errors import ServerUnavailableError

__all__ = ["Certificates", "make_certificates"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificates:
    """
    Three files: the authority that a client trusts, and the server's certificate and key.
    """

    ca: Path
    certificate: Path
    key: Path


def make_certificates(folder: Path) -> Certificates:
    """
    Make an authority and a certificate for 127.0.0.1 and localhost in a folder.
    """
    try:
        import trustme  # noqa: PLC0415 - It is optional: only tests of TLS need it.
    except ImportError:
        raise ServerUnavailableError(
            "A server with TLS needs certificates: install anarchon-testbed[tls]."
        ) from None
    files = Certificates(
        ca=folder / "ca.pem", certificate=folder / "server.pem", key=folder / "server.key"
    )
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1", "localhost")
    authority.cert_pem.write_to_path(files.ca)
    issued.private_key_pem.write_to_path(files.key)
    for index, part in enumerate(issued.cert_chain_pems):
        part.write_to_path(files.certificate, append=index > 0)
    return files
