"""
`python -m anarchon_chaos` is the command `anarchon-chaos`.
"""

from __future__ import annotations

from anarchon_chaos.cli import main

__all__: list[str] = []

if __name__ == "__main__":
    raise SystemExit(main())
