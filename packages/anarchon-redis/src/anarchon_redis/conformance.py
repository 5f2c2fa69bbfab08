"""
This backend as the conformance kit opens it; only its entry points import this module.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from anarchon.records import Retention
from anarchon_conformance.profile import BackendProfile, Opener
from anarchon_redis.backend import RedisBackend
from anarchon_redis.options import Strategy


def opener_for(kind: type[RedisBackend], strategy: Strategy, **options: Any) -> Opener:
    @asynccontextmanager
    async def opened(
        namespace: str, /, *, retention: Retention | None = None
    ) -> AsyncIterator[RedisBackend]:
        backend = kind(
            os.environ["ANARCHON_TEST_REDIS_URL"],
            strategy=strategy,
            prefix=f"{strategy}:{namespace}",
            retention=retention,
            **options,
        )
        await backend.open(timeout_ms=15_000)
        try:
            yield backend
        finally:
            await backend.close()

    return opened


lease = BackendProfile(name="redis-lease", open=opener_for(RedisBackend, "lease"))
stream_id = BackendProfile(name="redis-stream-id", open=opener_for(RedisBackend, "stream-id"))
script = BackendProfile(
    name="redis-script",
    open=opener_for(RedisBackend, "script", claim_memory_ms=3_000_000_000_000),
)
idmp = BackendProfile(
    name="redis-idmp", open=opener_for(RedisBackend, "idmp", claim_memory_ms=86_000_000)
)
