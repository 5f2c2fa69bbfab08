"""
`python -m anarchon_cli` is `anarchon`.
"""

from __future__ import annotations

from anarchon_cli import main

if __name__ == "__main__":
    main()
